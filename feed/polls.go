package feed

import (
	"slices"
	"sync"
)

// maxPolls is how many polls of one node may wait at the same time, because each queries the
// store at every write. A guest plane has one, and a second one after a restart.
const maxPolls = 2

// polls holds the waiting polls by node, the oldest first.
type polls struct {
	mu     sync.Mutex
	byNode map[string][]chan struct{}
}

// enter counts a poll until leave is called. crowded is closed if too many others of the node have
// come since. The oldest poll ends first, because its guest plane may have lost the connection.
func (p *polls) enter(node string) (superseded <-chan struct{}, leave func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.byNode == nil {
		p.byNode = map[string][]chan struct{}{}
	}
	mine := make(chan struct{})
	all := append(p.byNode[node], mine)
	if len(all) > maxPolls {
		close(all[0])
		all = slices.Delete(all, 0, 1)
	}
	p.byNode[node] = all
	return mine, func() { p.leave(node, mine) }
}

func (p *polls) leave(node string, mine chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.byNode[node]
	if n := slices.Index(all, mine); n >= 0 {
		all = slices.Delete(all, n, n+1)
	}
	if p.byNode[node] = all; len(all) == 0 {
		delete(p.byNode, node)
	}
}
