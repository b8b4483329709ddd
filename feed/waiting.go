package feed

import (
	"slices"
	"sync"
)

// maxWaiting is how many polls of one node may wait at the same time, because each queries the
// store at every write. A guest plane has one, and a second one after a restart.
const maxWaiting = 2

// waiting holds the waiting polls by node, the oldest first.
type waiting struct {
	mu    sync.Mutex
	polls map[string][]chan struct{}
}

// enter counts a poll until leave is called. crowded is closed if too many others of the node have
// come since. The oldest poll ends first, because its guest plane may have lost the connection.
func (w *waiting) enter(node string) (crowded <-chan struct{}, leave func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.polls == nil {
		w.polls = map[string][]chan struct{}{}
	}
	mine := make(chan struct{})
	all := append(w.polls[node], mine)
	if len(all) > maxWaiting {
		close(all[0])
		all = slices.Delete(all, 0, 1)
	}
	w.polls[node] = all
	return mine, func() { w.leave(node, mine) }
}

func (w *waiting) leave(node string, mine chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.polls[node]
	if n := slices.Index(all, mine); n >= 0 {
		all = slices.Delete(all, n, n+1)
	}
	if w.polls[node] = all; len(all) == 0 {
		delete(w.polls, node)
	}
}
