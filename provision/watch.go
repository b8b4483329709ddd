package provision

import (
	"context"
	"errors"
	"sync"
	"time"

	"seedbed"
)

// domainWatch hands what the worker tells of domains to those who care.
type domainWatch struct {
	events chan seedbed.DomainEvent // to keepStates
	resync chan struct{}            // an inventory is due

	mu      sync.Mutex
	waiting map[seedbed.InstanceID]map[chan struct{}]bool
	working map[seedbed.InstanceID]bool // instances with a job in hand
}

func newDomainWatch() *domainWatch {
	return &domainWatch{
		events:  make(chan seedbed.DomainEvent, 256),
		resync:  make(chan struct{}, 1),
		waiting: map[seedbed.InstanceID]map[chan struct{}]bool{},
		working: map[seedbed.InstanceID]bool{},
	}
}

// listen gives a channel that is filled when the domain changes, until stop is called.
func (w *domainWatch) listen(id seedbed.InstanceID) (nudged <-chan struct{}, stop func()) {
	c := make(chan struct{}, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waiting[id] == nil {
		w.waiting[id] = map[chan struct{}]bool{}
	}
	w.waiting[id][c] = true
	return c, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.waiting[id], c)
		if len(w.waiting[id]) == 0 {
			delete(w.waiting, id)
		}
	}
}

// tell takes one event; it never blocks. With an empty ID all listeners look.
func (w *domainWatch) tell(event seedbed.DomainEvent) {
	w.mu.Lock()
	for id, listeners := range w.waiting {
		for c := range listeners {
			if event.ID == "" || event.ID == id {
				fill(c)
			}
		}
	}
	w.mu.Unlock()
	if event.ID == "" {
		fill(w.resync)
		return
	}
	select {
	case w.events <- event:
	default:
		fill(w.resync)
	}
}

func fill(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// busy notes that a job of the instance is in hand, or has ended: then its
// domain is looked at, because nobody did meanwhile.
func (w *domainWatch) busy(id seedbed.InstanceID, is bool) {
	if id == "" {
		return
	}
	w.mu.Lock()
	if is {
		w.working[id] = true
	} else {
		delete(w.working, id)
	}
	w.mu.Unlock()
	if !is {
		w.tell(seedbed.DomainEvent{ID: id})
	}
}

func (w *domainWatch) isBusy(id seedbed.InstanceID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.working[id]
}

// follow keeps a watch on the worker open until ctx ends.
func (e *Engine) follow(ctx context.Context) {
	wait := e.pace.retryMin
	for ctx.Err() == nil {
		began := time.Now()
		err := e.worker.Watch(ctx, e.domains.tell)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > e.pace.retryMax {
			wait = e.pace.retryMin
		}
		if wait == e.pace.retryMin { // once, not at every try
			e.log.Warn("domain events interrupted", "err", err)
		}
		sleep(ctx, wait)
		wait = min(2*wait, e.pace.retryMax)
	}
}

// keepStates keeps instances running or stopped as their domains are.
func (e *Engine) keepStates(ctx context.Context) {
	tick := time.NewTicker(e.pace.resync)
	defer tick.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return
		case event := <-e.domains.events:
			err = e.keepState(ctx, event.ID)
		case <-e.domains.resync:
			err = e.resync(ctx)
		case <-tick.C:
			err = e.resync(ctx)
		}
		if err != nil && ctx.Err() == nil {
			e.log.Warn("follow domains", "err", err)
		}
	}
}

// keepState looks at one domain. That it is gone is the cleanup's business.
func (e *Engine) keepState(ctx context.Context, id seedbed.InstanceID) error {
	ctx, cancel := context.WithTimeout(ctx, e.pace.call)
	defer cancel()
	if e.domains.isBusy(id) {
		return nil
	}
	info, err := e.worker.DomainState(ctx, id)
	switch {
	case errors.Is(err, seedbed.ErrNotFound):
		return nil
	case err != nil:
		return err
	}
	return e.setState(ctx, info)
}

// resync looks at every domain of the node.
func (e *Engine) resync(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, e.pace.call)
	defer cancel()
	inventory, err := e.worker.Inventory(ctx)
	if err != nil {
		return err
	}
	instances, err := e.store.Instances(ctx)
	if err != nil {
		return err
	}
	e.strangers.note(inventory.Taken, instances, time.Now())
	recorded := map[seedbed.InstanceID]seedbed.InstanceState{}
	for _, inst := range instances {
		recorded[inst.ID] = inst.State
	}
	for _, info := range inventory.Domains {
		if _, to := turn(info.State); to == recorded[info.ID] {
			continue
		}
		if err := e.setState(ctx, info); err != nil {
			return err
		}
	}
	return nil
}

// setState changes a running instance to stopped or back. Any other state, and
// an instance whose job is in hand, is the job's business.
func (e *Engine) setState(ctx context.Context, info seedbed.DomainInfo) error {
	from, to := turn(info.State)
	if e.domains.isBusy(info.ID) {
		return nil
	}
	changed, err := e.store.SetInstanceState(ctx, info.ID, from, to)
	if changed {
		e.log.Info("instance changed", "instance", info.ID, "name", info.Name, "state", to)
	}
	if errors.Is(err, seedbed.ErrNotFound) {
		return nil
	}
	return err
}

// turn is the change of an instance whose domain is in that state.
func turn(s seedbed.DomainState) (from, to seedbed.InstanceState) {
	if s == seedbed.DomainOff || s == seedbed.DomainCrashed {
		return seedbed.InstanceRunning, seedbed.InstanceStopped
	}
	return seedbed.InstanceStopped, seedbed.InstanceRunning
}
