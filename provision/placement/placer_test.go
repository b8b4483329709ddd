package placement

import (
	"context"
	"errors"
	"testing"
	"time"

	"seedbed"
)

// The nodes are read once a second at most, by one of those who ask, and also when they changed or
// one is named that is not known. What a single node has is not counted.
func TestPictureIsKept(t *testing.T) {
	t.Parallel()
	h := &told{snapshot: fleetOf()}
	p := New(h, "hv1", Config{})
	now := noon
	p.now = func() time.Time { return now }
	reads := func(want int, d Demand) {
		t.Helper()
		s, err := p.Choose(t.Context(), d)
		if err == nil {
			s.Settle(false)
		}
		if h.reads != want {
			t.Errorf("read %d times; want %d", h.reads, want)
		}
	}
	reads(1, Demand{})
	now = now.Add(999 * time.Millisecond)
	reads(1, Demand{Node: "hv3"})
	reads(2, Demand{Node: "hv9"}) // it may have come
	now = now.Add(snapshotAge)
	reads(3, Demand{})
	h.changes++
	reads(4, Demand{})
	reads(4, Demand{})
	h.err = errors.New("no database") // what is known must do
	now = now.Add(snapshotAge)
	reads(5, Demand{})
	if s, err := p.Choose(t.Context(), Demand{}); err != nil || s.Node != "hv2" {
		t.Errorf("without the database: %v, %v", s, err)
	}

	one := &uncounted{nodes: fleetOf().nodes[:1]}
	if s, err := New(one, "hv1", Config{}).Choose(t.Context(), Demand{}); err != nil || s.Node != "hv1" {
		t.Errorf("one node: %v, %v", s, err)
	}
	if _, err := New(one, "hv1", Config{MemoryOvercommit: 1}).Choose(t.Context(), Demand{}); !errors.Is(err, errCounted) {
		t.Errorf("one node with a bound was not counted: %v", err)
	}
}

var errCounted = errors.New("counted")

// uncounted refuses to count.
type uncounted struct{ nodes []seedbed.Node }

func (u *uncounted) Nodes(context.Context) ([]seedbed.Node, error) { return u.nodes, nil }

func (u *uncounted) NodeChanges() int64 { return 0 }

func (u *uncounted) GroupMembers(context.Context) ([]seedbed.GroupMember, error) { return nil, nil }

func (u *uncounted) PoolUse(context.Context) ([]seedbed.PoolUse, error) { return nil, nil }

func (u *uncounted) NodeUse(context.Context) ([]seedbed.NodeUse, error) { return nil, errCounted }

// A choice counts from the moment that it is made until the database tells of it:
// also while the snapshot is read again, and not once it was released unused.
func TestPictureCountsChoices(t *testing.T) {
	t.Parallel()
	h := &told{snapshot: fleetOf()}
	clear(h.use)
	p := New(h, "hv1", Config{Selector: seedbed.SelectVCPUs})
	now := noon
	p.now = func() time.Time { return now }
	want := func(text string, vcpus ...int) {
		t.Helper()
		p.mu.Lock()
		defer p.mu.Unlock()
		for i, n := range []string{"hv1", "hv2", "hv3"} {
			if got := p.snapshot.use[n]; got.VCPUs != vcpus[i] || got.ComingVCPUs != vcpus[i] || (got.Instances == 0) != (vcpus[i] == 0) {
				t.Errorf("%s: %s has %+v; want %d vCPUs", text, n, got, vcpus[i])
			}
		}
	}
	choose := func(node string) *Reservation {
		t.Helper()
		s, err := p.Choose(t.Context(), Demand{Node: node, VCPUs: 2, Memory: seedbed.GiB})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	refused, written, open := choose("hv1"), choose("hv2"), choose("hv3")
	want("chosen", 2, 2, 2)
	refused.Settle(false)
	want("one is refused", 0, 2, 2)
	refused.Settle(false)
	want("told twice", 0, 2, 2)

	now = now.Add(snapshotAge)
	written.Settle(true) // at the same moment as the snapshot is read: it may not be in it
	choose("hv1").Settle(false)
	want("read while one was written", 0, 2, 2)
	now = now.Add(snapshotAge)
	choose("hv1").Settle(false)
	want("read after it was written", 0, 0, 2) // the database of this test has nothing
	open.Settle(false)
	want("nothing is left", 0, 0, 0)
	if len(p.reservations) != 0 {
		t.Errorf("%d choices are kept", len(p.reservations))
	}
}
