package provision

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"seedbed"
	"seedbed/provision/effects"
	"seedbed/provision/failover"
)

// unsealed opens the secrets of the lab's fence agents, which are not encrypted.
func unsealed(sealed []byte) (secrets map[string]string, err error) {
	return secrets, json.Unmarshal(sealed, &secrets)
}

func (h *host) handleFences(t effects.Handlers) {
	effects.FenceNode.Handle(t, func(_ context.Context, call seedbed.Call, c seedbed.FenceCall, _ effects.Listener) (effects.None, error) {
		if err := h.fence(call); err != nil {
			return effects.None{}, err
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		h.fences = append(h.fences, c)
		if h.agent != nil {
			return effects.None{}, h.agent(c)
		}
		return effects.None{}, nil
	})
	effects.Admit.Handle(t, func(ctx context.Context, a effects.Admission) (effects.None, error) {
		for _, id := range a.Elsewhere {
			if err := errors.Join(h.hv.DestroyDomain(ctx, id), h.hv.UndefineDomain(ctx, id)); err != nil {
				return effects.None{}, err
			}
		}
		return effects.None{}, h.answers()
	})
}

// withAgent gives a node a fence agent.
func (l *lab) withAgent(node string) {
	l.t.Helper()
	_, err := l.db.ChangeNode(l.t.Context(), node, func(n *seedbed.Node) error {
		n.Fencing = seedbed.Fencing{Agent: "fence_test", Options: map[string]string{"ip": "192.0.2.9"}, Sealed: []byte(`{"password":"pw"}`)}
		return nil
	})
	l.ok(err)
}

// failover requests that a node is fenced.
func (l *lab) failover(node string, spec seedbed.FailoverSpec) (seedbed.JobID, error) {
	r, err := l.db.Accept(l.t.Context(), seedbed.FailoverOf(node, spec))
	return r.Job, err
}

func (l *lab) fenced(node string) seedbed.Fencing {
	l.t.Helper()
	n, err := l.db.Node(l.t.Context(), node)
	l.ok(err)
	return n.Fencing
}

// lostNode makes web1 on the lab's first node, with or without a restart elsewhere, and takes the node's power away.
func (l *lab) lostNode(restart string, state seedbed.InstanceState) seedbed.Instance {
	l.t.Helper()
	f := l.withOther(true)
	inst := l.made()
	if state == seedbed.InstanceStopped {
		l.runUntil(l.ask(seedbed.DoStop, nil), seedbed.JobSucceeded)
	}
	if restart != seedbed.RestartNever {
		l.runUntil(l.set(seedbed.HardwareChange{Restart: &restart}), seedbed.JobSucceeded)
	}
	l.withAgent(testNode)
	l.ok(l.hv.DestroyDomain(l.t.Context(), inst.ID))
	f.setAway(testNode, true, long)
	return l.byName("web1")
}

// ofLostNode returns a job that fences the node of web1, which stays there, and if moved the job that then takes it away.
func (l *lab) ofLostNode(moved bool, state seedbed.InstanceState) caseJob {
	inst := l.lostNode(seedbed.RestartNever, state)
	l.ok(l.hv.UndefineDomain(l.t.Context(), inst.ID))
	id, err := l.failover(testNode, seedbed.FailoverSpec{})
	l.ok(err)
	stays := func(fenced bool) func() {
		return func() {
			if now := l.byName("web1"); now.Node != testNode || now.Target != "" || now.State != state {
				l.t.Errorf("the instance is %s on node %q, on its way to %q", now.State, now.Node, now.Target)
			}
			if got := l.fenced(testNode); got.Incarnation > 1 || fenced && (got.Fenced.IsZero() || got.Incarnation != 1) {
				l.t.Errorf("fencing of the node: %+v", got)
			}
		}
	}
	if !moved {
		return caseJob{id, stays(true), stays(false)}
	}
	l.runUntil(id, seedbed.JobSucceeded)
	return caseJob{l.migrate(nil), func() {
		on := seedbed.DomainRunning
		if state == seedbed.InstanceStopped {
			on = seedbed.DomainOff
		}
		l.isOn(otherNode, on)
	}, stays(true)}
}

// TestFailover fences a node and starts its instance on the other one, with the agent's options. When the node is back, the domain that it
// still has is removed before it is ready.
func TestFailover(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	inst := l.lostNode(seedbed.RestartAlways, seedbed.InstanceRunning)
	f := l.fleet.(*nodes)
	for _, on := range []bool{true, false} {
		already, err := l.db.SetMaintained(t.Context(), on)
		if l.ok(err); already {
			t.Errorf("the maintenance mode was %v already", on)
		}
		if on {
			_, err = l.failover(testNode, seedbed.FailoverSpec{Lost: true, Share: 50})
			l.want("a failover in the maintenance mode", err, seedbed.ErrConflict)
		}
	}
	id, err := l.failover(testNode, seedbed.FailoverSpec{Lost: true, Share: 50})
	l.ok(err)
	_, err = l.failover(testNode, seedbed.FailoverSpec{})
	l.want("a second failover", err, seedbed.ErrInUse)
	l.runUntil(id, seedbed.JobSucceeded)
	want := []seedbed.FenceCall{{Agent: "fence_test", Options: map[string]string{"ip": "192.0.2.9"},
		Secrets: map[string]string{"password": "pw"}}}
	if d := cmp.Diff(want, f.hosts[otherNode].fences); d != "" || len(f.hosts[testNode].fences) > 0 {
		t.Errorf("calls of the agent (-want +got):\n%s; by the node itself %v", d, f.hosts[testNode].fences)
	}
	now := l.byName("web1")
	there, err := f.hosts[otherNode].hv.DomainState(t.Context(), inst.ID)
	if l.ok(err); now.Node != otherNode || now.State != seedbed.InstanceRunning || there.State != seedbed.DomainRunning {
		t.Fatalf("the instance is %s on %s, its domain there %s", now.State, now.Node, there.State)
	}
	got := l.fenced(testNode)
	if got.Fenced.IsZero() || got.Incarnation != 1 || got.Problem != "" {
		t.Errorf("fencing of the node: %+v", got)
	}
	_, err = l.failover(testNode, seedbed.FailoverSpec{Lost: true, Share: 50})
	l.want("a fence of what is fenced", err, seedbed.ErrConflict)

	f.setAway(testNode, false, 0)
	l.ok(l.db.NoteNode(t.Context(), testNode, f.list[0].Report, "", time.Now()))
	w := failover.New(failover.Config{Log: slog.New(slog.DiscardHandler)}, l.db, failoverWorkers{f})
	l.ok(w.Look(t.Context(), time.Now()))
	if got := l.fenced(testNode); !got.Fenced.IsZero() || got.Incarnation != 1 {
		t.Errorf("fencing of the node that is back: %+v", got)
	}
	l.isOn(otherNode, seedbed.DomainRunning)
	for what, of := range map[string]struct {
		node string
		id   seedbed.InstanceID
	}{"the instance": {"", inst.ID}, "the node": {testNode, ""}} {
		told, err := l.db.Maintenance(t.Context(), of.node, of.id)
		if l.ok(err); len(told) != 1 || told[0].Code != "system-reboot" || told[0].State != seedbed.MaintenanceCompleted {
			t.Errorf("%s was told %+v", what, told)
		}
	}
}

// TestFailedFence checks that nothing is started if the agent fails, and that the node says why.
func TestFailedFence(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	inst := l.lostNode(seedbed.RestartAlways, seedbed.InstanceRunning)
	other := l.fleet.(*nodes).hosts[otherNode]
	other.agent = func(seedbed.FenceCall) error { return seedbed.Errorf(seedbed.ErrConflict, "the BMC does not answer") }
	id, err := l.failover(testNode, seedbed.FailoverSpec{Lost: true, Share: 50})
	l.ok(err)
	job := l.runUntil(id, seedbed.JobRolledBack)
	got := l.fenced(testNode)
	if !strings.Contains(job.Error, "the BMC does not answer") || !strings.Contains(got.Problem, "the BMC does not answer") ||
		!got.Fenced.IsZero() || got.Incarnation != 0 {
		t.Errorf("job: %s; fencing: %+v", job.Error, got)
	}
	if _, err := other.hv.DomainState(t.Context(), inst.ID); !errors.Is(err, seedbed.ErrNotFound) || l.byName("web1").Node != testNode {
		t.Errorf("the domain on the other node: %v", err)
	}
}

// TestFenceOfNodeThatAnswers checks that a node whose worker answers does not count as off, whatever its agent or an operator says: nothing
// is started elsewhere. Without a request, it is not even switched off.
func TestFenceOfNodeThatAnswers(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		spec   seedbed.FailoverSpec
		fences int
		says   string
	}{
		"requested": {seedbed.FailoverSpec{}, 1, "the worker there answers"},
		"confirmed": {seedbed.FailoverSpec{Confirmed: true}, 0, "its worker answers"},
		"lost":      {seedbed.FailoverSpec{Lost: true, Share: 50}, 0, "its worker answers"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t).withProfile(seedbed.ReadyStarted)
			l.lostNode(seedbed.RestartAlways, seedbed.InstanceRunning)
			f := l.fleet.(*nodes)
			id, err := l.failover(testNode, tt.spec)
			l.ok(err)
			f.setAway(testNode, false, 0)
			job := l.runUntil(id, seedbed.JobRolledBack)
			if !strings.Contains(job.Error, tt.says) || len(f.hosts[otherNode].fences) != tt.fences {
				t.Errorf("job: %s; fences %v", job.Error, f.hosts[otherNode].fences)
			}
			if got := l.fenced(testNode); !got.Fenced.IsZero() || got.Incarnation != 0 || l.byName("web1").Node != testNode {
				t.Errorf("fencing %+v", got)
			}
		})
	}
}

// TestFailoverLeavesNever checks that an instance whose restart is never stays, and is named.
func TestFailoverLeavesNever(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	l.lostNode(seedbed.RestartNever, seedbed.InstanceRunning)
	id, err := l.failover(testNode, seedbed.FailoverSpec{Confirmed: true})
	l.ok(err)
	l.runUntil(id, seedbed.JobSucceeded)
	if l.byName("web1").Node != testNode || len(l.fleet.(*nodes).hosts[otherNode].fences) > 0 {
		t.Errorf("instance %+v", l.byName("web1"))
	}
	events, err := l.db.Events(t.Context(), id, 0, 0)
	l.ok(err)
	for _, e := range events {
		if strings.Contains(e.Msg, "restart is never: web1") {
			return
		}
	}
	t.Errorf("the instance is not named in %+v", events)
}

// TestAdmissionWaitsForLostInstances checks that a node which is back is not admitted while a job takes an instance from it as from a lost
// one, and that no such job begins once the node is admitted.
func TestAdmissionWaitsForLostInstances(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	inst := l.lostNode(seedbed.RestartNever, seedbed.InstanceRunning)
	f := l.fleet.(*nodes)
	id, err := l.failover(testNode, seedbed.FailoverSpec{})
	l.ok(err)
	l.runUntil(id, seedbed.JobSucceeded)
	lost := l.migrate(nil)
	f.setAway(testNode, false, 0)
	l.ok(l.db.NoteNode(t.Context(), testNode, f.list[0].Report, "", time.Now()))
	w := failover.New(failover.Config{Log: slog.New(slog.DiscardHandler)}, l.db, failoverWorkers{f})
	l.want("an admission", w.Look(t.Context(), time.Now()), seedbed.ErrInUse)
	l.want("one that was begun before", l.db.Readmit(t.Context(), testNode, 1, []seedbed.InstanceID{inst.ID}), seedbed.ErrInUse)
	l.runUntil(lost, seedbed.JobSucceeded)
	l.want("one that left its domain", l.db.Readmit(t.Context(), testNode, 1, []seedbed.InstanceID{inst.ID}), seedbed.ErrConflict)
	if l.fenced(testNode).Fenced.IsZero() {
		t.Error("the node was admitted")
	}
	l.ok(w.Look(t.Context(), time.Now()))
	if !l.fenced(testNode).Fenced.IsZero() {
		t.Error("the node was not admitted")
	}
	l.isOn(otherNode, seedbed.DomainRunning)

	spec := seedbed.MigrateSpec{PowerSpec: seedbed.PowerSpec{Was: seedbed.InstanceRunning}, From: otherNode, To: testNode, Lost: true}
	_, err = l.db.Accept(t.Context(), seedbed.Acceptance{Job: seedbed.Job{ID: seedbed.NewJobID(), Kind: seedbed.JobMigrate,
		State: seedbed.JobQueued, Subject: "web1", Instance: inst.ID, Node: otherNode, Spec: inputOf(spec)}})
	l.want("a job as from a lost node", err, seedbed.ErrConflict)
}

// TestFencedShare checks that no more than a share of the nodes is fenced unless an operator asks for it.
func TestFencedShare(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.withOther(true)
	l.withAgent(testNode)
	l.withAgent(otherNode)
	_, err := l.failover(otherNode, seedbed.FailoverSpec{Lost: true, Share: 49})
	l.want("one of two, with 49 %", err, seedbed.ErrConflict)
	_, err = l.failover(otherNode, seedbed.FailoverSpec{Lost: true, Share: 50})
	l.ok(err)
	_, err = l.failover(testNode, seedbed.FailoverSpec{Lost: true, Share: 50})
	l.want("both", err, seedbed.ErrConflict)
	_, err = l.failover(testNode, seedbed.FailoverSpec{})
	l.ok(err)
	_, err = l.failover("hv9", seedbed.FailoverSpec{})
	l.want("a node that does not exist", err, seedbed.ErrNotFound)
}

// failoverWorkers are the workers of the lab.
type failoverWorkers struct{ *nodes }

func (w failoverWorkers) Inventory(ctx context.Context, node string) (seedbed.Inventory, error) {
	return effects.Inventory.Ask(ctx, w.Of(node), effects.None{})
}

func (m *mortal) NodeFenced(ctx context.Context, ref seedbed.JobRef) error {
	return m.around("fenced", "", func() error { return m.DB.NodeFenced(ctx, ref) })
}

// TestFailoverOfGroups checks that the instances of a lost node keep to their placement groups: those that are together go to one node
// together, and one does not go where another is that it is to be apart from.
func TestFailoverOfGroups(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	ctx := t.Context()
	f := l.withOther(true)
	for group, policy := range map[string]seedbed.PlacementPolicy{"pair": seedbed.Affinity, "apart": seedbed.AntiAffinity} {
		_, err := l.db.CreatePlacementGroup(ctx, seedbed.PlacementGroup{Name: group, Policy: policy})
		l.ok(err)
	}
	for _, i := range []struct{ name, node, group string }{
		{"web1", testNode, "pair"}, {"web2", testNode, "pair"}, {"web3", testNode, "apart"}, {"web4", otherNode, "apart"},
	} {
		l.runUntil(l.job(l.intake.Submit(ctx, seedbed.Request{Action: seedbed.DoCreate, Name: i.name, Profile: "small", Node: i.node,
			Params: map[string]any{"restart": seedbed.RestartAlways, "placement_group": i.group}}, nil)), seedbed.JobSucceeded)
	}
	l.withAgent(testNode)
	for _, name := range []string{"web1", "web2", "web3"} {
		l.ok(l.hv.DestroyDomain(ctx, l.byName(name).ID))
	}
	f.setAway(testNode, true, long)
	id, err := l.failover(testNode, seedbed.FailoverSpec{Lost: true, Share: 50})
	l.ok(err)
	job := l.runUntil(id, seedbed.JobFailed)
	if !strings.HasSuffix(job.Error, "of its instances are not started elsewhere: web3") ||
		!strings.Contains(l.history(id), "another instance of the placement group apart (anti-affinity) is there") {
		t.Errorf("the job ends with %q:\n%s", job.Error, l.history(id))
	}
	for name, node := range map[string]string{"web1": otherNode, "web2": otherNode, "web3": testNode, "web4": otherNode} {
		if got := l.byName(name).Node; got != node {
			t.Errorf("%s is on node %s; want %s", name, got, node)
		}
	}
}
