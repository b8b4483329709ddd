package fleet_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"seedbed"
	"seedbed/provision/effects"
)

// removed makes a volume in a pool of a node and moves it into the trash.
func (l *fleetLab) removed(t *testing.T, node, pool string) *seedbed.TrashItem {
	t.Helper()
	spec := volume()
	spec.Pool = pool
	return l.removedAs(t, node, spec)
}

// removedAs is removed for a volume with that spec.
func (l *fleetLab) removedAs(t *testing.T, node string, spec seedbed.VolumeSpec) *seedbed.TrashItem {
	t.Helper()
	l.labs[node].pool.SetTrash(time.Hour)
	l.common.SetTrash(time.Hour)
	_, err := effects.CloneVolume.Do(t.Context(), l.Of(node), call(1), spec)
	must(t, "clone", err)
	item, err := effects.TrashVolume.Do(t.Context(), l.Of(node), call(1),
		effects.VolumeRef{Pool: spec.Pool, Name: spec.Name, Instance: spec.Instance})
	must(t, "trash", err)
	return item
}

func TestFleetTrash(t *testing.T) {
	t.Parallel()
	l, ctx := startFleet(t), t.Context()
	first := l.removed(t, "hv2", "default") // the drivers in memory count, while real ones draw an ID
	must(t, "purge", second(effects.PurgeVolume.Ask(ctx, l.Of("hv2"), effects.TrashRef{Pool: "default", ID: first.ID, Early: true})))
	one, two, both := l.removed(t, "hv1", "default"), l.removed(t, "hv2", "default"), l.removed(t, "hv2", "rbd")
	listed := func(node string) (all []string) {
		items, err := l.Trash(ctx, node)
		must(t, "list", err)
		for _, i := range items {
			all = append(all, i.Pool+" "+i.Node+" "+i.Name)
		}
		slices.Sort(all)
		return all
	}
	is := func(i *seedbed.TrashItem, node string) string { return fmt.Sprintf("%s %s %s", i.Pool, node, i.Name) }
	if d := cmp.Diff([]string{is(one, "hv1"), is(two, "hv2"), is(both, "")}, listed("")); d != "" {
		t.Errorf("all (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]string{is(two, "hv2"), is(both, "")}, listed("hv2")); d != "" {
		t.Errorf("of hv2 (-want +got):\n%s", d)
	}
	if _, err := l.Trash(ctx, "hv9"); !errors.Is(err, seedbed.ErrNotFound) {
		t.Errorf("of a node that is none: %v", err)
	}
	v, err := l.RestoreVolume(ctx, "", "default", two.ID)
	must(t, "restore", err)
	if v.Name != two.Name {
		t.Errorf("restored %+v", v)
	}
	if _, err := l.DiscardVolume(ctx, "", "default", v.Name); err != nil {
		t.Error(err)
	}
	if _, err := l.DiscardVolume(ctx, "", "default", one.Name); !errors.Is(err, seedbed.ErrNotFound) {
		t.Errorf("what was not restored: %v", err)
	}
	if _, err := l.RestoreVolume(ctx, "", "default", "t404"); !errors.Is(err, seedbed.ErrNotFound) {
		t.Errorf("what is nowhere: %v", err)
	}

	must(t, "stop", l.labs["hv1"].stop())
	l.eventually(t, "hv1 is away", func() bool { return l.Nodes()[0].Problem != "" })
	if _, err := l.Trash(ctx, ""); !errors.Is(err, seedbed.ErrUnavailable) || !strings.Contains(err.Error(), "node hv1: ") ||
		!strings.Contains(err.Error(), "--node") {
		t.Errorf("while one is away: %v", err)
	}
	if got := listed("hv2"); len(got) != 2 {
		t.Errorf("of hv2 alone: %v", got)
	}
	// What others have is still reachable; what is nowhere else may be on hv1.
	if _, err := l.RestoreVolume(ctx, "", "rbd", both.ID); err != nil {
		t.Error(err)
	}
	if _, err := l.RestoreVolume(ctx, "", "default", one.ID); !errors.Is(err, seedbed.ErrUnavailable) {
		t.Errorf("what is on the one that is away: %v", err)
	}
	items, err := l.Trash(ctx, "hv2")
	must(t, "list", err)
	for _, i := range items {
		if i.State == seedbed.Trashed {
			must(t, "purge", l.PurgeVolume(ctx, i, true))
		}
	}
	if got := listed("hv2"); len(got) != 1 { // the restored volume
		t.Errorf("after the purge: %v", got)
	}
}

// TestFleetTrashOfSeveral checks that an item in the trash of several nodes is taken from the node
// that is named, and from none without a name.
func TestFleetTrashOfSeveral(t *testing.T) {
	t.Parallel()
	l, ctx, spec := startFleet(t), t.Context(), volume() // as after the disks of a node were moved to another by hand
	nodes := []string{"hv1", "hv2"}
	var id string
	for _, node := range nodes {
		item := l.removedAs(t, node, spec)
		if id != "" && id != item.ID {
			t.Fatalf("the drivers in memory made the IDs %s and %s: want the same", id, item.ID)
		}
		id = item.ID
	}
	ambiguous := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, seedbed.ErrConflict) ||
			!strings.Contains(err.Error(), what+" of pool default is on hv1 and hv2: choose one (--node NAME, ?node=NAME)") {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err := l.RestoreVolume(ctx, "", "default", id)
	ambiguous(fmt.Sprintf("%q in the trash", id), err)
	if _, err := l.RestoreVolume(ctx, "hv9", "default", id); !errors.Is(err, seedbed.ErrNotFound) {
		t.Errorf("of a node that is none: %v", err)
	}
	for _, node := range nodes {
		v, err := l.RestoreVolume(ctx, node, "default", id)
		must(t, "restore", err)
		if v.Name != spec.Name {
			t.Errorf("restored %+v of %s", v, node)
		}
	}
	_, err = l.DiscardVolume(ctx, "", "default", spec.Name)
	ambiguous(fmt.Sprintf("restored volume %q", spec.Name), err)
	again, err := l.DiscardVolume(ctx, "hv2", "default", spec.Name)
	must(t, "discard", err)
	if again.Name != spec.Name || again.Node != "hv2" {
		t.Errorf("discarded %+v", again)
	}
	if _, err := l.DiscardVolume(ctx, "hv2", "default", spec.Name); !errors.Is(err, seedbed.ErrNotFound) {
		t.Errorf("what is there no more: %v", err)
	}
	_, err = l.DiscardVolume(ctx, "", "default", spec.Name) // the one on hv1
	must(t, "discard the only one that is left", err)
}
