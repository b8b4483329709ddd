package libvirt

import (
	"context"
	"sync"
	"time"

	"seedbed"
)

// eventBuffer is how many events a watcher may lag before it must read the inventory instead.
const eventBuffer = 256

// hub hands events to every watcher. A watcher that lags loses events and gets a resync instead.
type hub struct {
	mu       sync.Mutex
	watchers map[*watcher]struct{}
	// following is true while libvirt reports changes to us.
	following bool
}

type watcher struct {
	events chan seedbed.DomainEvent
	// lost is set when an event did not fit; a resync follows once there is space.
	lost bool
}

func newHub() *hub { return &hub{watchers: map[*watcher]struct{}{}} }

// watch calls event for everything that is sent, beginning with a resync, until ctx ends.
func (h *hub) watch(ctx context.Context, event func(seedbed.DomainEvent)) error {
	w := &watcher{events: make(chan seedbed.DomainEvent, eventBuffer)}
	h.mu.Lock()
	h.watchers[w] = struct{}{}
	if h.following {
		w.put(resync())
	}
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		delete(h.watchers, w)
		h.mu.Unlock()
	}()
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		select {
		case e := <-w.events:
			event(e)
			h.catchUp(w)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// catchUp sends a watcher that has space again the resync that it lacks.
func (h *hub) catchUp(w *watcher) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if w.lost && len(w.events) == 0 {
		w.lost = false
		w.put(resync())
	}
}

// send passes e to the watchers. Events while libvirt is not followed are dropped; the next resync
// replaces them.
func (h *hub) send(e seedbed.DomainEvent) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.following {
		return
	}
	for w := range h.watchers {
		w.put(e)
	}
}

// follow records whether libvirt reports changes from now on. If it does, all watchers get a
// resync.
func (h *hub) follow(yes bool) {
	h.mu.Lock()
	h.following = yes
	h.mu.Unlock()
	if yes {
		h.send(resync())
	}
}

func (w *watcher) put(e seedbed.DomainEvent) {
	if w.lost {
		return
	}
	select {
	case w.events <- e:
	default:
		w.lost = true
	}
}

func resync() seedbed.DomainEvent {
	return seedbed.DomainEvent{Event: "resync", At: time.Now()}
}
