package provision

import (
	"context"
	"sync"

	"seedbed"
)

// domainWatch hands what the workers tell of domains to those who care.
type domainWatch struct {
	mu      sync.Mutex
	nodes   map[string]*nodeWatch // those that are followed
	waiting map[seedbed.InstanceID]map[chan struct{}]bool
	// working are the instances with a job in hand; true where a look at the domain was left out for it.
	working map[seedbed.InstanceID]bool
}

// nodeWatch is what is to be looked at on one node.
type nodeWatch struct {
	name   string
	events chan seedbed.InstanceID
	resync chan struct{} // an inventory is due
}

func newDomainWatch() *domainWatch {
	return &domainWatch{
		nodes:   map[string]*nodeWatch{},
		waiting: map[seedbed.InstanceID]map[chan struct{}]bool{},
		working: map[seedbed.InstanceID]bool{},
	}
}

// open begins to take in what is told of a node's domains.
func (w *domainWatch) open(node string) *nodeWatch {
	n := &nodeWatch{name: node, events: make(chan seedbed.InstanceID, 256), resync: make(chan struct{}, 1)}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.nodes[node] = n
	return n
}

// close ends that.
func (w *domainWatch) close(n *nodeWatch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.nodes[n.name] == n {
		delete(w.nodes, n.name)
	}
}

// listen gives a channel that is filled when the domain changes, until stop is called.
func (w *domainWatch) listen(id seedbed.InstanceID) (changed <-chan struct{}, stop func()) {
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

// tell takes one event of a node; it never blocks. With an empty ID all listeners look.
func (w *domainWatch) tell(node string, event seedbed.DomainEvent) {
	w.mu.Lock()
	for id, listeners := range w.waiting {
		for c := range listeners {
			if event.ID == "" || event.ID == id {
				fill(c)
			}
		}
	}
	n := w.nodes[node]
	w.mu.Unlock()
	switch {
	case n == nil: // its next inventory tells
	case event.Event == "defined" || event.Event == "undefined": // which does not tell whether it runs
	case event.ID == "":
		fill(n.resync)
	default:
		select {
		case n.events <- event.ID:
		default:
			fill(n.resync)
		}
	}
}

func fill(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// busy notes that a job of the instance is in hand, or has ended: then its
// domain is looked at if that was left out meanwhile.
func (w *domainWatch) busy(id seedbed.InstanceID, node string, is bool) {
	if id == "" {
		return
	}
	w.mu.Lock()
	due := w.working[id] && !is
	if is {
		if _, known := w.working[id]; !known { // what is due stays so
			w.working[id] = false
		}
	} else {
		delete(w.working, id)
	}
	w.mu.Unlock()
	if due {
		w.tell(node, seedbed.DomainEvent{ID: id})
	}
}

// leavesOut tells whether a look at the instance's domain is left out for its job,
// after which it is made.
func (w *domainWatch) leavesOut(id seedbed.InstanceID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, busy := w.working[id]
	if busy {
		w.working[id] = true
	}
	return busy
}

// follow keeps watch over the domains of every node until ctx ends, also of
// those that come and no longer of those that go.
func (e *Engine) follow(ctx context.Context) {
	var group sync.WaitGroup
	defer group.Wait()
	followed := map[string]context.CancelFunc{}
	defer func() {
		for _, stop := range followed {
			stop()
		}
	}()
	for ctx.Err() == nil {
		there := map[string]bool{}
		for _, n := range e.fleet.Nodes() {
			there[n.Name] = true
			if followed[n.Name] == nil {
				inner, stop := context.WithCancel(ctx)
				followed[n.Name] = stop
				group.Go(func() { e.followNode(inner, n.Name) })
			}
		}
		for name, stop := range followed {
			if !there[name] {
				stop()
				delete(followed, name)
			}
		}
		sleep(ctx, e.intervals.nodes)
	}
}
