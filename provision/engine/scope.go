package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"seedbed"
	"seedbed/provision/effects"
)

// The worker of a job's node carries out the job's effects. If nodes share a pool and that node is
// away, another of them may carry out effects that concern only the pool: InPool chooses which.
//
// Two workers must not do so at the same time, and each knows only the epochs of its own calls. So
// a worker is asked only after every other worker that has the pool was told the epoch and has
// ended what it did for the job. A worker that cannot be told must have been silent for longer than
// a lease, and for longer than a worker continues for a client whose host is cut off from it
// (worker.LostAfter).
//
// That does not prove that it does nothing. The worker itself may be stopped all that time. Or its
// call may come from a seedbedd that is stopped while its host continues to acknowledge what the
// worker writes; such a call ends by its own limit. In these cases the drivers prevent harm:
// nothing unfinished is used, whatever its name; one of two workers that take the same name fails;
// and a resource with the name and the tag of the job counts as the job's own, no matter which
// worker made it. When the stopped seedbedd resumes, its lease has ended (leaseKeeper.check), and
// every worker that was told refuses its epoch.

// InPool has the worker of node carry out an effect on a pool. If nodes share the pool and node is
// away, it asks another node that has the pool.
func (t *Task) InPool(ctx context.Context, node, pool string, do func(context.Context, effects.Worker, seedbed.Call) error) error {
	place, others := t.place(node, pool)
	return t.Effect(ctx, func(ctx context.Context, call seedbed.Call) error {
		if err := t.settle(ctx, call, pool, place, node, others); err != nil {
			return err
		}
		err := do(ctx, t.engine.fleet.Of(place), call)
		if place != node && errors.Is(err, seedbed.ErrNotFound) { // a file that only node has
			err = seedbed.Errorf(seedbed.ErrUnavailable, "node %s is away, and on node %s: %v", node, place, err)
		}
		return err
	})
}

// place returns the node that is asked for something in a pool, and the others that have the pool.
func (t *Task) place(node, pool string) (place string, others []seedbed.Node) {
	sharing := t.sharing(pool)
	if len(sharing) == 0 {
		return node, nil
	}
	now, place := time.Now(), node
	at := slices.IndexFunc(sharing, func(n seedbed.Node) bool { return n.Name == node })
	if at < 0 || t.silent(sharing[at], now) {
		first := func(n seedbed.Node) bool { return n.Name == t.engine.cfg.Node && !n.Gone(now) }
		any := func(n seedbed.Node) bool { return !n.Gone(now) }
		if i := slices.IndexFunc(sharing, first); i >= 0 {
			place = sharing[i].Name
		} else if i := slices.IndexFunc(sharing, any); i >= 0 {
			place = sharing[i].Name
		}
	}
	return place, slices.DeleteFunc(sharing, func(n seedbed.Node) bool { return n.Name == place })
}

// sharing returns the nodes that share a pool; none if one of them has a separate pool of that
// name.
func (t *Task) sharing(pool string) (all []seedbed.Node) {
	for _, n := range t.engine.fleet.Nodes() {
		info, has := n.Pool(pool)
		switch {
		case has && !info.Shared:
			return nil
		case has:
			all = append(all, n)
		}
	}
	return all
}

// silent reports whether a node has been silent for so long that others may act for it. Seen is by
// this host's clock, whichever control host had the answer (store.DB.Nodes).
func (t *Task) silent(n seedbed.Node, now time.Time) bool {
	return now.Sub(n.Seen) > max(seedbed.NodeSilence, t.engine.cfg.Lease)
}

// settle makes sure that no other worker works on the job in that pool before place does. No worker
// needs to be told if this is the job's first epoch and its own node is asked, because no other can
// have been asked.
func (t *Task) settle(ctx context.Context, call seedbed.Call, pool, place, node string, others []seedbed.Node) error {
	if t.settled == nil {
		t.settled = map[string]string{}
	}
	if t.settled[pool] == place || t.settled[pool] == "" && place == node && call.Epoch <= 1 {
		t.settled[pool] = place
		return nil
	}
	var waiting []string
	for _, n := range others {
		short, cancel := context.WithTimeout(ctx, t.engine.intervals.Supersede)
		err := t.engine.fleet.Of(n.Name).Supersede(short, call)
		cancel()
		switch {
		case errors.Is(err, seedbed.ErrStale):
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && !t.silent(n, time.Now()):
			waiting = append(waiting, fmt.Sprintf("node %s (%v)", n.Name, err))
		}
	}
	if len(waiting) > 0 {
		return seedbed.Errorf(seedbed.ErrUnavailable,
			"node %s cannot continue the job until all nodes that may still work on it answer, or have been away for %s: %s",
			place, max(seedbed.NodeSilence, t.engine.cfg.Lease), strings.Join(waiting, "; "))
	}
	if place != node {
		t.Event("warn", t.reported, "node %s is away: node %s does this in its place", cmp.Or(node, "of the job"), place)
	}
	t.settled[pool] = place
	return nil
}
