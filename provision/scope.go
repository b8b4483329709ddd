package provision

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

// What a job does is done by the worker of its node. Where nodes share a pool,
// what is done to the pool alone may be done by another of them when that node
// is away: inPool chooses which.
//
// Two workers must not do it at the same time, and each knows the epochs of its
// own calls alone. So a worker is asked only after every other that has the pool
// was told the epoch, and has ended what it did for the job. One that cannot be
// told has to have been silent for longer than a lease and than a worker goes on
// for a client whose host is cut off from it (worker.LostAfter).
//
// That is no proof that it does nothing. It may be stopped itself all that time, or
// have its call from a seedbedd that is stopped while its host goes on to acknowledge what
// the worker writes: such a call ends by its own limit. Then the drivers keep from harm
// what two do: nothing that is not finished is used, whatever its name, one of two that
// take a name fails, and what has the name and the tag of the job is taken for the job's
// own, whoever made it. The seedbedd that wakes up finds its lease over (leaseKeeper.check) and,
// at every worker that was told, its epoch refused.

// inPool has an effect on a pool done by the worker of node or, where nodes share
// the pool and that one is away, of another that has it.
func (t *task) inPool(ctx context.Context, node, pool string, do func(context.Context, effects.Worker, seedbed.Call) error) error {
	place, others := t.place(node, pool)
	return t.effect(ctx, func(ctx context.Context, call seedbed.Call) error {
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

// place is the node that is asked for something in a pool, and the others that have the pool.
func (t *task) place(node, pool string) (place string, others []seedbed.Node) {
	sharing := t.sharing(pool)
	if len(sharing) == 0 {
		return node, nil
	}
	now, place := time.Now(), node
	at := slices.IndexFunc(sharing, func(n seedbed.Node) bool { return n.Name == node })
	if at < 0 || t.silent(sharing[at], now) {
		first := func(n seedbed.Node) bool { return n.Name == t.engine.cfg.Node && n.State(now) != seedbed.NodeAway }
		any := func(n seedbed.Node) bool { return n.State(now) != seedbed.NodeAway }
		if i := slices.IndexFunc(sharing, first); i >= 0 {
			place = sharing[i].Name
		} else if i := slices.IndexFunc(sharing, any); i >= 0 {
			place = sharing[i].Name
		}
	}
	return place, slices.DeleteFunc(sharing, func(n seedbed.Node) bool { return n.Name == place })
}

// sharing are the nodes that have a pool together; none when one of them has it for its own.
func (t *task) sharing(pool string) (all []seedbed.Node) {
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

// silent tells whether a node has said nothing for so long that others may do what it did.
// Seen is by this host's clock, whichever control host had the answer (store.DB.Nodes).
func (t *task) silent(n seedbed.Node, now time.Time) bool {
	return now.Sub(n.Seen) > max(seedbed.NodeSilence, t.engine.cfg.Lease)
}

// settle sees to it that nobody else works on the job in that pool before place
// does. What only its own node ever was asked for, under this epoch, needs no telling.
func (t *task) settle(ctx context.Context, call seedbed.Call, pool, place, node string, others []seedbed.Node) error {
	if t.settled == nil {
		t.settled = map[string]string{}
	}
	if t.settled[pool] == place || t.settled[pool] == "" && place == node && call.Epoch <= 1 {
		t.settled[pool] = place
		return nil
	}
	var waiting []string
	for _, n := range others {
		short, cancel := context.WithTimeout(ctx, t.engine.intervals.supersede)
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
		return seedbed.Errorf(seedbed.ErrUnavailable, "before node %s goes on with the job, those have to answer, or to have been away for %s, that may still be at it: %s",
			place, max(seedbed.NodeSilence, t.engine.cfg.Lease), strings.Join(waiting, "; "))
	}
	if place != node {
		t.event("warn", t.progress, "node %s is away: node %s does this in its place", cmp.Or(node, "of the job"), place)
	}
	t.settled[pool] = place
	return nil
}
