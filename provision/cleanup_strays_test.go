package provision

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"seedbed"
	"seedbed/provision/cleanup"
)

// sighted is a worker whose inventory has volumes and images, too.
type sighted struct{ alone }

func (w sighted) Inventory(ctx context.Context, node string) (seedbed.Inventory, error) {
	inv, err := w.alone.Inventory(ctx, node)
	if err != nil {
		return inv, err
	}
	h := w.worker.(*host)
	if inv.Volumes, err = h.pool.Volumes(ctx); err == nil {
		inv.Images, err = h.pool.Images(ctx)
	}
	return inv, err
}

// TestStrays checks that what carries Seedbed's tag but belongs to nothing in the database is
// reported after two runs have seen it, and stays. What belongs to an instance or image, or has no
// tag, is not reported.
func TestStrays(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	l.excuse("I5", "the database knows nothing of what is there")
	l.made()
	ctx := t.Context()
	lost := seedbed.NewInstanceID()
	l.ok(l.hv.DefineDomain(ctx, seedbed.DomainSpec{ID: lost, Name: "lost.acme", Project: "acme"}))
	_, err := l.pool.CloneVolume(ctx, seedbed.NewJobID(),
		seedbed.VolumeSpec{Name: "lost-0", Instance: lost, Project: "acme", Size: seedbed.MiB})
	l.ok(err)
	l.pool.AddImage(seedbed.NewJobID(), "lost", 512)
	cleaner := cleanup.New(cleanup.Config{}, l.db, sighted{alone{l.host}})
	told := func(dry bool) (all []string) {
		t.Helper()
		_, err := cleaner.Run(ctx, cleanup.Options{DryRun: dry})
		l.ok(err)
		list, err := l.db.Strays(ctx)
		l.ok(err)
		for _, o := range list {
			all = append(all, strings.TrimSpace(fmt.Sprintln(o.Kind, o.Node, o.Name, o.Project)))
		}
		return sorted(all)
	}
	for _, dry := range []bool{true, true, false, true} {
		if got := told(dry); got != nil {
			t.Errorf("told at once: %q", got)
		}
	}
	want := []string{"domain node1 lost.acme acme", "image node1 lost", "volume node1 lost-0 acme"}
	if d := cmp.Diff(want, told(false)); d != "" {
		t.Errorf("told (-want +got):\n%s", d)
	}
	l.host.partial.Store(true) // an incomplete inventory reports nothing new
	if d := cmp.Diff(want, told(false)); d != "" {
		t.Errorf("told by a node that cannot be relied on (-want +got):\n%s", d)
	}
	l.host.partial.Store(false)
	l.ok(l.hv.UndefineDomain(ctx, lost))
	if d := cmp.Diff(want[1:], told(false)); d != "" {
		t.Errorf("told afterwards (-want +got):\n%s", d)
	}
	volumes, err := l.pool.Volumes(ctx)
	l.ok(err)
	if len(volumes) != 2 {
		t.Errorf("volumes %v", volumes)
	}
}
