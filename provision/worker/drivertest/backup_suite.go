package drivertest

import (
	"context"
	"errors"
	"os"
	"testing"

	"seedbed"
	"seedbed/provision/backup"
	"seedbed/provision/worker"
)

var backupCases = []poolCase{
	{"back up", testBackUp},
	{"back up refused", testBackUpRefused},
	{"fill", testFill},
	{"transfer", testTransfer},
	{"download", testDownload},
}

// place makes a place for backups in a directory.
func place(t *testing.T) *backup.Place {
	t.Helper()
	c := seedbed.BackupPlace{Kind: seedbed.BackupDir, Path: t.TempDir()}
	_, err := backup.Check(t.Context(), c)
	ok(t, "make a place of backups", err)
	at, err := backup.Open(t.Context(), c)
	ok(t, "open it", err)
	t.Cleanup(func() { _ = at.Close() })
	return at
}

func newDiskKey(v seedbed.VolumeSpec) seedbed.BackupDiskKey {
	return seedbed.BackupDiskKey{BackupKey: seedbed.BackupKey{Instance: v.Instance, Backup: seedbed.NewBackupID()}}
}

// backUp writes a volume's snapshot to a place.
func backUp(
	t *testing.T, p worker.Pool, at *backup.Place, v seedbed.VolumeSpec, name, base string, before *seedbed.BackupDiskKey,
) (seedbed.BackupDiskKey, seedbed.BackupDisk) {
	t.Helper()
	src, err := p.OpenSnapshot(t.Context(), snapshotOf(v, name), base)
	ok(t, "open snapshot "+name, err)
	key := newDiskKey(v)
	made, err := at.Write(t.Context(), key, src, before, nil)
	ok(t, "write it", errors.Join(err, src.Close()))
	return key, made
}

// testBackUp makes backups of snapshots of a volume that is in use and changes, and restores them.
func testBackUp(t *testing.T, d PoolDriver, p worker.Pool) {
	ctx := t.Context()
	_, v, info := cloned(t, p)
	at := place(t)
	write(t, d, p, v, 1)
	take(t, p, v, "one")
	write(t, d, p, v, 2)
	grown := info.Size + 24*seedbed.MiB
	_, err := p.ResizeVolume(ctx, v.Name, v.Instance, grown)
	ok(t, "resize", err)
	write(t, d, p, v, 3)
	take(t, p, v, "two")

	job := seedbed.NewJobID()
	type made struct {
		key  seedbed.BackupDiskKey
		disk seedbed.BackupDisk
		n    byte
		size seedbed.Bytes
	}
	var all []made
	backUpAll := func() {
		key, one := backUp(t, p, at, v, "one", "", nil)
		all = append(all, made{key, one, 1, info.Size})
		key, two := backUp(t, p, at, v, "two", "one", &key)
		all = append(all, made{key, two, 3, grown})
		if one.Size != info.Size || two.Size != grown {
			t.Errorf("sizes %s and %s: want %s and %s", one.Size, two.Size, info.Size, grown)
		}
		if d.Changes && two.Read >= one.Read+24*seedbed.MiB {
			t.Errorf("the second read %s, the first %s", two.Read, one.Read)
		}
		key, absent := backUp(t, p, at, v, "two", "no such snapshot", &key)
		all = append(all, made{key, absent, 3, grown})
		if absent.Index != two.Index || absent.New != 0 {
			t.Errorf("without its base: %+v, want %+v", absent, two)
		}
	}
	if d.Devices {
		device, err := p.MapVolume(ctx, job, v.Name, v.Instance)
		ok(t, "map", err)
		onDevice(t, device, func(f *os.File) error { // it is in use, and changes
			_, err := f.WriteAt(text(4), 2<<20)
			return errors.Join(err, f.Sync())
		})
		backUpAll()
		ok(t, "unmap", p.UnmapVolume(ctx, v.Name, v.Instance))
	} else {
		backUpAll()
	}
	snapshots(t, p, v, "one", "two")
	ok(t, "remove one", p.RemoveSnapshot(ctx, snapshotOf(v, "one"), ""))
	ok(t, "remove two", p.RemoveSnapshot(ctx, snapshotOf(v, "two"), ""))
	ok(t, "remove", p.RemoveVolume(ctx, v.Name, v.Instance))

	for _, m := range all {
		to := clone(m.size)
		to.Image = ""
		got, err := p.FillVolume(ctx, job, to, "backup:"+m.key.String(), func(ctx context.Context, s backup.Sink) error {
			return at.Restore(ctx, m.key, m.disk.Index, s, nil)
		})
		ok(t, "restore", err)
		if got.Size != m.size || got.Instance != to.Instance || got.Job != job || got.Disk.Backing != "" {
			t.Errorf("restored %+v", got)
		}
		has(t, d, p, to, m.n, m.size)
		mappedFor(t, d, p, to, func(f *os.File, _ int64) error {
			for at, want := range map[int64]string{1 << 20: "seedbed ", 5 << 20: "\x00\x00"} { // the image's, and what nothing has written to
				have := make([]byte, len(want))
				if _, err := f.ReadAt(have, at); err != nil || string(have) != want {
					t.Errorf("at %d is %q, %v; want %q", at, have, err, want)
				}
			}
			return nil
		})
		volumes(t, p, got)
		ok(t, "remove", p.RemoveVolume(ctx, to.Name, to.Instance))
	}
}

func testBackUpRefused(t *testing.T, d PoolDriver, p worker.Pool) {
	_, v, _ := cloned(t, p)
	foreign := clone(8 * seedbed.MiB)
	untouched := d.Foreign(t, p, foreign.Name)
	take(t, p, v, "s")
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
		_, err := p.OpenSnapshot(c.ctx, c.spec, "")
		is(t, c.name, err, c.want)
	}
	if !untouched() {
		t.Error("the foreign volume was changed")
	}
	ok(t, "remove", p.RemoveVolume(t.Context(), v.Name, v.Instance))
}

// testFill fills volumes, well or not. After an error nothing is left.
func testFill(t *testing.T, d PoolDriver, p worker.Pool) {
	ctx, job := t.Context(), seedbed.NewJobID()
	spec := clone(12 * seedbed.MiB)
	spec.Image = ""
	broken := errors.New("the place is gone")
	_, err := p.FillVolume(ctx, job, spec, "a", func(ctx context.Context, s backup.Sink) error {
		return errors.Join(s.Write(ctx, text(1), 2<<20), broken)
	})
	is(t, "broken", err, broken)
	volumes(t, p)
	stopped, stop := context.WithCancel(ctx)
	_, err = p.FillVolume(stopped, job, spec, "a", func(ctx context.Context, s backup.Sink) error {
		err := s.Write(ctx, text(1), 2<<20)
		stop()
		return errors.Join(err, s.Write(ctx, text(1), 4<<20))
	})
	is(t, "stopped", err, context.Canceled)
	volumes(t, p)
	calls := 0
	fill := func(ctx context.Context, s backup.Sink) error {
		calls++
		if !d.Devices { // a volume in memory has what tests write at its beginning
			return s.Write(ctx, text(2), 0)
		}
		return errors.Join(s.Write(ctx, text(2), 2<<20), s.Write(ctx, text(2), int64(spec.Size)-int64(len(text(2)))))
	}
	got, err := p.FillVolume(ctx, job, spec, "a", fill)
	ok(t, "fill", err)
	has(t, d, p, spec, 2, spec.Size)
	if same, err := p.FillVolume(ctx, job, spec, "a", fill); err != nil || same != got || calls != 1 {
		t.Errorf("fill again: %+v, %v, filled %d times; want %+v", same, err, calls, got)
	}
	_, err = p.FillVolume(ctx, job, spec, "b", fill)
	is(t, "fill from something else", err, seedbed.ErrConflict)
	_, err = p.CloneVolume(ctx, job, spec)
	is(t, "a blank volume of that name", err, seedbed.ErrConflict)
	small := clone(0)
	small.Image = ""
	_, err = p.FillVolume(ctx, job, small, "a", fill)
	is(t, "without a size", err, seedbed.ErrInvalid)
	if calls != 1 {
		t.Errorf("filled %d times", calls)
	}
	volumes(t, p, got)
	ok(t, "remove", p.RemoveVolume(ctx, spec.Name, spec.Instance))
}

// testTransfer reads a volume as it is, and as it was at a snapshot, and makes another one of that.
func testTransfer(t *testing.T, d PoolDriver, p worker.Pool) {
	ctx, job := t.Context(), seedbed.NewJobID()
	_, v, info := cloned(t, p)
	write(t, d, p, v, 1)
	take(t, p, v, "s1")
	write(t, d, p, v, 2)
	now := sourceOf(v)
	then := seedbed.CopySource{From: v.Name, Of: v.Instance, At: "s1"}
	for n, source := range map[byte]seedbed.CopySource{1: then, 2: now} {
		to := clone(info.Size + 4*seedbed.MiB)
		to.Image = ""
		last := -1
		source.FromPool = "from"
		order := seedbed.VolumeCopy{VolumeSpec: to, CopySource: source}
		got, err := worker.Transfer(ctx, job, p, p, order, func(s seedbed.Progress) {
			if s.Percent() < last || s.Done > s.Total {
				t.Errorf("progress goes back or beyond its end: %v after %d%%", s, last)
			}
			last = s.Percent()
		})
		ok(t, "transfer", err)
		if last != 100 || got.Size != to.Size || got.Instance != to.Instance || got.Job != job || got.Disk.Backing != "" {
			t.Errorf("made %+v, progress ends at %d%%", got, last)
		}
		if same, err := worker.Transfer(ctx, job, p, p, order, nil); err != nil || same != got {
			t.Errorf("transfer again: %+v, %v", same, err)
		}
		has(t, d, p, to, n, info.Size)
		snapshots(t, p, to)
		snapshots(t, p, v, "s1")
		write(t, d, p, to, 3)
		_, err = worker.Transfer(ctx, job, p, p, order, nil)
		is(t, "a copy that differs", err, seedbed.ErrConflict)
		ok(t, "remove the copy", p.RemoveVolume(ctx, to.Name, to.Instance))
		ok(t, "remove what is left", p.RemoveSnapshot(ctx, snapshotOf(v, now.Snapshot), job))
	}
	absent, other := now, now
	absent.From, other.Of = "absent", seedbed.NewInstanceID()
	for want, source := range map[error]seedbed.CopySource{seedbed.ErrNotFound: absent, seedbed.ErrConflict: other, seedbed.ErrInvalid: {}} {
		_, err := p.OpenVolume(ctx, job, source)
		is(t, "open "+source.From, err, want)
	}
	small := seedbed.VolumeCopy{VolumeSpec: clone(info.Size / 2), CopySource: now}
	_, err := worker.Transfer(ctx, job, p, p, small, nil)
	is(t, "a smaller copy", err, seedbed.ErrInvalid)
	ok(t, "remove what is left", p.RemoveSnapshot(ctx, snapshotOf(v, now.Snapshot), job))
	snapshots(t, p, v, "s1")
	ok(t, "remove", p.RemoveVolume(ctx, v.Name, v.Instance))
	volumes(t, p)
}
