package drivertest

import (
	"context"
	"errors"
	"testing"
	"time"

	"seedbed"
	"seedbed/provision/worker"

	diff "github.com/google/go-cmp/cmp"
)

// volumeCases are the cases of TestPool that work on existing volumes.
var volumeCases = []poolCase{
	{"snapshot", testSnapshot},
	{"snapshot refused", testSnapshotRefused},
	{"snapshots go with their volume", testSnapshotsGo},
	{"restore", testRestore},
	{"restore refused", testRestoreRefused},
	{"restore after a flatten", testRestoreFlat},
	{"flatten", testFlatten},
	{"flatten refused", testFlattenRefused},
	{"copy", testCopy},
	{"copy refused", testCopyRefused},
	{"copy of a snapshot", testCopyAt},
	{"image of a volume", testImageOf},
	{"image of a volume refused", testImageOfRefused},
	{"resize", testResize},
	{"resize with a snapshot", testResizeSnapshot},
	{"resize refused", testResizeRefused},
	{"no trash", testNoTrash},
	{"trash", testTrash},
	{"trash with snapshots", testTrashSnapshots},
	{"trash expires", testTrashExpires},
	{"adopt and release", testAdopt},
	{"adopt refused", testAdoptRefused},
	{"volume effects, ended context", testEndedVolume},
}

// cloned makes a pool's image "base" and a volume of it.
func cloned(t *testing.T, p worker.Pool) (image seedbed.JobID, spec seedbed.VolumeSpec, info seedbed.VolumeInfo) {
	t.Helper()
	image, spec = imported(t, p), clone(8*seedbed.MiB)
	info, err := p.CloneVolume(t.Context(), seedbed.NewJobID(), spec)
	ok(t, "clone", err)
	return image, spec, info
}

func snapshotOf(v seedbed.VolumeSpec, name string) seedbed.SnapshotSpec {
	return seedbed.SnapshotSpec{Volume: v.Name, Instance: v.Instance, Name: name}
}

// snapshots checks the names of a volume's snapshots.
func snapshots(t *testing.T, p worker.Pool, v seedbed.VolumeSpec, want ...string) {
	t.Helper()
	all, err := p.Snapshots(t.Context(), v.Name, v.Instance)
	ok(t, "snapshots", err)
	var names []string
	for _, s := range all {
		names = append(names, s.Name)
	}
	if d := diff.Diff(want, names); d != "" {
		t.Fatalf("snapshots (-want +got):\n%s", d)
	}
}

func testSnapshot(t *testing.T, _ PoolDriver, p worker.Pool) {
	ctx, job := t.Context(), seedbed.NewJobID()
	_, v, _ := cloned(t, p)
	snapshots(t, p, v)
	taken := snapshotOf(v, "before")
	taken.Consistency = seedbed.ConsistencyFrozen
	first, err := p.CreateSnapshot(ctx, job, taken)
	ok(t, "snapshot", err)
	if all, err := p.Snapshots(ctx, v.Name, v.Instance); err != nil || len(all) != 1 || all[0].Consistency != seedbed.ConsistencyFrozen {
		t.Errorf("snapshots %+v, %v", all, err)
	}
	if first.Name != "before" || first.Job != job || time.Since(first.Created) > time.Hour || first.Created.IsZero() {
		t.Errorf("snapshot %+v", first)
	}
	again, err := p.CreateSnapshot(ctx, job, snapshotOf(v, "before"))
	if err != nil || !again.Created.Equal(first.Created) {
		t.Errorf("snapshot again: %+v, %v; want %+v", again, err, first)
	}
	_, err = p.CreateSnapshot(ctx, seedbed.NewJobID(), snapshotOf(v, "before"))
	is(t, "snapshot by another job", err, seedbed.ErrExists)
	_, err = p.CreateSnapshot(ctx, seedbed.NewJobID(), snapshotOf(v, "after"))
	ok(t, "second snapshot", err)
	snapshots(t, p, v, "before", "after")
	is(t, "remove as another job's", p.RemoveSnapshot(ctx, snapshotOf(v, "before"), seedbed.NewJobID()), seedbed.ErrConflict)
	ok(t, "remove as its job's", p.RemoveSnapshot(ctx, snapshotOf(v, "before"), job))
	for range 2 {
		ok(t, "remove", p.RemoveSnapshot(ctx, snapshotOf(v, "after"), ""))
	}
	snapshots(t, p, v)
}

func testSnapshotRefused(t *testing.T, d PoolDriver, p worker.Pool) {
	ctx := t.Context()
	_, v, _ := cloned(t, p)
	foreign := clone(8 * seedbed.MiB)
	untouched := d.Foreign(t, p, foreign.Name)
	for _, c := range []struct {
		name string
		spec seedbed.SnapshotSpec
		want error
	}{
		{"name that climbs", snapshotOf(v, "../x"), seedbed.ErrInvalid},
		{"no name", snapshotOf(v, ""), seedbed.ErrInvalid},
		{"option", snapshotOf(v, "-l"), seedbed.ErrInvalid},
		{"absent volume", snapshotOf(clone(0), "s"), seedbed.ErrNotFound},
		{"other instance", seedbed.SnapshotSpec{Volume: v.Name, Instance: seedbed.NewInstanceID(), Name: "s"}, seedbed.ErrConflict},
		{"no instance", seedbed.SnapshotSpec{Volume: v.Name, Name: "s"}, seedbed.ErrConflict},
		{"volume without the tag", snapshotOf(foreign, "s"), seedbed.ErrConflict},
	} {
		_, err := p.CreateSnapshot(ctx, seedbed.NewJobID(), c.spec)
		is(t, c.name, err, c.want)
	}
	snapshots(t, p, v)
	if !untouched() {
		t.Error("the foreign volume was changed")
	}
	ok(t, "remove from an absent volume", p.RemoveSnapshot(ctx, snapshotOf(clone(0), "s"), ""))
	_, err := p.Snapshots(ctx, clone(0).Name, v.Instance)
	is(t, "snapshots of an absent volume", err, seedbed.ErrNotFound)
}

func testSnapshotsGo(t *testing.T, _ PoolDriver, p worker.Pool) {
	ctx := t.Context()
	image, v, _ := cloned(t, p)
	for _, name := range []string{"a", "b"} {
		_, err := p.CreateSnapshot(ctx, seedbed.NewJobID(), snapshotOf(v, name))
		ok(t, "snapshot", err)
	}
	ok(t, "remove the volume", p.RemoveVolume(ctx, v.Name, v.Instance))
	volumes(t, p)
	ok(t, "remove its image", p.RemoveImage(ctx, image, "base"))
}

func testFlatten(t *testing.T, _ PoolDriver, p worker.Pool) {
	ctx := t.Context()
	image, v, info := cloned(t, p)
	blank := clone(8 * seedbed.MiB)
	blank.Image = ""
	_, err := p.CloneVolume(ctx, seedbed.NewJobID(), blank)
	ok(t, "blank volume", err)
	last := -1
	got, err := p.FlattenVolume(ctx, v.Name, v.Instance, func(s seedbed.Progress) {
		if s.Percent() < last || s.Done > s.Total {
			t.Errorf("progress goes back or beyond its end: %v after %d%%", s, last)
		}
		last = s.Percent()
	})
	ok(t, "flatten", err)
	if last != 100 {
		t.Errorf("progress ends at %d%%", last)
	}
	want := info
	want.Disk.Backing = ""
	if got != want {
		t.Errorf("got %+v; want %+v", got, want)
	}
	for _, again := range []seedbed.VolumeSpec{v, blank} {
		_, err := p.FlattenVolume(ctx, again.Name, again.Instance, nil)
		ok(t, "flatten what shares nothing", err)
	}
	for range 2 {
		ok(t, "stop what does not go on", p.StopFlatten(ctx, v.Name, v.Instance))
	}
	ok(t, "remove the image", p.RemoveImage(ctx, image, "base"))
	// Its job may repeat the clone. A caller that knows of the flatten asks for a blank volume.
	v.Image = ""
	if same, err := p.CloneVolume(ctx, seedbed.NewJobID(), v); err != nil || same != got {
		t.Errorf("adopt: %+v, %v", same, err)
	}
	for _, v := range []seedbed.VolumeSpec{v, blank} {
		ok(t, "remove", p.RemoveVolume(ctx, v.Name, v.Instance))
	}
}

func testFlattenRefused(t *testing.T, d PoolDriver, p worker.Pool) {
	ctx := t.Context()
	_, v, info := cloned(t, p)
	foreign := clone(0)
	untouched := d.Foreign(t, p, foreign.Name)
	_, err := p.FlattenVolume(ctx, clone(0).Name, v.Instance, nil)
	is(t, "absent volume", err, seedbed.ErrNotFound)
	_, err = p.FlattenVolume(ctx, v.Name, seedbed.NewInstanceID(), nil)
	is(t, "other instance", err, seedbed.ErrConflict)
	_, err = p.FlattenVolume(ctx, foreign.Name, foreign.Instance, nil)
	is(t, "volume without the tag", err, seedbed.ErrConflict)
	is(t, "stop another's", p.StopFlatten(ctx, v.Name, seedbed.NewInstanceID()), seedbed.ErrConflict)
	ok(t, "stop an absent one's", p.StopFlatten(ctx, clone(0).Name, v.Instance))
	volumes(t, p, info)
	if !untouched() {
		t.Error("the foreign volume was changed")
	}
}

func testNoTrash(t *testing.T, _ PoolDriver, p worker.Pool) {
	ctx := t.Context()
	image, v, info := cloned(t, p)
	_, err := p.TrashVolume(ctx, v.Name, seedbed.NewInstanceID())
	is(t, "another instance", err, seedbed.ErrConflict)
	volumes(t, p, info)
	for range 2 {
		kept, err := p.TrashVolume(ctx, v.Name, v.Instance)
		if err != nil || kept != nil {
			t.Errorf("trash: %v, %v; want it removed at once", kept, err)
		}
	}
	volumes(t, p)
	trashHas(t, p)
	ok(t, "remove the image", p.RemoveImage(ctx, image, "base"))
}

// trashHas checks the names of what is in the trash.
func trashHas(t *testing.T, p worker.Trash, want ...string) {
	t.Helper()
	all, err := p.Trash(t.Context())
	ok(t, "trash", err)
	var names []string
	for _, item := range all {
		names = append(names, item.Name)
	}
	if d := diff.Diff(want, names); d != "" {
		t.Fatalf("trash (-want +got):\n%s", d)
	}
}

func testTrash(t *testing.T, d PoolDriver, _ worker.Pool) {
	ctx, p := t.Context(), d.Keep(t, time.Hour)
	image, v, info := cloned(t, p)
	_, err := p.TrashVolume(ctx, v.Name, seedbed.NewInstanceID())
	is(t, "another instance", err, seedbed.ErrConflict)
	item, err := p.TrashVolume(ctx, v.Name, v.Instance)
	if err != nil || item == nil {
		t.Fatalf("trash: %v, %v", item, err)
	}
	if kept := item.Expires.Sub(item.Removed); item.ID == "" || item.State != seedbed.Trashed || item.Name != v.Name ||
		item.Instance != v.Instance || item.Project != v.Project ||
		item.Size != info.Size || kept < time.Hour-time.Minute || kept > time.Hour+time.Minute || time.Since(item.Removed) > 10*time.Minute {
		t.Errorf("item %+v", item)
	}
	volumes(t, p)
	trashHas(t, p, v.Name)
	if again, err := p.TrashVolume(ctx, v.Name, v.Instance); err != nil || again != nil {
		t.Errorf("trash again: %v, %v", again, err)
	}
	is(t, "remove the image of a volume in the trash", p.RemoveImage(ctx, image, "base"), seedbed.ErrInUse)
	is(t, "purge before its time", p.PurgeVolume(ctx, item.ID, false), seedbed.ErrInUse)

	back, err := p.RestoreVolume(ctx, item.ID)
	ok(t, "restore", err)
	info.Restored = true
	if back != info {
		t.Errorf("restored %+v; want %+v", back, info)
	}
	volumes(t, p, info)
	trashHas(t, p)
	_, err = p.RestoreVolume(ctx, item.ID)
	is(t, "restore again", err, seedbed.ErrNotFound)
	ok(t, "purge what is restored", p.PurgeVolume(ctx, item.ID, true))
	volumes(t, p, info)

	item, err = p.TrashVolume(ctx, v.Name, v.Instance)
	if err != nil || item == nil {
		t.Fatalf("trash what was restored: %v, %v", item, err)
	}
	_, err = p.CloneVolume(ctx, seedbed.NewJobID(), v)
	ok(t, "a new volume of the name", err)
	_, err = p.RestoreVolume(ctx, item.ID)
	is(t, "restore over it", err, seedbed.ErrExists)
	trashHas(t, p, v.Name)
	for range 2 {
		ok(t, "purge", p.PurgeVolume(ctx, item.ID, true))
	}
	trashHas(t, p)
	ok(t, "remove the new volume", p.RemoveVolume(ctx, v.Name, v.Instance))
	ok(t, "remove the image", p.RemoveImage(ctx, image, "base"))
}

func testTrashSnapshots(t *testing.T, d PoolDriver, _ worker.Pool) {
	ctx, p := t.Context(), d.Keep(t, time.Hour)
	_, v, _ := cloned(t, p)
	_, err := p.CreateSnapshot(ctx, seedbed.NewJobID(), snapshotOf(v, "s"))
	ok(t, "snapshot", err)
	for _, last := range []bool{false, true} {
		item, err := p.TrashVolume(ctx, v.Name, v.Instance)
		if err != nil || item == nil {
			t.Fatalf("trash: %v, %v", item, err)
		}
		if last {
			ok(t, "purge", p.PurgeVolume(ctx, item.ID, true))
			continue
		}
		_, err = p.RestoreVolume(ctx, item.ID)
		ok(t, "restore", err)
		snapshots(t, p, v, "s")
	}
	trashHas(t, p)
}

func testTrashExpires(t *testing.T, d PoolDriver, _ worker.Pool) {
	ctx, p := t.Context(), d.Keep(t, time.Second)
	_, v, _ := cloned(t, p)
	item, err := p.TrashVolume(ctx, v.Name, v.Instance)
	if err != nil || item == nil {
		t.Fatalf("trash: %v, %v", item, err)
	}
	for end := time.Now().Add(time.Minute); ; {
		if err = p.PurgeVolume(ctx, item.ID, false); !errors.Is(err, seedbed.ErrInUse) || time.Now().After(end) {
			break
		}
		<-time.After(100 * time.Millisecond)
	}
	ok(t, "purge once its time is over", err)
	trashHas(t, p)
}

func testEndedVolume(t *testing.T, d PoolDriver, _ worker.Pool) {
	p := d.Keep(t, time.Hour)
	_, v, info := cloned(t, p)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := p.CreateSnapshot(ctx, seedbed.NewJobID(), snapshotOf(v, "s"))
	is(t, "snapshot", err, context.Canceled)
	_, err = p.FlattenVolume(ctx, v.Name, v.Instance, nil)
	is(t, "flatten", err, context.Canceled)
	_, err = p.TrashVolume(ctx, v.Name, v.Instance)
	is(t, "trash", err, context.Canceled)
	_, err = p.Trash(ctx)
	is(t, "list the trash", err, context.Canceled)
	volumes(t, p, info)
	snapshots(t, p, v)
	trashHas(t, p)
}
