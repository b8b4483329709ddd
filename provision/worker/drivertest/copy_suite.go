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
	return seedbed.VolumeCopy{VolumeSpec: spec, CopySource: sourceOf(v)}
}

func sourceOf(v seedbed.VolumeSpec) seedbed.CopySource {
	return seedbed.CopySource{From: v.Name, Of: v.Instance, Snapshot: "copy-1"}
}

// writeText writes a text into the volume, if the driver has block devices.
func writeText(t *testing.T, d PoolDriver, p worker.Pool, v seedbed.VolumeSpec, at int64, text string) {
	t.Helper()
	if !d.Devices {
		return
	}
	device, err := p.MapVolume(t.Context(), seedbed.NewJobID(), v.Name, v.Instance)
	ok(t, "map", err)
	onDevice(t, device, func(f *os.File) error { _, err := f.WriteAt([]byte(text), at); return err })
	ok(t, "unmap", p.UnmapVolume(t.Context(), v.Name, v.Instance))
}

// readsTexts checks texts in the volume, by their places, if the driver has block devices.
func readsTexts(t *testing.T, d PoolDriver, p worker.Pool, v seedbed.VolumeSpec, texts map[int64]string) {
	t.Helper()
	if !d.Devices {
		return
	}
	device, err := p.MapVolume(t.Context(), seedbed.NewJobID(), v.Name, v.Instance)
	ok(t, "map", err)
	onDevice(t, device, func(f *os.File) error {
		for at, want := range texts {
			have := make([]byte, len(want))
			if _, err := f.ReadAt(have, at); err != nil || string(have) != want {
				t.Errorf("at %d volume %s has %q, %v; want %q", at, v.Name, have, err, want)
			}
		}
		return nil
	})
	ok(t, "unmap", p.UnmapVolume(t.Context(), v.Name, v.Instance))
}

func testCopy(t *testing.T, d PoolDriver, p worker.Pool) {
	ctx := t.Context()
	image, v, _ := cloned(t, p)
	const text = "what the copied volume has"
	writeText(t, d, p, v, 6<<20, text)
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
	readsTexts(t, d, p, spec.VolumeSpec, map[int64]string{1 << 20: "seedbed ", 6 << 20: text, 12 << 20: "\x00"})
	ok(t, "stop what does not go on", p.StopFlatten(ctx, spec.Name, spec.Instance))
	ok(t, "remove the copy", p.RemoveVolume(ctx, spec.Name, spec.Instance))
	volumes(t, p)
}

func testCopyRefused(t *testing.T, _ PoolDriver, p worker.Pool) {
	ctx, job := t.Context(), seedbed.NewJobID()
	_, v, info := cloned(t, p)
	const size = 16 * seedbed.MiB
	absent, small, imaged, other, never := copyOf(clone(0), size), copyOf(v, size/4), copyOf(v, size), copyOf(v, size), copyOf(v, size)
	imaged.Image, other.Of, never.At = "base", seedbed.NewInstanceID(), "never"
	for _, c := range []struct {
		what string
		spec seedbed.VolumeCopy
		want error
	}{
		{"an absent volume", absent, seedbed.ErrNotFound},
		{"another instance's", other, seedbed.ErrConflict},
		{"a smaller copy", small, seedbed.ErrInvalid},
		{"a copy with an image", imaged, seedbed.ErrInvalid},
		{"a snapshot that was not taken", never, seedbed.ErrNotFound},
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

// testCopyAt copies what a volume had at a snapshot, which stays.
func testCopyAt(t *testing.T, d PoolDriver, p worker.Pool) {
	ctx, job := t.Context(), seedbed.NewJobID()
	_, v, _ := cloned(t, p)
	writeText(t, d, p, v, 6<<20, "before")
	_, err := p.CreateSnapshot(ctx, job, snapshotOf(v, "s1"))
	ok(t, "take the snapshot", err)
	writeText(t, d, p, v, 6<<20, "after!")
	spec := copyOf(v, 16*seedbed.MiB)
	spec.At, spec.Snapshot = "s1", ""
	_, err = p.CopyVolume(ctx, job, spec, nil)
	ok(t, "copy", err)
	snapshots(t, p, v, "s1")
	ok(t, "remove the snapshot", p.RemoveSnapshot(ctx, snapshotOf(v, "s1"), ""))
	readsTexts(t, d, p, spec.VolumeSpec, map[int64]string{1 << 20: "seedbed ", 6 << 20: "before", 12 << 20: "\x00"})
	readsTexts(t, d, p, v, map[int64]string{6 << 20: "after!"})
}

// testImageOf makes images of what a volume has, and of what it had at a snapshot.
func testImageOf(t *testing.T, d PoolDriver, p worker.Pool) {
	ctx, job := t.Context(), seedbed.NewJobID()
	base, v, _ := cloned(t, p)
	writeText(t, d, p, v, 6<<20, "before")
	_, err := p.CreateSnapshot(ctx, seedbed.NewJobID(), snapshotOf(v, "s1"))
	ok(t, "take the snapshot", err)
	writeText(t, d, p, v, 6<<20, "after!")
	now, then := seedbed.ImageSpec{Name: "acme/now", Project: "acme", CopySource: sourceOf(v)}, seedbed.ImageSpec{Name: "then"}
	then.CopySource = seedbed.CopySource{From: v.Name, Of: v.Instance, At: "s1"}
	for _, spec := range []seedbed.ImageSpec{now, then} {
		last := -1
		got, err := p.ImportImage(ctx, job, spec, func(s seedbed.Progress) {
			if s.Percent() < last || s.Done > s.Total {
				t.Errorf("progress goes back or beyond its end: %v after %d%%", s, last)
			}
			last = s.Percent()
		})
		ok(t, "make "+spec.Name, err)
		if got.Name != spec.Name || got.Job != job || got.Project != spec.Project || got.Size != 8*seedbed.MiB || got.Format == "" {
			t.Errorf("image %s is %+v", spec.Name, got)
		}
		same, err := p.ImportImage(ctx, job, spec, nil)
		if err != nil || same != got {
			t.Errorf("make %s again: %+v, %v", spec.Name, same, err)
		}
		_, err = p.ImportImage(ctx, seedbed.NewJobID(), spec, nil)
		is(t, "another job's "+spec.Name, err, seedbed.ErrConflict)
	}
	snapshots(t, p, v, "s1")
	ok(t, "remove the volume", p.RemoveVolume(ctx, v.Name, v.Instance))
	ok(t, "remove its image", p.RemoveImage(ctx, base, "base"))
	for name, text := range map[string]string{"acme/now": "after!", "then": "before"} {
		of := clone(0)
		of.Image = name
		info, err := p.CloneVolume(ctx, seedbed.NewJobID(), of)
		ok(t, "clone "+name, err)
		if info.Size != 8*seedbed.MiB {
			t.Errorf("a clone of %s has %s", name, info.Size)
		}
		readsTexts(t, d, p, of, map[int64]string{1 << 20: "seedbed ", 6 << 20: text})
		ok(t, "remove the clone", p.RemoveVolume(ctx, of.Name, of.Instance))
		ok(t, "remove "+name, p.RemoveImage(ctx, job, name))
	}
}

func testImageOfRefused(t *testing.T, _ PoolDriver, p worker.Pool) {
	ctx, job := t.Context(), seedbed.NewJobID()
	_, v, info := cloned(t, p)
	source := func(change func(*seedbed.CopySource)) seedbed.CopySource {
		s := sourceOf(v)
		change(&s)
		return s
	}
	for _, c := range []struct {
		what   string
		source seedbed.CopySource
		want   error
	}{
		{"an absent volume", source(func(s *seedbed.CopySource) { s.From = "absent" }), seedbed.ErrNotFound},
		{"another instance's", source(func(s *seedbed.CopySource) { s.Of = seedbed.NewInstanceID() }), seedbed.ErrConflict},
		{"a snapshot that was not taken", source(func(s *seedbed.CopySource) { s.At, s.Snapshot = "never", "" }), seedbed.ErrNotFound},
		{"no snapshot to take", source(func(s *seedbed.CopySource) { s.Snapshot = "" }), seedbed.ErrInvalid},
	} {
		_, err := p.ImportImage(ctx, job, seedbed.ImageSpec{Name: "other", CopySource: c.source}, nil)
		is(t, c.what, err, c.want)
		ok(t, "remove what is left of "+c.what, p.RemoveSnapshot(ctx, snapshotOf(v, "copy-1"), job))
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	_, err := p.ImportImage(ended, job, seedbed.ImageSpec{Name: "other", CopySource: sourceOf(v)}, nil)
	is(t, "ended context", err, context.Canceled)
	ok(t, "remove what is left", p.RemoveSnapshot(ctx, snapshotOf(v, "copy-1"), job))
	snapshots(t, p, v)
	volumes(t, p, info)
	images, err := p.Images(ctx)
	if err != nil || len(images) != 1 {
		t.Errorf("images %+v, %v; want only the volume's", images, err)
	}
}
