package plans

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"seedbed"
	"seedbed/internal/sleep"
	"seedbed/provision/effects"
	"seedbed/provision/engine"
)

// failoverPlan switches a node off and then, only once it is off, starts instances of it elsewhere, each by a job of its own.
func (t *task) failoverPlan() engine.Plan {
	return engine.Plan{Stages: []engine.Stage{
		{Name: "fence", Run: t.fenceNode, Undo: t.leaveOff},
		{Name: "recover", Run: t.recoverInstances, Final: true},
	}}
}

// fenceNode has the worker of another node switch the node off, one after the other until one has.
func (t *task) fenceNode(ctx context.Context) error {
	var spec seedbed.FailoverSpec
	if len(t.Job.Spec) > 0 {
		if err := t.input(&spec); err != nil {
			return err
		}
	}
	node, err := t.store.Node(ctx, t.Job.Subject)
	if err != nil {
		return engine.FromStore(err)
	}
	switch {
	case !node.Fencing.Fenced.IsZero():
		t.Event("info", 100, "node %s is off since %s", node.Name, node.Fencing.Fenced.Format(time.RFC3339))
		return nil
	case (spec.Lost || spec.Confirmed) && t.isAlive(ctx, node.Name): // also if it is back since the job was requested
		return seedbed.Errorf(seedbed.ErrConflict, "node %s is not fenced: its worker answers", node.Name)
	case spec.Confirmed:
		t.Event("warn", 100, "an operator has confirmed that node %s is off", node.Name)
	default:
		if err := t.switchOffNode(ctx, node); err != nil {
			if failed := t.fromStoreWrite(ctx, func(ctx context.Context) error {
				return t.store.FenceFailed(ctx, t.Ref, err.Error())
			}); failed != nil {
				return failed
			}
			return err
		}
	}
	return t.fromStoreWrite(ctx, func(ctx context.Context) error { return t.store.NodeFenced(ctx, t.Ref) })
}

// aliveWithin is how long the worker of a node has to answer that is to be off.
const aliveWithin = 3 * time.Second

// isAlive reports whether the worker of a node answers.
func (t *task) isAlive(ctx context.Context, node string) bool {
	ctx, cancel := context.WithTimeout(ctx, aliveWithin)
	defer cancel()
	_, err := effects.Inventory.Ask(ctx, t.WorkerOf(node), effects.None{})
	return err == nil
}

// switchOffNode runs the fence agent of a node on other nodes that answer, until one of them says that the node is off.
func (t *task) switchOffNode(ctx context.Context, node seedbed.Node) error {
	secrets, err := t.Unseal(node.Fencing.Sealed)
	if err != nil {
		return err
	}
	agent := seedbed.FenceCall{Agent: node.Fencing.Agent, Options: node.Fencing.Options, Secrets: secrets}
	last := error(seedbed.Errorf(seedbed.ErrUnavailable, "no other node answers that could fence node %s", node.Name))
	for _, n := range t.Nodes() {
		if n.Name == node.Name || n.Gone(time.Now()) {
			continue
		}
		t.Event("info", 0, "node %s runs %s to switch off node %s", n.Name, agent.Agent, node.Name)
		err := t.Effect(ctx, func(ctx context.Context, call seedbed.Call) error {
			_, err := effects.FenceNode.Do(ctx, t.WorkerOf(n.Name), call, agent)
			return err
		})
		if err == nil && t.isAlive(ctx, node.Name) {
			return seedbed.Errorf(seedbed.ErrConflict, "%s on node %s says that node %s is off, and the worker there answers: do the options of "+
				"the agent name another machine?", agent.Agent, n.Name, node.Name)
		}
		if err == nil {
			t.Event("info", 100, "node %s is off, as %s on node %s says", node.Name, agent.Agent, n.Name)
			return nil
		}
		last = fmt.Errorf("fence node %s from node %s: %w", node.Name, n.Name, err)
		t.Event("warn", 0, "%s", last)
		if ctx.Err() != nil {
			break
		}
	}
	return last
}

// leaveOff says what a cancelled failover may leave: a node cannot be switched on by it, because what ran there is not known then.
func (t *task) leaveOff(context.Context) error {
	t.Event("warn", 100, "node %s may be off: nothing is started elsewhere", t.Job.Subject)
	return nil
}

// recoverInstances starts the instances of the node elsewhere whose restart is always, those of the highest priority first. The others, and
// those that cannot be, are named.
func (t *task) recoverInstances(ctx context.Context) error {
	all, err := t.store.Instances(ctx)
	if err != nil {
		return engine.FromStore(err)
	}
	all = slices.DeleteFunc(all, func(i seedbed.Instance) bool { return i.Node != t.Job.Subject || i.State != seedbed.InstanceRunning })
	slices.SortStableFunc(all, func(a, b seedbed.Instance) int { return cmp.Compare(b.System.Priority, a.System.Priority) })
	var stay, failed []string
	waiting := map[seedbed.JobID]seedbed.Instance{}
	for _, i := range all {
		name := i.FullName().String()
		if i.System.Restart != seedbed.RestartAlways {
			stay = append(stay, name)
			continue
		}
		receipt, err := t.Submit(ctx, seedbed.Request{Action: seedbed.DoMigrate, Project: i.Project, Name: i.Name})
		held := (*seedbed.Error)(nil)
		switch {
		case err == nil:
			waiting[receipt.Job] = i
		case errors.As(err, &held) && held.Holder != "" && errors.Is(err, seedbed.ErrInUse): // an earlier attempt has requested it
			waiting[held.Holder] = i
		default:
			t.Event("warn", 0, "instance %s is not started elsewhere: %s", name, err)
			failed = append(failed, name)
		}
	}
	if len(stay) > 0 {
		t.Event("warn", 0, "not started elsewhere, because their restart is never: %s", strings.Join(stay, ", "))
	}
	done := t.Yield()
	defer done()
	total := len(waiting)
	for len(waiting) > 0 {
		for id, i := range waiting {
			job, err := t.store.Job(ctx, id)
			if err != nil {
				return engine.FromStore(err)
			}
			if !job.State.Terminal() {
				continue
			}
			delete(waiting, id)
			if job.State == seedbed.JobSucceeded && job.Kind == seedbed.JobMigrate {
				t.Event("info", 100*(total-len(waiting))/total, "instance %s is started elsewhere", i.FullName())
				continue
			}
			t.Event("warn", 0, "instance %s is not started elsewhere: %s job %s is %s: %s", i.FullName(), job.Kind, id.Short(), job.State, job.Error)
			failed = append(failed, i.FullName().String())
		}
		if sleep.For(ctx, t.Poll()); ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	if len(failed) > 0 {
		slices.Sort(failed)
		return seedbed.Errorf(seedbed.ErrConflict, "node %s is off, and of its instances are not started elsewhere: %s", t.Job.Subject,
			strings.Join(failed, ", "))
	}
	return nil
}

// lostPlan takes an instance from a node that was fenced. Nothing can be asked of that node, so the domain is made again.
func (t *task) lostPlan(publish engine.Stage, spec seedbed.MigrateSpec) engine.Plan {
	there := func(do func(context.Context) error) func(context.Context) error { return t.at(spec.To, do) }
	stages := []engine.Stage{publish, {Name: "define", Run: there(t.defineDomain), Undo: there(t.undefineDomain), Made: t.madeAt(spec.To)},
		{Name: "move", Run: t.moveThere, Undo: t.moveLost}}
	if spec.Was != seedbed.InstanceStopped {
		stages = append(stages, engine.Stage{Name: "start", Run: there(t.startThere), Undo: there(t.destroyDomain),
			Guards: "not undone, because the domain could not be switched off"})
	}
	return engine.Plan{Restores: spec.Was, Stages: stages}
}

// moveLost makes the lost node the instance's again. Nothing there is waited for.
func (t *task) moveLost(ctx context.Context) error {
	spec, err := t.migrating()
	if err != nil {
		return err
	}
	_, err = t.store.Move(ctx, t.Ref, spec.From, spec.WasHome, t.Job.Instance, t.renderer.Of)
	return engine.FromStore(err)
}
