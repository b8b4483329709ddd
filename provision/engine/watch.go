package engine

import (
	"context"
	"sync"

	"seedbed"
	"seedbed/internal/sleep"
)

// domainWatch passes the workers' domain events to those that wait for them.
type domainWatch struct {
	mu      sync.Mutex
	nodes   map[string]*nodeWatch // the followed nodes
	waiting map[seedbed.InstanceID]map[chan struct{}]bool
	// working are the instances with a current job, with the nodes on which a check of the domain was
	// skipped because of the job. These may be two if it is migrated.
	working map[seedbed.InstanceID]map[string]bool
}

// nodeWatch is what must be checked on one node.
type nodeWatch struct {
	name   string
	events chan seedbed.InstanceID
	resync chan struct{} // an inventory is due
}

func newDomainWatch() *domainWatch {
	return &domainWatch{
		nodes:   map[string]*nodeWatch{},
		waiting: map[seedbed.InstanceID]map[chan struct{}]bool{},
		working: map[seedbed.InstanceID]map[string]bool{},
	}
}

// open begins to collect the events of a node's domains.
func (w *domainWatch) open(node string) *nodeWatch {
	n := &nodeWatch{name: node, events: make(chan seedbed.InstanceID, 256), resync: make(chan struct{}, 1)}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.nodes[node] = n
	return n
}

// close stops collecting them.
func (w *domainWatch) close(n *nodeWatch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.nodes[n.name] == n {
		delete(w.nodes, n.name)
	}
}

// listen returns a channel that is filled when the domain changes, until stop is called.
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

// tell records one event of a node; it never blocks. An empty ID wakes all listeners.
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
	case n == nil: // its next inventory finds the change
	case event.Event == "defined" || event.Event == "undefined": // neither says whether the domain runs
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

// busy notes that a job of the instance has begun or ended. When it ends, the domain is checked on
// the nodes on which a check was skipped during the job.
func (w *domainWatch) busy(id seedbed.InstanceID, is bool) {
	if id == "" {
		return
	}
	w.mu.Lock()
	var due map[string]bool
	if is {
		if w.working[id] == nil { // a check that is due stays due
			w.working[id] = map[string]bool{}
		}
	} else {
		due = w.working[id]
		delete(w.working, id)
	}
	w.mu.Unlock()
	for node := range due {
		w.tell(node, seedbed.DomainEvent{ID: id})
	}
}

// leavesOut reports whether the check of the instance's domain on a node is skipped because of a job,
// and records that it was. The check is then made after the job.
func (w *domainWatch) leavesOut(id seedbed.InstanceID, node string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	nodes, busy := w.working[id]
	if busy {
		nodes[node] = true
	}
	return busy
}

// follow watches the domains of every node until ctx ends. It also watches nodes that are added,
// and stops watching nodes that are removed.
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
		sleep.For(ctx, e.intervals.Nodes)
	}
}
