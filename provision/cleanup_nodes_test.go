package provision

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"seedbed"
	"seedbed/provision/cleanup"
)

// TestCleanupNodes checks that a node without a reliable inventory is skipped with all its
// instances, and that the others are cleaned.
func TestCleanupNodes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		// act sets the scene: a1 of testNode and b1 to b4 of the other node run, and all except a1
		// are missed.
		act     func(t *testing.T, l *lab, f *nodes, of map[string]seedbed.Instance)
		opt     cleanup.Options
		refused string
		skipped []string
		items   []string
	}{
		{name: "all there"},
		{name: "one missing on each", act: func(_ *testing.T, l *lab, f *nodes, of map[string]seedbed.Instance) {
			f.hosts[testNode].hv.Forget(of["a1"].ID)
			f.hosts[otherNode].hv.Forget(of["b1"].ID)
		}, items: []string{"a1", "b1"}},
		{name: "one is away", act: func(_ *testing.T, l *lab, f *nodes, of map[string]seedbed.Instance) {
			f.hosts[testNode].hv.Forget(of["a1"].ID)
			f.hosts[otherNode].hv.Forget(of["b1"].ID)
			f.setAway(otherNode, true, long)
		}, skipped: []string{"no inventory of node node2, so nothing is removed there: "}, items: []string{"a1"}},
		{name: "one is not complete", act: func(_ *testing.T, l *lab, f *nodes, of map[string]seedbed.Instance) {
			f.hosts[testNode].hv.Forget(of["a1"].ID)
			f.hosts[otherNode].hv.Forget(of["b1"].ID)
			f.hosts[otherNode].partial.Store(true)
		}, skipped: []string{"the inventory of node node2 is not complete, so nothing is removed there: "}, items: []string{"a1"}},
		{name: "one looks wrong", act: func(_ *testing.T, l *lab, f *nodes, of map[string]seedbed.Instance) {
			f.hosts[testNode].hv.Forget(of["a1"].ID)
			for _, n := range []string{"b1", "b2", "b3"} {
				f.hosts[otherNode].hv.Forget(of[n].ID)
			}
		}, skipped: []string{"3 of 4 instances have no domain on node node2"}, items: []string{"a1"}},
		{name: "one looks wrong, forced", act: func(_ *testing.T, l *lab, f *nodes, of map[string]seedbed.Instance) {
			for _, n := range []string{"b1", "b2", "b3"} {
				f.hosts[otherNode].hv.Forget(of[n].ID)
			}
		}, opt: cleanup.Options{Force: true}, items: []string{"b1", "b2", "b3"}},
		{name: "one was removed", act: func(_ *testing.T, l *lab, f *nodes, of map[string]seedbed.Instance) {
			f.hosts[testNode].hv.Forget(of["a1"].ID)
			f.hosts[otherNode].hv.Forget(of["b1"].ID)
			f.drop(otherNode)
		}, items: []string{"a1"}},
		{name: "all are away", act: func(_ *testing.T, l *lab, f *nodes, of map[string]seedbed.Instance) {
			f.setAway(testNode, true, long)
			f.setAway(otherNode, true, long)
		}, refused: "no inventory of node node1, so nothing is removed there: "},
		{name: "there is none", act: func(_ *testing.T, l *lab, f *nodes, _ map[string]seedbed.Instance) {
			f.drop(testNode)
			f.drop(otherNode)
		}, refused: "there is no node"},
		{name: "moved by hand", act: func(t *testing.T, l *lab, f *nodes, of map[string]seedbed.Instance) {
			f.hosts[otherNode].hv.Forget(of["b1"].ID)
			l.ok(f.hosts[testNode].hv.DefineDomain(t.Context(), seedbed.DomainSpec{ID: of["b1"].ID, Name: "b1"}))
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l, f := onTwo(t, true)
			p := l.start()
			of := map[string]seedbed.Instance{}
			for _, name := range []string{"a1", "b1", "b2", "b3", "b4"} {
				node := otherNode
				if name == "a1" {
					node = testNode
				}
				l.wait(l.createOn(name, node), seedbed.JobSucceeded)
				inst, err := l.db.InstanceByName(t.Context(), seedbed.InDefault(name))
				l.ok(err)
				of[name] = inst
			}
			p.stop()
			for _, node := range []string{testNode, otherNode} { // all have been missed for an hour
				l.ok(l.db.NotePresence(t.Context(), node, nil, time.Now().Add(-time.Hour)))
			}
			if tt.act != nil {
				tt.act(t, l, f, of)
			}
			cleaner := cleanup.New(cleanup.Config{}, l.db, f)
			dry, err := cleaner.Run(t.Context(), cleanup.Options{DryRun: true, Force: tt.opt.Force})
			l.ok(err)
			real, err := cleaner.Run(t.Context(), tt.opt)
			l.ok(err)
			if d := cmp.Diff(dry, real); d != "" {
				t.Errorf("the real run differs (-dry +real):\n%s", d)
			}
			if (tt.refused == "") != (real.Refused == "") || !strings.HasPrefix(real.Refused, tt.refused) {
				t.Errorf("refused %q", real.Refused)
			}
			if len(real.Skipped) != len(tt.skipped) {
				t.Fatalf("skipped %q", real.Skipped)
			}
			for i, why := range tt.skipped {
				if !strings.HasPrefix(real.Skipped[i], why) {
					t.Errorf("skipped %q; want %q", real.Skipped[i], why)
				}
			}
			var items []string
			for _, i := range real.Items {
				items = append(items, i.Subject)
			}
			if d := cmp.Diff(tt.items, items); d != "" {
				t.Errorf("items (-want +got):\n%s", d)
			}
			for name, inst := range of {
				now, err := l.db.Instance(t.Context(), inst.ID)
				l.ok(err)
				if gone := strings.Contains(fmt.Sprint(items), name); gone != (now.State == seedbed.InstanceGone) || gone != (len(now.NICs) == 0) {
					t.Errorf("%s is %s with %d NICs", name, now.State, len(now.NICs))
				}
			}
		})
	}
}

// bins are the trash of two nodes, which share one pool.
type bins struct {
	away   string
	purged []string
}

// Trash implements cleanup.TrashBin.
func (b *bins) Trash(_ context.Context, node string) ([]seedbed.TrashItem, error) {
	if node == b.away {
		return nil, seedbed.Errorf(seedbed.ErrUnavailable, "Ceph does not answer")
	}
	item := seedbed.TrashItem{Pool: "rbd", ID: "t1", Name: "common", State: seedbed.Trashed}
	own := seedbed.TrashItem{Pool: "default", Node: node, ID: "t1", Name: "of " + node, State: seedbed.Trashed}
	return []seedbed.TrashItem{item, own}, nil
}

// PurgeVolume implements cleanup.TrashBin.
func (b *bins) PurgeVolume(_ context.Context, item seedbed.TrashItem, early bool) error {
	if early {
		return seedbed.Errorf(seedbed.ErrInvalid, "purged before its time")
	}
	b.purged = append(b.purged, item.Pool+" "+item.Node)
	return nil
}

// TestTrashOfNodes checks that what nodes share is purged once, and that the trash of a node that
// cannot be listed is left.
func TestTrashOfNodes(t *testing.T) {
	t.Parallel()
	l, f := onTwo(t, true)
	for _, tt := range []struct {
		away   string
		purged []string
		skips  string
	}{
		{"", []string{"rbd ", "default node1", "default node2"}, "[]"},
		{otherNode, []string{"rbd ", "default node1"}, "[the trash of node node2 cannot be listed, so nothing is removed: Ceph does not answer]"},
	} {
		bin := &bins{away: tt.away}
		r, err := cleanup.New(cleanup.Config{Trash: bin}, l.db, f).Run(t.Context(), cleanup.Options{})
		l.ok(err)
		if d := cmp.Diff(tt.purged, bin.purged); d != "" || fmt.Sprint(r.Skipped) != tt.skips || len(r.Items) != len(tt.purged) {
			t.Errorf("%q is away: %+v (-want +got):\n%s", tt.away, r, d)
		}
	}
}
