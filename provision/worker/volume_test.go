package worker_test

import (
	"errors"
	"testing"
	"time"

	"seedbed"
	"seedbed/provision/worker/drivertest"

	"github.com/google/go-cmp/cmp"
)

// TestVolumeMethods calls each method for volumes that are there over the wire.
func TestVolumeMethods(t *testing.T) {
	t.Parallel()
	ctx, l := t.Context(), start(t)
	disk, _ := drivertest.BootableFile(t)
	_, err := l.ImportImage(ctx, call(1), seedbed.ImageSpec{Pool: "default", Name: "base", Path: disk}, nil)
	must(t, "import", err)
	spec := volume()
	spec.Image = "base"
	v, err := l.CloneVolume(ctx, call(1), spec)
	must(t, "clone", err)

	named := seedbed.SnapshotSpec{Pool: "default", Volume: v.Name, Instance: v.Instance, Name: "s1"}
	made, err := l.CreateSnapshot(ctx, call(1), named)
	must(t, "snapshot", err)
	all, err := l.Snapshots(ctx, "default", v.Name, v.Instance)
	must(t, "snapshots", err)
	if d := cmp.Diff([]seedbed.SnapshotInfo{made}, all); d != "" || made.Job != call(1).Job {
		t.Errorf("%s\nmade %+v", d, made)
	}
	if err := l.RemoveSnapshot(ctx, call(1), named, seedbed.NewJobID()); !errors.Is(err, seedbed.ErrConflict) {
		t.Errorf("remove another job's snapshot: %v", err)
	}
	must(t, "remove snapshot", l.RemoveSnapshot(ctx, call(1), named, call(1).Job))

	var last seedbed.Progress
	flat, err := l.FlattenVolume(ctx, call(1), "default", v.Name, v.Instance, func(p seedbed.Progress) { last = p })
	if err != nil || flat != v || last.Percent() != 100 {
		t.Errorf("flatten: %+v, %v, progress %v", flat, err, last)
	}
	must(t, "stop", l.StopFlatten(ctx, call(1), "default", v.Name, v.Instance))
	other := call(2)
	other.Job = seedbed.NewJobID()
	must(t, "remove the image of another job", l.RemoveImage(ctx, other, "default", "base", call(1).Job))
	inv, err := l.Inventory(ctx)
	if err != nil || len(inv.Images) != 0 {
		t.Errorf("images %v, %v", inv.Images, err)
	}
}

func TestTrashMethods(t *testing.T) {
	t.Parallel()
	ctx, l := t.Context(), start(t)
	spec := volume()
	_, err := l.CloneVolume(ctx, call(1), spec)
	must(t, "clone", err)
	if _, err := l.DiscardVolume(ctx, "default", spec.Name); !errors.Is(err, seedbed.ErrConflict) {
		t.Errorf("discard what was not restored: %v", err)
	}
	if _, err := l.DiscardVolume(ctx, "default", "none"); !errors.Is(err, seedbed.ErrNotFound) {
		t.Errorf("discard what is not there: %v", err)
	}
	l.pool.SetTrash(time.Hour)
	item, err := l.TrashVolume(ctx, call(1), "default", spec.Name, spec.Instance)
	if err != nil || item == nil || item.Name != spec.Name {
		t.Fatalf("trash: %+v, %v", item, err)
	}
	all, err := l.Trash(ctx)
	must(t, "trash", err)
	if d := cmp.Diff([]seedbed.TrashItem{*item}, all); d != "" {
		t.Error(d)
	}
	if err := l.PurgeVolume(ctx, "default", item.ID, false); !errors.Is(err, seedbed.ErrInUse) {
		t.Errorf("purge before its time: %v", err)
	}
	if _, err := l.RestoreVolume(ctx, "default", "../x"); !errors.Is(err, seedbed.ErrInvalid) {
		t.Errorf("restore a path: %v", err)
	}
	v, err := l.RestoreVolume(ctx, "default", item.ID)
	if err != nil || !v.Restored || v.Name != spec.Name || v.Instance != spec.Instance {
		t.Fatalf("restored %+v, %v", v, err)
	}
	all, err = l.Trash(ctx)
	want := seedbed.TrashItem{Pool: "default", Name: spec.Name, State: seedbed.Restored, Instance: spec.Instance, Size: spec.Size}
	if d := cmp.Diff([]seedbed.TrashItem{want}, all); d != "" || err != nil {
		t.Errorf("%v\n%s", err, d)
	}
	again, err := l.DiscardVolume(ctx, "default", spec.Name)
	if err != nil || again == nil {
		t.Fatalf("discard: %v, %v", again, err)
	}
	must(t, "purge", l.PurgeVolume(ctx, "default", again.ID, true))
	l.pool.SetTrash(0)
	_, err = l.CloneVolume(ctx, call(1), spec)
	must(t, "clone", err)
	if gone, err := l.TrashVolume(ctx, call(1), "default", spec.Name, spec.Instance); gone != nil || err != nil {
		t.Errorf("without a trash: %v, %v", gone, err)
	}
	if all, err = l.Trash(ctx); len(all) != 0 || err != nil {
		t.Errorf("left: %v, %v", all, err)
	}
}
