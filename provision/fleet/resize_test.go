package fleet_test

import (
	"errors"
	"testing"

	"seedbed"
	"seedbed/provision/effects"
)

// TestResizeMethods calls each method over the wire: the domain that has a disk open resizes it
// first, and the pool records that.
func TestResizeMethods(t *testing.T) {
	t.Parallel()
	ctx, l := t.Context(), start(t)
	spec := volume()
	v, err := effects.CloneVolume.Do(ctx, l, call(1), spec)
	must(t, "clone", err)
	dom := seedbed.DomainSpec{ID: v.Instance, Name: "web1", VCPUs: 1, Memory: seedbed.GiB, Disks: []seedbed.Disk{v.Disk}}
	must(t, "define", effects.DefineDomain.Do(ctx, l, call(1), dom))
	must(t, "resize the domain", effects.ResizeDomain.Do(ctx, l, call(1), effects.DomainSize{ID: v.Instance, VCPUs: 2, Memory: 0}))
	if now, _ := l.domain.Spec(v.Instance); now.VCPUs != 2 || now.Memory != seedbed.GiB {
		t.Errorf("domain %+v", now)
	}
	must(t, "start", effects.StartDomain.Do(ctx, l, call(1), effects.DomainRef{ID: v.Instance}))

	got, err := effects.ResizeVolume.Do(ctx, l, call(1),
		effects.VolumeSize{Pool: "default", Name: v.Name, Instance: v.Instance, Size: 2 * v.Size})
	if err != nil || got.Size != 2*v.Size || l.domain.Told(v.Instance, v.Disk.Source) != 2*v.Size {
		t.Errorf("resize while it runs: %+v, %v; the guest was told %s", got, err, l.domain.Told(v.Instance, v.Disk.Source))
	}
	for _, c := range []struct {
		what string
		err  error
		want error
	}{
		{"smaller", second(effects.ResizeVolume.Do(ctx, l, call(1),
			effects.VolumeSize{Pool: "default", Name: v.Name, Instance: v.Instance, Size: v.Size})), seedbed.ErrInvalid},
		{"half a sector", second(effects.ResizeVolume.Do(ctx, l, call(1),
			effects.VolumeSize{Pool: "default", Name: v.Name, Instance: v.Instance, Size: 2*v.Size + 1})), seedbed.ErrInvalid},
		{"no pool", second(effects.ResizeVolume.Do(ctx, l, call(1),
			effects.VolumeSize{Pool: "none", Name: v.Name, Instance: v.Instance, Size: 3 * v.Size})), seedbed.ErrNotFound},
		{"no instance", second(effects.ResizeVolume.Do(ctx, l, call(1),
			effects.VolumeSize{Pool: "default", Name: v.Name, Instance: "x", Size: 3 * v.Size})), seedbed.ErrInvalid},
		{"another's", second(effects.ResizeVolume.Do(ctx, l, call(1),
			effects.VolumeSize{Pool: "default", Name: v.Name, Instance: seedbed.NewInstanceID(), Size: 3 * v.Size})), seedbed.ErrConflict},
		{"domain that runs", effects.ResizeDomain.Do(ctx, l, call(1), effects.DomainSize{ID: v.Instance, VCPUs: 1, Memory: 0}), seedbed.ErrInUse},
		{"older epoch", second(effects.ResizeVolume.Do(ctx, l, call(0),
			effects.VolumeSize{Pool: "default", Name: v.Name, Instance: v.Instance, Size: 3 * v.Size})), seedbed.ErrStale},
	} {
		if !errors.Is(c.err, c.want) {
			t.Errorf("%s: %v; want one that is %q", c.what, c.err, c.want)
		}
	}
	if told := l.domain.Told(v.Instance, v.Disk.Source); told != 2*v.Size {
		t.Errorf("what was refused reached the guest: %s", told)
	}
}

func second[T any](_ T, err error) error { return err }
