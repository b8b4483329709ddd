package httpserve

import "sync"

// Gate counts the running requests, and admits no new one once it is shut. The zero Gate is open.
type Gate struct {
	mu   sync.Mutex
	shut bool
	busy sync.WaitGroup
}

// Enter reports whether a request may begin. Each request that may begin must call Leave.
func (g *Gate) Enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut {
		return false
	}
	g.busy.Add(1)
	return true
}

// Leave ends a request that Enter has admitted.
func (g *Gate) Leave() { g.busy.Done() }

// Drain shuts the gate, and returns when the last request has left.
func (g *Gate) Drain() {
	g.mu.Lock()
	g.shut = true
	g.mu.Unlock()
	g.busy.Wait()
}
