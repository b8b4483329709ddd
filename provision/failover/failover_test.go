package failover

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"seedbed"
)

// memory is a store with nodes.
type memory struct {
	Store
	nodes    []seedbed.Node
	planes   map[string]time.Time
	accepted []string
	ran      []seedbed.Instance
	boot     string
}

func (m *memory) Interrupted(context.Context, string) ([]seedbed.Instance, error) { return m.ran, nil }

func (m *memory) NoteBoot(_ context.Context, _, boot string) error { m.boot = boot; return nil }

// off is the workers of nodes whose domains are off. Without domains, they never say so.
type off struct {
	Workers
	domains []seedbed.DomainInfo
}

func (o off) Inventory(ctx context.Context, _ string) (seedbed.Inventory, error) {
	if o.domains == nil {
		<-ctx.Done()
		return seedbed.Inventory{}, ctx.Err()
	}
	return seedbed.Inventory{Complete: true, Domains: o.domains}, nil
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

// TestLostBesideSlowNode checks that nodes are fenced while another one has rebooted, and does not say what runs there.
func TestLostBesideSlowNode(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rebooted := seedbed.Fencing{Boot: "1"}
		m := &memory{ran: []seedbed.Instance{{Name: "web1"}}, nodes: []seedbed.Node{
			{Name: "hv1", Seen: time.Now().Add(time.Hour)},
			{Name: "hv2", Seen: time.Now().Add(-time.Hour), Fencing: seedbed.Fencing{Agent: "fence_x"}},
			{Name: "hv3", Seen: time.Now().Add(time.Hour), Fencing: rebooted, Report: seedbed.NodeReport{Boot: "2"}},
			{Name: "hv4", Seen: time.Now().Add(time.Hour), Fencing: rebooted, Report: seedbed.NodeReport{Boot: "2"}},
		}}
		w := New(Config{Node: "hv1", After: time.Minute, Share: 50, Log: slog.New(slog.DiscardHandler)}, m, off{})
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		if err := w.Run(ctx); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(m.accepted, []string{"hv2"}) || m.boot != "" {
			t.Errorf("fenced %v, and boot %q is recorded", m.accepted, m.boot)
		}
	})
}

// TestRestartAfterJob checks that an instance which a job works on is started after the job, and no other twice meanwhile. It is not
// waited for forever.
func TestRestartAfterJob(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		looks int // at which the job has ended; 0 for never
		want  []string
	}{
		{"ends", 3, []string{"web1", "web2"}},
		{"does not end", 0, []string{"web1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			now := time.Now()
			m := &memory{
				ran: []seedbed.Instance{{ID: "i-1", Name: "web1"}, {ID: "i-2", Name: "web2"}},
				nodes: []seedbed.Node{{Name: "hv1", Seen: now.Add(time.Hour), Fencing: seedbed.Fencing{Boot: "1"},
					Report: seedbed.NodeReport{Boot: "2"}}},
			}
			var started []string
			looks := 0
			w := New(Config{Log: slog.New(slog.DiscardHandler), Submit: func(_ context.Context, req seedbed.Request) (seedbed.Receipt, error) {
				if req.Name == "web2" && (tt.looks == 0 || looks < tt.looks) {
					return seedbed.Receipt{}, seedbed.Errorf(seedbed.ErrInUse, "a job works on it")
				}
				started = append(started, req.Name)
				return seedbed.Receipt{}, nil
			}}, m, off{domains: []seedbed.DomainInfo{{ID: "i-1", State: seedbed.DomainOff}, {ID: "i-2", State: seedbed.DomainOff}}})
			for ; m.boot == "" && looks < 400; looks++ {
				if err := w.Look(t.Context(), now.Add(time.Duration(looks)*2*time.Second)); err != nil && !errors.Is(err, seedbed.ErrInUse) {
					t.Fatal(err)
				}
			}
			if !slices.Equal(started, tt.want) || m.boot != "2" {
				t.Errorf("started %v, want %v; the recorded boot is %q", started, tt.want, m.boot)
			}
		})
	}
}
