package worker_test

import (
	"errors"
	"testing"

	"seedbed"
)

// TestResizeMethods calls each over the wire: the domain that has a disk open
// goes first, and the pool knows of it.
func TestResizeMethods(t *testing.T) {
	t.Parallel()
	ctx, l := t.Context(), start(t)
	spec := volume()
	v, err := l.CloneVolume(ctx, call(1), spec)
	must(t, "clone", err)
	dom := seedbed.DomainSpec{ID: v.Instance, Name: "web1", VCPUs: 1, Memory: seedbed.GiB, Disks: []seedbed.Disk{v.Disk}}
	must(t, "define", l.DefineDomain(ctx, call(1), dom))
	must(t, "resize the domain", l.ResizeDomain(ctx, call(1), v.Instance, 2, 0))
	if now, _ := l.domain.Spec(v.Instance); now.VCPUs != 2 || now.Memory != seedbed.GiB {
		t.Errorf("domain %+v", now)
	}
	must(t, "start", l.StartDomain(ctx, call(1), v.Instance))

	got, err := l.ResizeVolume(ctx, call(1), "default", v.Name, v.Instance, 2*v.Size)
	if err != nil || got.Size != 2*v.Size || l.domain.Told(v.Instance, v.Disk.Source) != 2*v.Size {
		t.Errorf("resize while it runs: %+v, %v; the guest was told %s", got, err, l.domain.Told(v.Instance, v.Disk.Source))
	}
	for _, c := range []struct {
		what string
		err  error
		want error
	}{
		{"smaller", second(l.ResizeVolume(ctx, call(1), "default", v.Name, v.Instance, v.Size)), seedbed.ErrInvalid},
		{"half a sector", second(l.ResizeVolume(ctx, call(1), "default", v.Name, v.Instance, 2*v.Size+1)), seedbed.ErrInvalid},
		{"no pool", second(l.ResizeVolume(ctx, call(1), "none", v.Name, v.Instance, 3*v.Size)), seedbed.ErrNotFound},
		{"no instance", second(l.ResizeVolume(ctx, call(1), "default", v.Name, "x", 3*v.Size)), seedbed.ErrInvalid},
		{"another's", second(l.ResizeVolume(ctx, call(1), "default", v.Name, seedbed.NewInstanceID(), 3*v.Size)), seedbed.ErrConflict},
		{"domain that runs", l.ResizeDomain(ctx, call(1), v.Instance, 1, 0), seedbed.ErrInUse},
		{"older epoch", second(l.ResizeVolume(ctx, call(0), "default", v.Name, v.Instance, 3*v.Size)), seedbed.ErrStale},
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
