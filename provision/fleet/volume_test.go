package fleet_test

import (
	"errors"
	"testing"
	"time"

	"seedbed"
	"seedbed/provision/effects"
	"seedbed/provision/worker/drivertest"

	"github.com/google/go-cmp/cmp"
)

// TestVolumeMethods calls each method for existing volumes over the wire.
func TestVolumeMethods(t *testing.T) {
	t.Parallel()
	ctx, l := t.Context(), start(t)
	disk, _ := drivertest.BootableFile(t)
	_, err := effects.ImportImage.Do(ctx, l, call(1), seedbed.ImageSpec{Pool: "default", Name: "base", Path: disk})
	must(t, "import", err)
	spec := volume()
	spec.Image = "base"
	v, err := effects.CloneVolume.Do(ctx, l, call(1), spec)
	must(t, "clone", err)

	named := seedbed.SnapshotSpec{Pool: "default", Volume: v.Name, Instance: v.Instance, Name: "s1"}
	made, err := effects.CreateSnapshot.Do(ctx, l, call(1), named)
	must(t, "snapshot", err)
	all, err := effects.Snapshots.Ask(ctx, l, effects.VolumeRef{Pool: "default", Name: v.Name, Instance: v.Instance})
	must(t, "snapshots", err)
	if d := cmp.Diff([]seedbed.SnapshotInfo{made}, all); d != "" || made.Job != call(1).Job {
		t.Errorf("%s\nmade %+v", d, made)
	}
	if err := effects.RemoveSnapshot.Do(ctx, l, call(1),
		effects.SnapshotRef{SnapshotSpec: named, Of: seedbed.NewJobID()}); !errors.Is(err, seedbed.ErrConflict) {
		t.Errorf("remove another job's snapshot: %v", err)
	}
	must(t, "remove snapshot", effects.RemoveSnapshot.Do(ctx, l, call(1), effects.SnapshotRef{SnapshotSpec: named, Of: call(1).Job}))

	var last seedbed.Progress
	flat, err := effects.FlattenVolume.Do(ctx, l, call(1), effects.VolumeRef{Pool: "default", Name: v.Name, Instance: v.Instance},
		effects.OnProgress(func(p seedbed.Progress) { last = p }))
	if err != nil || flat != v || last.Percent() != 100 {
		t.Errorf("flatten: %+v, %v, progress %v", flat, err, last)
	}
	must(t, "stop", effects.StopFlatten.Do(ctx, l, call(1), effects.VolumeRef{Pool: "default", Name: v.Name, Instance: v.Instance}))
	other := call(2)
	other.Job = seedbed.NewJobID()
	must(t, "remove the image of another job",
		effects.RemoveImage.Do(ctx, l, other, effects.ImageRef{Pool: "default", Name: "base", Of: call(1).Job}))
	inv, err := effects.Inventory.Ask(ctx, l, effects.None{})
	if err != nil || len(inv.Images) != 0 {
		t.Errorf("images %v, %v", inv.Images, err)
	}
}

func TestTrashMethods(t *testing.T) {
	t.Parallel()
	ctx, l := t.Context(), start(t)
	spec := volume()
	_, err := effects.CloneVolume.Do(ctx, l, call(1), spec)
	must(t, "clone", err)
	if _, err := effects.DiscardVolume.Ask(ctx, l, effects.ImageRef{Pool: "default", Name: spec.Name}); !errors.Is(err, seedbed.ErrConflict) {
		t.Errorf("discard what was not restored: %v", err)
	}
	if _, err := effects.DiscardVolume.Ask(ctx, l, effects.ImageRef{Pool: "default", Name: "none"}); !errors.Is(err, seedbed.ErrNotFound) {
		t.Errorf("discard what is not there: %v", err)
	}
	l.pool.SetTrash(time.Hour)
	item, err := effects.TrashVolume.Do(ctx, l, call(1), effects.VolumeRef{Pool: "default", Name: spec.Name, Instance: spec.Instance})
	if err != nil || item == nil || item.Name != spec.Name {
		t.Fatalf("trash: %+v, %v", item, err)
	}
	all, err := effects.Trash.Ask(ctx, l, effects.None{})
	must(t, "trash", err)
	if d := cmp.Diff([]seedbed.TrashItem{*item}, all); d != "" {
		t.Error(d)
	}
	if err := second(effects.PurgeVolume.Ask(ctx, l, effects.TrashRef{Pool: "default", ID: item.ID})); !errors.Is(err, seedbed.ErrInUse) {
		t.Errorf("purge before its time: %v", err)
	}
	if _, err := effects.RestoreVolume.Ask(ctx, l, effects.TrashRef{Pool: "default", ID: "../x"}); !errors.Is(err, seedbed.ErrInvalid) {
		t.Errorf("restore a path: %v", err)
	}
	v, err := effects.RestoreVolume.Ask(ctx, l, effects.TrashRef{Pool: "default", ID: item.ID})
	if err != nil || !v.Restored || v.Name != spec.Name || v.Instance != spec.Instance {
		t.Fatalf("restored %+v, %v", v, err)
	}
	all, err = effects.Trash.Ask(ctx, l, effects.None{})
	want := seedbed.TrashItem{Pool: "default", Name: spec.Name, State: seedbed.Restored, Instance: spec.Instance, Size: spec.Size}
	if d := cmp.Diff([]seedbed.TrashItem{want}, all); d != "" || err != nil {
		t.Errorf("%v\n%s", err, d)
	}
	again, err := effects.DiscardVolume.Ask(ctx, l, effects.ImageRef{Pool: "default", Name: spec.Name})
	if err != nil || again == nil {
		t.Fatalf("discard: %v, %v", again, err)
	}
	must(t, "purge", second(effects.PurgeVolume.Ask(ctx, l, effects.TrashRef{Pool: "default", ID: again.ID, Early: true})))
	l.pool.SetTrash(0)
	_, err = effects.CloneVolume.Do(ctx, l, call(1), spec)
	must(t, "clone", err)
	if gone, err := effects.TrashVolume.Do(ctx, l, call(1),
		effects.VolumeRef{Pool: "default", Name: spec.Name, Instance: spec.Instance}); gone != nil || err != nil {
		t.Errorf("without a trash: %v, %v", gone, err)
	}
	if all, err = effects.Trash.Ask(ctx, l, effects.None{}); len(all) != 0 || err != nil {
		t.Errorf("left: %v, %v", all, err)
	}
}
