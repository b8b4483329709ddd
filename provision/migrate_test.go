package provision

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"seedbed"
	"seedbed/internal/feedtest"
	"seedbed/provision/effects"
	"seedbed/provision/worker/drivertest"
)

// eachHypervisor calls do for the hypervisor of each node.
func (l *lab) eachHypervisor(do func(*drivertest.Hypervisor)) {
	f, several := l.fleet.(*nodes)
	if !several {
		do(l.hv)
		return
	}
	for _, h := range f.hosts {
		do(h.hv)
	}
}

func (h *host) handleMoves(t effects.Handlers) {
	effects.CopyDomain.Handle(t, func(ctx context.Context, a effects.DomainRef) (seedbed.DomainCopy, error) {
		if err := h.answers(); err != nil {
			return seedbed.DomainCopy{}, err
		}
		return h.hv.CopyDomain(ctx, a.ID)
	})
	effects.ReceiveDomain.Handle(t, func(ctx context.Context, call seedbed.Call, c seedbed.DomainCopy) error {
		if err := h.fence(call); err != nil {
			return err
		}
		return h.hv.ReceiveDomain(ctx, c)
	})
	effects.MigrateDomain.Handle(t, func(
		ctx context.Context, call seedbed.Call, m seedbed.Migration, to effects.Listener,
	) (effects.None, error) {
		if err := h.fence(call); err != nil {
			return effects.None{}, err
		}
		return effects.None{}, h.hv.MigrateDomain(ctx, m, to.Progress)
	})
	effects.StopMigration.Handle(t, func(ctx context.Context, call seedbed.Call, a effects.DomainRef) error {
		if err := h.fence(call); err != nil {
			return err
		}
		return h.hv.StopMigration(ctx, a.ID)
	})
}

// migrate requests that web1 goes to the other node.
func (l *lab) migrate(params map[string]any) seedbed.JobID {
	l.t.Helper()
	return l.job(l.intake.Submit(l.t.Context(), seedbed.Request{Action: seedbed.DoMigrate, Name: "web1", Params: params}, nil))
}

// isOn checks that web1 is on one node and nowhere else: its domain, and its record.
func (l *lab) isOn(node string, state seedbed.DomainState) {
	l.t.Helper()
	inst := l.byName("web1")
	want := seedbed.InstanceStopped
	if state == seedbed.DomainRunning {
		want = seedbed.InstanceRunning
	}
	if inst.Node != node || inst.Target != "" || inst.State != want {
		l.t.Errorf("the instance is %s on node %q, on its way to %q; want it %s on %s", inst.State, inst.Node, inst.Target, state, node)
	}
	for name, h := range l.fleet.(*nodes).hosts {
		info, err := h.hv.DomainState(l.t.Context(), inst.ID)
		if here := err == nil; here != (name == node) || here && info.State != state {
			l.t.Errorf("node %s: domain %+v, %v", name, info, err)
		}
		page, err := l.db.FeedPage(l.t.Context(), name, 0, "")
		l.ok(err)
		served := 0
		for _, c := range feedtest.Changes(l.t, page) {
			if c.Guest != nil && c.Guest.ID == inst.ID {
				served++
				if c.Guest.Arriving || c.Guest.Node != node {
					l.t.Errorf("node %s serves %+v", name, c.Guest)
				}
			}
		}
		if served == 1 != (name == node) {
			l.t.Errorf("node %s serves it %d times", name, served)
		}
	}
}

// TestMigrateThereAndBack takes an instance with volumes and a console through both methods, and home again.
func TestMigrateThereAndBack(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyMetadata)
	f := l.withOther(true)
	was := l.made()
	l.runUntil(l.addVolume("data"), seedbed.JobSucceeded)
	l.runUntil(l.attach("data", "web1"), seedbed.JobSucceeded)
	l.hv.Write(was.ID, "booted\n")
	spec, _ := l.hv.Spec(was.ID)
	console := func(node, want string) {
		t.Helper()
		text, err := f.hosts[node].hv.Console(t.Context(), was.ID, seedbed.KiB)
		if err != nil || string(text) != want {
			t.Errorf("the console on node %s: %q, %v; want %q", node, text, err, want)
		}
	}
	home := func(want string) {
		t.Helper()
		if now := l.byName("web1"); now.Home != want {
			t.Errorf("home is %q, want %q", now.Home, want)
		}
	}
	l.runUntil(l.migrate(map[string]any{"method": "live"}), seedbed.JobSucceeded)
	l.isOn(otherNode, seedbed.DomainRunning)
	console(otherNode, "booted\n")
	home(testNode)
	if now, _ := f.hosts[otherNode].hv.Spec(was.ID); cmp.Diff(spec, now) != "" {
		t.Errorf("the domain (-before +after):\n%s", cmp.Diff(spec, now))
	}
	l.runUntil(l.migrate(map[string]any{"method": "cold", "back": true}), seedbed.JobSucceeded)
	l.isOn(testNode, seedbed.DomainRunning)
	home("")
	l.runUntil(l.ask(seedbed.DoStop, nil), seedbed.JobSucceeded)
	l.runUntil(l.migrate(map[string]any{"stay": true}), seedbed.JobSucceeded)
	l.isOn(otherNode, seedbed.DomainOff)
	home("")
	l.runUntil(l.ask(seedbed.DoStart, nil), seedbed.JobSucceeded)
	l.isOn(otherNode, seedbed.DomainRunning)
	l.runUntil(l.remove("web1"), seedbed.JobSucceeded)
	if left := f.has(t, was.ID); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// TestMigrateRefused requests migrations that cannot be.
func TestMigrateRefused(t *testing.T) {
	t.Parallel()
	refused := func(l *lab, node, want string, params map[string]any) {
		l.t.Helper()
		req := seedbed.Request{Action: seedbed.DoMigrate, Name: "web1", Node: node, Params: params}
		_, err := l.intake.Submit(l.t.Context(), req, nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			l.t.Errorf("node %q, %v: got %v; want %q", node, params, err, want)
		}
		p, planErr := l.intake.Plan(l.t.Context(), req)
		if planErr != nil || err == nil || !slices.Contains(p.Problems, err.Error()) {
			l.t.Errorf("node %q, %v: the plan has the problems %q, %v", node, params, p.Problems, planErr)
		}
	}
	live, cold := map[string]any{"method": "live"}, map[string]any{"method": "cold"}
	t.Run("shared", func(t *testing.T) {
		t.Parallel()
		l := newLab(t).withProfile(seedbed.ReadyMetadata)
		l.withOther(true)
		l.made()
		refused(l, "", "--cold", nil)
		refused(l, "", "expected live or cold", map[string]any{"method": "warm"})
		refused(l, "", "need method cold", map[string]any{"method": "live", "force": true})
		refused(l, "", `param "fast" is unknown`, map[string]any{"fast": true})
		refused(l, "", "to go back to no node", map[string]any{"method": "live", "back": true})
		refused(l, testNode, "it is there now", live)
		refused(l, "node3", "does not exist", cold)
		l.runUntil(l.ask(seedbed.DoStop, nil), seedbed.JobSucceeded)
		refused(l, "", "seedbed vm move web1", live)
	})
	t.Run("a pool each", func(t *testing.T) {
		t.Parallel()
		l := newLab(t).withProfile(seedbed.ReadyMetadata)
		l.withOther(false)
		inst := l.made()
		refused(l, "", "volume \""+inst.Volumes[0].Name+"\" is in a pool of that node", live)
		refused(l, otherNode, "is not shared", cold)
	})
}

// TestMigrateVolumeMissing has nodes say that they share a pool, and they do not.
func TestMigrateVolumeMissing(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyMetadata)
	f := l.withOther(true)
	l.made()
	f.hosts[otherNode].pool = drivertest.NewPool()
	job := l.runUntil(l.migrate(map[string]any{"method": "live"}), seedbed.JobRolledBack)
	if !strings.Contains(job.Error, "is the pool the same storage on both nodes?") {
		t.Errorf("job: %s", job.Error)
	}
	l.isOn(testNode, seedbed.DomainRunning)
}

// TestMigrateFails has the hypervisors fail before and after the guest has left: it is on one of the two nodes then, and nothing is
// left on the other. One that cannot be started there is back here.
func TestMigrateFails(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	for point, node := range map[drivertest.Point]string{drivertest.Before: testNode, drivertest.After: otherNode} {
		l := newLab(t).withProfile(seedbed.ReadyMetadata)
		l.withOther(true)
		l.made()
		l.hv.Fail(func(_ context.Context, effect string, at drivertest.Point) error {
			if effect == "MigrateDomain" && at == point {
				return boom
			}
			return nil
		})
		want := seedbed.JobSucceeded
		if node == testNode {
			want = seedbed.JobRolledBack
		}
		l.runUntil(l.migrate(map[string]any{"method": "live"}), want)
		l.isOn(node, seedbed.DomainRunning)
	}
	l := newLab(t).withProfile(seedbed.ReadyMetadata)
	f := l.withOther(true)
	l.made()
	f.hosts[otherNode].hv.Fail(func(_ context.Context, effect string, _ drivertest.Point) error {
		if effect == "StartDomain" {
			return boom
		}
		return nil
	})
	l.runUntil(l.migrate(map[string]any{"method": "cold"}), seedbed.JobRolledBack)
	l.isOn(testNode, seedbed.DomainRunning)
}

// TestMigrateAutostart checks that a domain which starts with its node does so on the node of its instance alone.
func TestMigrateAutostart(t *testing.T) {
	t.Parallel()
	yes := true
	l := newLab(t).withProfile(seedbed.ReadyMetadata)
	f := l.withOther(true)
	l.made()
	l.runUntil(l.set(seedbed.HardwareChange{Autostart: &yes}), seedbed.JobSucceeded)
	id := l.byName("web1").ID
	starts := func(node string) bool {
		spec, there := f.hosts[node].hv.Spec(id)
		return there && spec.System != nil && spec.System.Autostart
	}
	fails := ""
	for node, h := range f.hosts {
		h.hv.Fail(func(_ context.Context, effect string, at drivertest.Point) error {
			if starts(testNode) && starts(otherNode) {
				t.Errorf("at %s, the domain starts with both nodes", effect)
			}
			if effect == fails && at == drivertest.Before && (node == otherNode || effect != "StartDomain") {
				return errors.New("boom")
			}
			return nil
		})
	}
	isOn := func(node string) {
		t.Helper()
		if l.byName("web1").Node != node || !starts(node) || starts(testNode) == starts(otherNode) {
			t.Errorf("the domain starts with %s: %v, with %s: %v; want it to start with %s", testNode, starts(testNode),
				otherNode, starts(otherNode), node)
		}
	}
	fails = "MigrateDomain"
	l.runUntil(l.migrate(map[string]any{"method": "live"}), seedbed.JobRolledBack)
	isOn(testNode)
	fails = "StartDomain"
	l.runUntil(l.migrate(map[string]any{"method": "cold"}), seedbed.JobRolledBack)
	fails = ""
	isOn(testNode)
	l.runUntil(l.migrate(map[string]any{"method": "live"}), seedbed.JobSucceeded)
	isOn(otherNode)
	l.runUntil(l.migrate(map[string]any{"method": "cold", "back": true}), seedbed.JobSucceeded)
	isOn(testNode)
}

// flattened checks that the instance is off, and that its disk is a clone of that image.
func (l *lab) flattened(inst seedbed.Instance, image string) {
	l.t.Helper()
	now, err := l.db.Instance(l.t.Context(), inst.ID)
	l.ok(err)
	if now.Volumes[0].Image != image {
		l.t.Errorf("volume %+v", now.Volumes[0])
	}
	l.domain(inst.ID, seedbed.DomainOff)
}
