package failover

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"seedbed"
)

// memory is a store with nodes.
type memory struct {
	Store
	nodes    []seedbed.Node
	planes   map[string]time.Time
	accepted []string
}

func (m *memory) Nodes(context.Context) ([]seedbed.Node, error) { return m.nodes, nil }

func (m *memory) Applied(_ context.Context, node string) (int64, time.Time, error) {
	return 1, m.planes[node], nil
}

func (m *memory) Accept(_ context.Context, a seedbed.Acceptance) (seedbed.Receipt, error) {
	m.accepted = append(m.accepted, a.Job.Subject)
	return seedbed.Receipt{}, nil
}

// TestLost checks which nodes are fenced. The control host is hv1, and hv2 is the one that may be lost.
func TestLost(t *testing.T) {
	t.Parallel()
	now := time.Now()
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	agent := seedbed.Fencing{Agent: "fence_x"}
	node := func(name string, silent time.Duration, f seedbed.Fencing) seedbed.Node {
		return seedbed.Node{Name: name, Seen: ago(silent), Fencing: f}
	}
	for _, tt := range []struct {
		name   string
		nodes  []seedbed.Node
		plane  time.Duration
		after  time.Duration
		fenced bool
	}{
		{"lost", []seedbed.Node{node("hv1", 0, agent), node("hv2", time.Hour, agent), node("hv3", 0, agent)}, time.Hour, time.Minute, true},
		{"the other of two", []seedbed.Node{node("hv1", 0, agent), node("hv2", time.Hour, agent)}, time.Hour, time.Minute, true},
		{"not long enough", []seedbed.Node{node("hv1", 0, agent), node("hv2", 50*time.Second, agent)}, time.Hour, time.Minute, false},
		{"its guest plane answers", []seedbed.Node{node("hv1", 0, agent), node("hv2", time.Hour, agent)}, time.Second, time.Minute, false},
		{"without an agent", []seedbed.Node{node("hv1", 0, agent), node("hv2", time.Hour, seedbed.Fencing{})}, time.Hour, time.Minute, false},
		{"the control host is cut off", []seedbed.Node{node("hv1", 0, agent), node("hv2", time.Hour, agent), node("hv3", time.Hour,
			seedbed.Fencing{})}, time.Hour, time.Minute, false},
		{"alone", []seedbed.Node{node("hv2", time.Hour, agent)}, time.Hour, time.Minute, false},
		{"fenced already", []seedbed.Node{node("hv1", 0, agent), node("hv2", time.Hour, seedbed.Fencing{Agent: "fence_x", Fenced: now})},
			time.Hour, time.Minute, false},
		{"switched off", []seedbed.Node{node("hv1", 0, agent), node("hv2", time.Hour, agent)}, time.Hour, 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := &memory{nodes: tt.nodes, planes: map[string]time.Time{"hv2": ago(tt.plane)}}
			w := New(Config{Node: "hv1", After: tt.after, Share: 50, Log: slog.New(slog.DiscardHandler)}, m, nil)
			// A fence is not requested again before the node has answered.
			for at := ago(70 * time.Second); !at.After(now); at = at.Add(10 * time.Second) {
				if err := w.Look(t.Context(), at); err != nil {
					t.Fatal(err)
				}
			}
			if fenced := len(m.accepted) == 1 && m.accepted[0] == "hv2"; fenced != tt.fenced || len(m.accepted) > 1 {
				t.Errorf("fenced %v, want it fenced: %v", m.accepted, tt.fenced)
			}
		})
	}
}

// TestLostOnlyWhileLooking checks that a control host fences no node for a time in which it did not look itself: at its start, and after it
// was frozen.
func TestLostOnlyWhileLooking(t *testing.T) {
	t.Parallel()
	now := time.Now()
	m := &memory{nodes: []seedbed.Node{
		{Name: "hv1", Seen: now.Add(time.Hour)}, {Name: "hv2", Seen: now.Add(-time.Hour), Fencing: seedbed.Fencing{Agent: "fence_x"}},
	}}
	w := New(Config{Node: "hv1", After: time.Minute, Share: 50, Log: slog.New(slog.DiscardHandler)}, m, nil)
	for _, at := range []time.Duration{0, 20, 40, 50, 110, 130, 150, 169} {
		if err := w.Look(t.Context(), now.Add(at*time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	if len(m.accepted) > 0 {
		t.Errorf("fenced %v", m.accepted)
	}
	if err := w.Look(t.Context(), now.Add(170*time.Second)); err != nil || len(m.accepted) != 1 {
		t.Errorf("fenced %v, %v", m.accepted, err)
	}
}
