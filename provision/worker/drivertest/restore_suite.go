package drivertest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"testing"

	"seedbed"
	"seedbed/provision/worker"
)

// text is what testRestore writes, for a number.
func text(n byte) []byte { return bytes.Repeat([]byte{'a' + n}, 64<<10) }

// write writes to a volume as its guest would: text n at 2 MiB, where its image has data, and at the end
// of its size.
func write(t *testing.T, d PoolDriver, p worker.Pool, v seedbed.VolumeSpec, n byte) {
	t.Helper()
	if fake, ok := p.(*Pool); ok {
		fake.Write(v.Name, string(text(n)))
	}
	mappedFor(t, d, p, v, func(f *os.File, size int64) error {
		_, err := f.WriteAt(text(n), 2<<20)
		_, end := f.WriteAt(text(n), size-int64(len(text(n))))
		return errors.Join(err, end)
	})
}

// has checks that a volume has text n as written while it had that size, and only zeros after it.
func has(t *testing.T, d PoolDriver, p worker.Pool, v seedbed.VolumeSpec, n byte, size seedbed.Bytes) {
	t.Helper()
	if fake, ok := p.(*Pool); ok && fake.Read(v.Name) != string(text(n)) {
		t.Errorf("volume %s has %.8q: want text %d", v.Name, fake.Read(v.Name), n)
	}
	mappedFor(t, d, p, v, func(f *os.File, whole int64) error {
		for _, at := range []int64{2 << 20, int64(size) - int64(len(text(n)))} {
			got := make([]byte, len(text(n)))
			if _, err := f.ReadAt(got, at); err != nil || !bytes.Equal(got, text(n)) {
				t.Errorf("at %d is %.8q, %v: want text %d", at, got, err, n)
			}
		}
		rest := make([]byte, whole-int64(size))
		if _, err := f.ReadAt(rest, int64(size)); err != nil && !errors.Is(err, io.EOF) || len(bytes.Trim(rest, "\x00")) != 0 {
			t.Errorf("what the volume has grown by is not zero (%v)", err)
		}
		return nil
	})
}

// mappedFor calls do with the device of a volume and its size, if volumes have devices.
func mappedFor(t *testing.T, d PoolDriver, p worker.Pool, v seedbed.VolumeSpec, do func(f *os.File, size int64) error) {
	t.Helper()
	if !d.Devices {
		return
	}
	device, err := p.MapVolume(t.Context(), seedbed.NewJobID(), v.Name, v.Instance)
	ok(t, "map", err)
	onDevice(t, device, func(f *os.File) error {
		size, err := f.Seek(0, io.SeekEnd)
		return errors.Join(err, do(f, size))
	})
	ok(t, "unmap", p.UnmapVolume(t.Context(), v.Name, v.Instance))
}

// take takes a snapshot.
func take(t *testing.T, p worker.Pool, v seedbed.VolumeSpec, name string) seedbed.SnapshotInfo {
	t.Helper()
	s, err := p.CreateSnapshot(t.Context(), seedbed.NewJobID(), snapshotOf(v, name))
	ok(t, "snapshot "+name, err)
	return s
}

// testRestore goes back and forth between snapshots of different sizes. All of them stay, and so does the
// volume's size.
func testRestore(t *testing.T, d PoolDriver, p worker.Pool) {
	ctx := t.Context()
	_, v, info := cloned(t, p)
	write(t, d, p, v, 1)
	if s := take(t, p, v, "one"); s.Size != info.Size {
		t.Errorf("a snapshot of %s: want %s", s.Size, info.Size)
	}
	grown := info.Size + 4*seedbed.MiB
	info, err := p.ResizeVolume(ctx, v.Name, v.Instance, grown)
	ok(t, "resize", err)
	write(t, d, p, v, 2)
	if s := take(t, p, v, "two"); s.Size != grown {
		t.Errorf("a snapshot of %s: want %s", s.Size, grown)
	}
	write(t, d, p, v, 3)
	for _, to := range []struct {
		name string
		n    byte
		size seedbed.Bytes
	}{{"one", 1, 8 * seedbed.MiB}, {"one", 1, 8 * seedbed.MiB}, {"two", 2, grown}, {"one", 1, 8 * seedbed.MiB}, {"two", 2, grown}} {
		ok(t, "restore "+to.name, p.RestoreSnapshot(ctx, snapshotOf(v, to.name)))
		snapshots(t, p, v, "one", "two")
		has(t, d, p, v, to.n, to.size)
		if now, err := p.Volume(ctx, v.Name, v.Instance); err != nil || now != info {
			t.Fatalf("the volume is %+v, %v: want %+v", now, err, info)
		}
		volumes(t, p, info)
		write(t, d, p, v, 4)
	}
	ok(t, "remove one", p.RemoveSnapshot(ctx, snapshotOf(v, "one"), ""))
	ok(t, "restore two", p.RestoreSnapshot(ctx, snapshotOf(v, "two")))
	has(t, d, p, v, 2, grown)
	ok(t, "remove", p.RemoveVolume(ctx, v.Name, v.Instance))
}

func testRestoreRefused(t *testing.T, d PoolDriver, p worker.Pool) {
	_, v, _ := cloned(t, p)
	foreign := clone(8 * seedbed.MiB)
	untouched := d.Foreign(t, p, foreign.Name)
	write(t, d, p, v, 1)
	take(t, p, v, "s")
	write(t, d, p, v, 2)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		name string
		ctx  context.Context
		spec seedbed.SnapshotSpec
		want error
	}{
		{"absent snapshot", t.Context(), snapshotOf(v, "none"), seedbed.ErrNotFound},
		{"absent volume", t.Context(), snapshotOf(clone(0), "s"), seedbed.ErrNotFound},
		{"other instance", t.Context(), seedbed.SnapshotSpec{Volume: v.Name, Instance: seedbed.NewInstanceID(), Name: "s"}, seedbed.ErrConflict},
		{"volume without the tag", t.Context(), snapshotOf(foreign, "s"), seedbed.ErrConflict},
		{"name that climbs", t.Context(), seedbed.SnapshotSpec{Volume: "../x", Instance: v.Instance, Name: "s"}, seedbed.ErrInvalid},
		{"ended context", ended, snapshotOf(v, "s"), context.Canceled},
	} {
		is(t, c.name, p.RestoreSnapshot(c.ctx, c.spec), c.want)
	}
	has(t, d, p, v, 2, 8*seedbed.MiB)
	if !untouched() {
		t.Error("the foreign volume was changed")
	}
	ok(t, "remove", p.RemoveVolume(t.Context(), v.Name, v.Instance))
}

// testRestoreFlat checks that a snapshot older than a flatten is either refused or restored whole.
func testRestoreFlat(t *testing.T, d PoolDriver, p worker.Pool) {
	ctx := t.Context()
	_, v, _ := cloned(t, p)
	write(t, d, p, v, 1)
	take(t, p, v, "s")
	write(t, d, p, v, 2)
	if _, err := p.FlattenVolume(ctx, v.Name, v.Instance, nil); err != nil { // a driver may refuse it for its snapshots
		is(t, "flatten", err, seedbed.ErrInUse)
		ok(t, "remove", p.RemoveVolume(ctx, v.Name, v.Instance))
		return
	}
	n := byte(1)
	if err := p.RestoreSnapshot(ctx, snapshotOf(v, "s")); err != nil {
		is(t, "restore", err, seedbed.ErrConflict)
		n = 2
	}
	has(t, d, p, v, n, 8*seedbed.MiB)
	mappedFor(t, d, p, v, func(f *os.File, _ int64) error { // where only the image has data
		got := make([]byte, 8)
		if _, err := f.ReadAt(got, 1<<20); err != nil || string(got) != "seedbed " {
			t.Errorf("the image's data: %q, %v", got, err)
		}
		return nil
	})
	ok(t, "remove", p.RemoveVolume(ctx, v.Name, v.Instance))
}
