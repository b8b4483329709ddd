package drivertest

import (
	"context"
	"os"
	"testing"

	"seedbed"
	"seedbed/provision/worker"
)

// copyOf asks for a copy of a volume.
func copyOf(v seedbed.VolumeSpec, size seedbed.Bytes) seedbed.VolumeCopy {
	spec := clone(size)
	spec.Image = ""
	return seedbed.VolumeCopy{VolumeSpec: spec, From: v.Name, Of: v.Instance, Snapshot: "copy-1"}
}

func testCopy(t *testing.T, d PoolDriver, p worker.Pool) {
	ctx := t.Context()
	image, v, _ := cloned(t, p)
	text := []byte("what the copied volume has")
	if d.Devices {
		device, err := p.MapVolume(ctx, seedbed.NewJobID(), v.Name, v.Instance)
		ok(t, "map", err)
		onDevice(t, device, func(f *os.File) error { _, err := f.WriteAt(text, 6<<20); return err })
		ok(t, "unmap", p.UnmapVolume(ctx, v.Name, v.Instance))
	}
	job, spec, last := seedbed.NewJobID(), copyOf(v, 16*seedbed.MiB), -1
	got, err := p.CopyVolume(ctx, job, spec, func(s seedbed.Progress) {
		if s.Percent() < last || s.Done > s.Total {
			t.Errorf("progress goes back or beyond its end: %v after %d%%", s, last)
		}
		last = s.Percent()
	})
	ok(t, "copy", err)
	if last != 100 {
		t.Errorf("progress ends at %d%%", last)
	}
	if got.Name != spec.Name || got.Instance != spec.Instance || got.Project != "acme" || got.Job != job || got.Size != 16*seedbed.MiB ||
		got.Disk.Backing != "" {
		t.Errorf("got %+v", got)
	}
	if same, err := p.CopyVolume(ctx, job, spec, nil); err != nil || same != got {
		t.Errorf("copy again: %+v, %v", same, err)
	}
	snapshots(t, p, v)
	ok(t, "remove the other", p.RemoveVolume(ctx, v.Name, v.Instance))
	ok(t, "remove its image", p.RemoveImage(ctx, image, "base"))
	volumes(t, p, got)
	if d.Devices {
		device, err := p.MapVolume(ctx, seedbed.NewJobID(), spec.Name, spec.Instance)
		ok(t, "map the copy", err)
		onDevice(t, device, func(f *os.File) error {
			for at, want := range map[int64]string{1 << 20: "seedbed ", 6 << 20: string(text), 12 << 20: "\x00"} {
				have := make([]byte, len(want))
				if _, err := f.ReadAt(have, at); err != nil || string(have) != want {
					t.Errorf("at %d the copy has %q, %v; want %q", at, have, err, want)
				}
			}
			return nil
		})
		ok(t, "unmap the copy", p.UnmapVolume(ctx, spec.Name, spec.Instance))
	}
	ok(t, "stop what does not go on", p.StopFlatten(ctx, spec.Name, spec.Instance))
	ok(t, "remove the copy", p.RemoveVolume(ctx, spec.Name, spec.Instance))
	volumes(t, p)
}

func testCopyRefused(t *testing.T, _ PoolDriver, p worker.Pool) {
	ctx, job := t.Context(), seedbed.NewJobID()
	_, v, info := cloned(t, p)
	const size = 16 * seedbed.MiB
	absent, small, imaged, other := copyOf(clone(0), size), copyOf(v, size/4), copyOf(v, size), copyOf(v, size)
	imaged.Image, other.Of = "base", seedbed.NewInstanceID()
	for _, c := range []struct {
		what string
		spec seedbed.VolumeCopy
		want error
	}{
		{"an absent volume", absent, seedbed.ErrNotFound},
		{"another instance's", other, seedbed.ErrConflict},
		{"a smaller copy", small, seedbed.ErrInvalid},
		{"a copy with an image", imaged, seedbed.ErrInvalid},
	} {
		_, err := p.CopyVolume(ctx, job, c.spec, nil)
		is(t, c.what, err, c.want)
		ok(t, "remove what is left of "+c.what, p.RemoveSnapshot(ctx, snapshotOf(v, "copy-1"), job))
	}
	snapshots(t, p, v)
	volumes(t, p, info)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	_, err := p.CopyVolume(ended, job, copyOf(v, 16*seedbed.MiB), nil)
	is(t, "ended context", err, context.Canceled)
	volumes(t, p, info)
}
