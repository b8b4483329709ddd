package provision

import (
	"errors"
	"strings"
	"testing"
	"time"

	"seedbed"
	"seedbed/provision/intake"
	"seedbed/provision/placement"
)

// bounded makes the lab's node report its memory and a thin pool, within which placement stays.
func (l *lab) bounded(memory, pool seedbed.Bytes) {
	l.t.Helper()
	ctx := l.t.Context()
	l.ok(l.db.EnsureNode(ctx, testNode))
	l.ok(l.db.NoteNode(ctx, testNode, seedbed.NodeReport{CPUs: 4, Memory: memory, MemoryFree: memory,
		Pools: []seedbed.PoolInfo{{Name: "default", Size: pool, Free: pool}}}, "", time.Now()))
	l.serve(func(s *intake.Serving) {
		s.Pools = []string{"default"}
		s.Placement = placement.Config{MemoryOvercommit: 1}
	})
}

// warnings returns the warnings among the events of a job.
func (l *lab) warnings(id seedbed.JobID) (all []string) {
	l.t.Helper()
	events, err := l.db.Events(l.t.Context(), id, 0, 100)
	l.ok(err)
	for i, e := range events {
		if e.Seq != int64(i+1) {
			l.t.Errorf("event %d has the number %d", i+1, e.Seq)
		}
		if e.Level == "warn" {
			all = append(all, e.Msg)
		}
	}
	return all
}

// TestMemoryOfTheNode checks that an instance that does not fit into the memory of its node is
// refused before there is a job, in the same words as its plan, and a resize and a rebuild likewise.
func TestMemoryOfTheNode(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	l.bounded(4*seedbed.GiB, 100*seedbed.GiB)
	ctx := t.Context()
	create := func(name, memory string) error {
		t.Helper()
		req := seedbed.Request{Action: "create", Name: name, Profile: "small", Params: map[string]any{"memory": memory}}
		plan, err := l.intake.Plan(ctx, req)
		l.ok(err)
		_, err = l.intake.Submit(ctx, req, nil)
		if said := strings.Join(plan.Problems, "\n"); err != nil && said != err.Error() || err == nil && said != "" {
			t.Errorf("%s: planned %q, and got %v", name, said, err)
		}
		return err
	}
	refused := func(err error, want string) {
		t.Helper()
		if !errors.Is(err, seedbed.ErrFull) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
	refused(create("web2", "500GiB"),
		"node1: 500.0GiB of memory never fits: it has 4.0GiB, of which placement.memory_overcommit allows 4.0GiB")
	inst := l.made()
	l.runUntil(l.submit(seedbed.DoStop), seedbed.JobSucceeded)
	refused(create("web2", "4GiB"), "4.0GiB more does not fit")
	_, err := l.intake.Resize(ctx, seedbed.InDefault(inst.Name), seedbed.ResizeRequest{Memory: 500 * seedbed.GiB}, usual)
	refused(err, `node "node1", on which instance "web1" runs, cannot run it with these resources: 500.0GiB of memory never fits`)
	_, err = l.intake.Submit(ctx, seedbed.Request{Action: seedbed.DoRebuild, Name: inst.Name, Params: map[string]any{"memory": "500GiB"}}, nil)
	refused(err, "500.0GiB of memory never fits")
	if jobs, err := l.db.Jobs(ctx, 10); err != nil || len(jobs) != 3 { // the import, the create and the stop
		t.Errorf("%d jobs, %v", len(jobs), err)
	}
	// All of it is allowed, and so is less than before on a node that has become too small.
	l.runUntil(l.resize(seedbed.ResizeRequest{Memory: 4 * seedbed.GiB}), seedbed.JobSucceeded)
	l.bounded(seedbed.GiB, 100*seedbed.GiB)
	l.runUntil(l.resize(seedbed.ResizeRequest{Memory: 2 * seedbed.GiB}), seedbed.JobSucceeded)
}

// TestThinPoolIsOver checks that plan and job say how far the volumes of a pool may grow past it.
func TestThinPoolIsOver(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	l.bounded(16*seedbed.GiB, 10*seedbed.GiB)
	ctx := t.Context()
	create := func(name, disk string) (plan, said []string, job seedbed.JobID) {
		t.Helper()
		req := seedbed.Request{Action: "create", Name: name, Profile: "small", Params: map[string]any{"disk": disk, "memory": "64MiB"}}
		p, err := l.intake.Plan(ctx, req)
		l.ok(err)
		for _, n := range p.Notes {
			if strings.Contains(n, "pool default") {
				plan = append(plan, n)
			}
		}
		job = l.job(l.intake.Submit(ctx, req, nil))
		return plan, l.warnings(job), job
	}
	for _, c := range []struct{ name, disk, want string }{
		{"web1", "6GiB", ""},
		{"web2", "4GiB", ""},
		{"web3", "1GiB", "pool default of node node1 has 10.0GiB, and all its volumes together may grow to 11.0GiB: it is 1.0GiB over"},
		{"web4", "20GiB", "the volumes in pool default may grow to 20.0GiB, and it has 10.0GiB free\n" +
			"pool default of node node1 has 10.0GiB, and all its volumes together may grow to 31.0GiB: it is 21.0GiB over"},
	} {
		plan, said, job := create(c.name, c.disk)
		if strings.Join(plan, "\n") != c.want || strings.Join(said, "\n") != c.want {
			t.Errorf("%s: planned %q, and the job says %q; want %q", c.name, plan, said, c.want)
		}
		l.runUntil(job, seedbed.JobSucceeded)
	}
	plan, err := l.intake.PlanResize(ctx, seedbed.InDefault("web1"), seedbed.ResizeRequest{Size: 7 * seedbed.GiB})
	l.ok(err)
	want := "pool default of node node1 has 10.0GiB, and all its volumes together may grow to 32.0GiB: it is 22.0GiB over"
	if strings.Join(plan.Notes, "\n") != want {
		t.Errorf("the plan of a resize says %q", plan.Notes)
	}
	if got := l.warnings(l.resize(seedbed.ResizeRequest{Size: 7 * seedbed.GiB})); strings.Join(got, "\n") != want {
		t.Errorf("the resize says %q", got)
	}
}
