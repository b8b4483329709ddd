package engine

import (
	"sync"
	"time"

	"seedbed"
)

// ourOwn is how long the MAC of a removed instance may still be in a neighbour table. For that time
// it does not count as foreign.
const ourOwn = 10 * time.Minute

// foreignMACs are the MACs on each node that others use, as of the node's last inventory.
type foreignMACs struct {
	mu   sync.Mutex
	by   map[string]map[seedbed.MAC]string
	ours map[seedbed.MAC]time.Time // when an instance last had it
}

// note records the MACs of a node's inventory, compared with all instances at that moment.
func (s *foreignMACs) note(node string, taken []seedbed.TakenMAC, instances []seedbed.Instance, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ours == nil {
		s.ours, s.by = map[seedbed.MAC]time.Time{}, map[string]map[seedbed.MAC]string{}
	}
	for _, inst := range instances {
		for _, nic := range inst.NICs {
			s.ours[nic.MAC] = now
		}
	}
	for mac, at := range s.ours {
		if now.Sub(at) > ourOwn {
			delete(s.ours, mac)
		}
	}
	by := map[seedbed.MAC]string{}
	for _, t := range taken {
		if _, own := s.ours[t.MAC]; !own {
			by[t.MAC] = t.By
		}
	}
	s.by[node] = by
}

// forget drops the MACs of a node that is no longer followed.
func (s *foreignMACs) forget(node string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.by, node)
}

// MACTaken returns who uses a MAC on a node other than our instances: a foreign domain or a
// neighbour. It is as of the last inventory, which is at most a minute old. It returns "" if no use
// is known.
func (e *Engine) MACTaken(node string, mac seedbed.MAC) (by string) {
	e.foreign.mu.Lock()
	defer e.foreign.mu.Unlock()
	return e.foreign.by[node][mac]
}
