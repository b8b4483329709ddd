// Package failover finds nodes that are lost, and requests the jobs that fence them. It admits nodes that are back after a fence, and has
// the instances of a node that rebooted started again.
package failover

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"seedbed"
	"seedbed/internal/sleep"
	"seedbed/provision/effects"
)

// Store is the part of the database that the watch uses.
type Store interface {
	Nodes(ctx context.Context) ([]seedbed.Node, error)
	// Applied returns when the guest plane of a node was last heard of; the zero time if it never was.
	Applied(ctx context.Context, node string) (revision int64, at time.Time, err error)
	Instances(ctx context.Context) ([]seedbed.Instance, error)
	Accept(ctx context.Context, a seedbed.Acceptance) (seedbed.Receipt, error)
	// Leaving returns ErrInUse while a job takes an instance from a node that was fenced, without asking that node.
	Leaving(ctx context.Context, node string) error
	// Readmit records that a node which was fenced is back. left are the instances whose domains are left there.
	Readmit(ctx context.Context, name string, incarnation int64, left []seedbed.InstanceID) error
	// Interrupted returns the instances of a node that run as far as is known, and are to be started again if they were not stopped. It
	// returns ErrInUse while a job fences the node.
	Interrupted(ctx context.Context, node string) ([]seedbed.Instance, error)
	// NoteBoot records the boot of a node since which its instances were started again.
	NoteBoot(ctx context.Context, name, boot string) error
}

// Workers gives access to the workers of the nodes.
type Workers interface {
	Of(node string) effects.Worker
	Inventory(ctx context.Context, node string) (seedbed.Inventory, error)
}

// Config configures a watch.
type Config struct {
	// Node is this control host, which may be a node as well.
	Node string
	// After is for how long nothing of a node has answered when it is lost; 0 fences none.
	After time.Duration
	// Share is how many percent of the nodes may be fenced at a time.
	Share int
	// Every is the time between two looks. Default 2 s.
	Every time.Duration
	// Submit requests that an instance is started.
	Submit func(ctx context.Context, req seedbed.Request) (seedbed.Receipt, error)
	Log    *slog.Logger
}

// answering is how long after its last answer a node counts as one that answers. Workers are asked more often.
const answering = 25 * time.Second

// askTime limits what is asked of a node that is back. It is shorter than answering, since a look waits for that.
const askTime = 20 * time.Second

// Watch looks after lost nodes. Each control host may have one: the store accepts one job for a node.
type Watch struct {
	cfg     Config
	store   Store
	workers Workers
	// told is why a node was not fenced, as it was logged last. tried is the last answer of each node before the fence that was requested for
	// it: a fence that failed is not repeated until the node has answered again.
	told  map[string]string
	tried map[string]time.Time
	// since is from when on it has looked without a pause, and last the time of its last look. Before that, or in a pause, a node may have
	// answered and was not heard.
	since, last time.Time
	// reboots are the nodes that rebooted, and whose instances are started again.
	mu      sync.Mutex
	reboots map[string]*reboot
}

// New makes a watch.
func New(cfg Config, store Store, workers Workers) *Watch {
	if cfg.Every <= 0 {
		cfg.Every = 2 * time.Second
	}
	return &Watch{cfg: cfg, store: store, workers: workers, told: map[string]string{}, tried: map[string]time.Time{},
		reboots: map[string]*reboot{}}
}

// Run looks until ctx ends.
func (w *Watch) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := w.Look(ctx, time.Now()); err != nil && ctx.Err() == nil {
			w.cfg.Log.Warn("look after lost nodes", "err", err)
		}
		sleep.For(ctx, w.cfg.Every)
	}
	return nil
}

// Look requests the fence of each node that is lost at now, admits each that is back, and has the instances started again that ran on a
// node which only rebooted.
func (w *Watch) Look(ctx context.Context, now time.Time) error {
	if gap := now.Sub(w.last); gap > answering || gap < 0 {
		w.since = now
	}
	w.last = now
	nodes, err := w.store.Nodes(ctx)
	if err != nil {
		return err
	}
	var problems []error
	var back sync.WaitGroup
	backs := make([]error, len(nodes))
	for i, n := range nodes {
		switch lost, err := w.lost(ctx, n, nodes, now); {
		case err != nil:
			problems = append(problems, err)
		case lost:
			w.fence(ctx, n)
		case answers(n, now): // a node that answers slowly holds up no other
			back.Go(func() { backs[i] = w.back(ctx, n, now) })
		}
	}
	back.Wait()
	return errors.Join(append(problems, backs...)...)
}

// back does what is due on a node that answers: it admits the node after a fence, and has its instances started again after a reboot.
func (w *Watch) back(ctx context.Context, n seedbed.Node, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	switch f := n.Fencing; {
	case n.Seen.After(f.Fenced) && (!f.Fenced.IsZero() || n.Report.Incarnation != f.Incarnation):
		if err := w.admit(ctx, n); err != nil {
			return fmt.Errorf("admit node %s again: %w", n.Name, err)
		}
	case f.Fenced.IsZero() && n.Report.Boot != "" && n.Report.Boot != f.Boot:
		if err := w.restart(ctx, n, now); err != nil && !errors.Is(err, seedbed.ErrInUse) {
			return fmt.Errorf("start the instances of node %s again: %w", n.Name, err)
		}
	}
	return nil
}

func answers(n seedbed.Node, now time.Time) bool {
	return n.Problem == "" && now.Sub(n.Seen) <= answering
}

// lost reports whether a node is to be fenced: it has an agent, was not fenced, neither its worker nor its guest plane was heard of for
// the time, this control host has looked all that time, and another node answers, so that this control host is not what is cut off.
func (w *Watch) lost(ctx context.Context, n seedbed.Node, all []seedbed.Node, now time.Time) (bool, error) {
	if w.cfg.After <= 0 || now.Sub(w.since) < w.cfg.After {
		return false, nil
	}
	if n.Fencing.Agent == "" || !n.Fencing.Fenced.IsZero() || n.Seen.IsZero() || now.Sub(n.Seen) < w.cfg.After ||
		w.tried[n.Name].Equal(n.Seen) {
		return false, nil
	}
	_, at, err := w.store.Applied(ctx, n.Name)
	if err != nil || !at.IsZero() && now.Sub(at) < w.cfg.After {
		return false, err
	}
	others, remote, near, far := 0, 0, 0, 0
	for _, o := range all {
		if o.Name == n.Name {
			continue
		}
		others++
		ok := answers(o, now)
		if o.Name == w.cfg.Node {
			if ok {
				near++
			}
			continue
		}
		remote++
		if ok {
			far++
		}
	}
	switch {
	case n.Name == w.cfg.Node:
		return false, nil // by the socket: a control host does not fence itself
	case remote > 0 && far == 0, remote == 0 && near == 0:
		w.tell(n.Name, "no other node answers: this control host may be what is cut off")
		return false, nil
	}
	return true, nil
}

// fence requests the fence of a node.
func (w *Watch) fence(ctx context.Context, n seedbed.Node) {
	_, err := w.store.Accept(ctx, seedbed.FailoverOf(n.Name, seedbed.FailoverSpec{Lost: true, Share: w.cfg.Share}))
	if errors.Is(err, seedbed.ErrInUse) {
		return // it is under way
	}
	if err != nil {
		w.tell(n.Name, err.Error())
		return
	}
	w.tried[n.Name] = n.Seen
	delete(w.told, n.Name)
	w.cfg.Log.Warn("a node is lost and is fenced", "node", n.Name, "seen", n.Seen)
}

// tell logs why a lost node is not fenced, once for each reason.
func (w *Watch) tell(node, why string) {
	if w.told[node] != why {
		w.told[node] = why
		w.cfg.Log.Warn("a node is lost and is not fenced", "node", node, "why", why)
	}
}

// admit has the worker of a node that was fenced remove the domains of instances that are elsewhere now, and do jobs again.
func (w *Watch) admit(ctx context.Context, n seedbed.Node) error {
	if err := w.store.Leaving(ctx, n.Name); err != nil {
		return err
	}
	there, err := w.workers.Inventory(ctx, n.Name)
	if err != nil {
		return err
	}
	all, err := w.store.Instances(ctx)
	if err != nil {
		return err
	}
	on := map[seedbed.InstanceID]seedbed.Instance{}
	for _, i := range all {
		on[i.ID] = i
	}
	// The worker knows a later one if the database was restored from a copy.
	a := effects.Admission{Incarnation: max(n.Fencing.Incarnation, n.Report.Incarnation)}
	var left []seedbed.InstanceID
	for _, d := range there.Domains {
		// What belongs to no instance is a stray, which is only reported. What is on its way to here is in the hands of its job, which asks
		// both nodes.
		switch i, known := on[d.ID]; {
		case known && i.Node == n.Name:
			left = append(left, d.ID)
		case known && i.Target != n.Name:
			a.Elsewhere = append(a.Elsewhere, d.ID)
		}
	}
	if _, err := effects.Admit.Ask(ctx, w.workers.Of(n.Name), a); err != nil {
		return err
	}
	if err := w.store.Readmit(ctx, n.Name, a.Incarnation, left); err != nil {
		return err
	}
	if n.Fencing.Fenced.IsZero() && len(a.Elsewhere) == 0 {
		return nil
	}
	w.cfg.Log.Info("a node was admitted again after a fence", "node", n.Name, "removed", len(a.Elsewhere))
	return nil
}
