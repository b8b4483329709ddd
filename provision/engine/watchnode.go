package engine

import (
	"context"
	"errors"
	"sync"
	"time"

	"seedbed"
	"seedbed/internal/sleep"
	"seedbed/provision/effects"
)

// followNode keeps the recorded states of a node's instances equal to those of its domains, until
// ctx ends. Several control hosts may do so for the same node: each examines the domain itself, and
// the store does not change an instance that a job works on.
func (e *Engine) followNode(ctx context.Context, node string) {
	n := e.domains.open(node)
	defer e.domains.close(n)
	defer e.foreign.forget(node)
	var group sync.WaitGroup
	defer group.Wait()
	group.Go(func() { e.watch(ctx, node) })
	tick := time.NewTicker(e.intervals.Resync)
	defer tick.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return
		case id := <-n.events:
			err = e.keepState(ctx, node, id)
		case <-n.resync:
			err = e.resync(ctx, node)
		case <-tick.C:
			err = e.resync(ctx, node)
		}
		if err != nil && ctx.Err() == nil {
			e.log.Warn("follow domains", "node", node, "err", err)
		}
	}
}

// watch keeps a watch on the node's worker open until ctx ends.
func (e *Engine) watch(ctx context.Context, node string) {
	wait := e.intervals.RetryMin
	for ctx.Err() == nil {
		began := time.Now()
		err := effects.Watch.Follow(ctx, e.fleet.Of(node), func(event seedbed.DomainEvent) { e.domains.tell(node, event) })
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > e.intervals.RetryMax {
			wait = e.intervals.RetryMin
		}
		if wait == e.intervals.RetryMin { // only at the first try
			e.log.Warn("domain events interrupted", "node", node, "err", err)
		}
		sleep.For(ctx, wait)
		wait = min(2*wait, e.intervals.RetryMax)
	}
}

// keepState changes a running instance whose domain is off to stopped, and back. Any other state, and
// an instance with a current job, is left to the job. A missing domain is left to the cleanup, and a
// domain of an instance of another node says nothing about that instance.
func (e *Engine) keepState(ctx context.Context, node string, id seedbed.InstanceID) error {
	ctx, cancel := context.WithTimeout(ctx, e.intervals.Call)
	defer cancel()
	err := e.compare(ctx, node, id)
	if errors.Is(err, seedbed.ErrNotFound) {
		return nil
	}
	return err
}

// compare is keepState without a time limit. What it sees of the domain counts only if the instance
// does not change from before the look until the write, because a job may begin and end in between.
// So it looks again after a change.
func (e *Engine) compare(ctx context.Context, node string, id seedbed.InstanceID) error {
	for before := int64(-1); ; {
		inst, err := e.store.Instance(ctx, id)
		if err != nil || inst.Revision == before || e.domains.leavesOut(id, node) || inst.Node != node { // it may be on its way to here
			return err
		}
		before = inst.Revision
		info, err := effects.DomainState.Ask(ctx, e.fleet.Of(node), effects.DomainRef{ID: id})
		if err != nil {
			return err
		}
		from, to := turn(info.State)
		if inst.State != from || e.domains.leavesOut(id, node) {
			return nil
		}
		if to == seedbed.InstanceStopped && inst.System.Restart == seedbed.RestartAlways {
			if rebooted, err := e.rebooted(ctx, node); rebooted || err != nil {
				return err
			}
		}
		changed, err := e.store.SetInstanceState(ctx, inst, to)
		if changed {
			e.log.Info("instance changed", "instance", id, "name", info.Name, "state", to)
		}
		if changed || err != nil {
			return err
		}
	}
}

// rebooted reports whether a node has rebooted, and its instances were not started again yet. What ran there is still recorded as
// running, which is how it is found.
func (e *Engine) rebooted(ctx context.Context, node string) (bool, error) {
	for _, n := range e.fleet.Nodes() {
		switch {
		case n.Name != node || n.Fencing.Boot == "":
		case n.Report.Boot != "" && n.Report.Boot != n.Fencing.Boot: // as it is known already, for all instances of the node
			return true, nil
		default:
			report, err := effects.Report.Ask(ctx, e.fleet.Of(node), effects.None{})
			return err == nil && report.Boot != "" && report.Boot != n.Fencing.Boot, err
		}
	}
	return false, nil
}

// resync checks every domain of the node.
func (e *Engine) resync(ctx context.Context, node string) error {
	ctx, cancel := context.WithTimeout(ctx, e.intervals.Call)
	defer cancel()
	inventory, err := effects.Inventory.Ask(ctx, e.fleet.Of(node), effects.None{})
	if err != nil {
		return err
	}
	instances, err := e.instances.read(ctx, e.store, e.intervals.Resync/12)
	if err != nil {
		return err
	}
	e.foreign.note(node, inventory.Taken, instances, time.Now())
	recorded := map[seedbed.InstanceID]seedbed.InstanceState{}
	for _, inst := range instances {
		if inst.Node == node {
			recorded[inst.ID] = inst.State
		}
	}
	for _, info := range inventory.Domains {
		if from, _ := turn(info.State); e.domains.leavesOut(info.ID, node) || from != recorded[info.ID] {
			continue
		}
		if err := e.keepState(ctx, node, info.ID); err != nil {
			return err
		}
	}
	return nil
}

// instanceCache holds the instances that were read last, for the resyncs of all nodes, which come
// at the same time. It may be older than an inventory, because each instance is read again before
// it is changed.
type instanceCache struct {
	mu  sync.Mutex
	at  time.Time
	all []seedbed.Instance
}

// read returns the instances, which were read at most age ago.
func (r *instanceCache) read(ctx context.Context, store Store, age time.Duration) ([]seedbed.Instance, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if r.at.IsZero() || now.Sub(r.at) > age {
		all, err := store.Instances(ctx)
		if err != nil {
			return nil, err
		}
		r.at, r.all = now, all
	}
	return r.all, nil
}

// turn returns the change of state of an instance whose domain is in state s.
func turn(s seedbed.DomainState) (from, to seedbed.InstanceState) {
	if s == seedbed.DomainOff || s == seedbed.DomainCrashed {
		return seedbed.InstanceRunning, seedbed.InstanceStopped
	}
	return seedbed.InstanceStopped, seedbed.InstanceRunning
}
