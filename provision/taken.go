package provision

import (
	"context"
	"sync"
	"time"

	"seedbed"
)

// ourOwn is how long the MAC of an instance that is gone may still be in a
// neighbour table: it is no stranger's for that time.
const ourOwn = 10 * time.Minute

// foreignMACs are the MACs on each node that others use, as of its last inventory.
type foreignMACs struct {
	mu   sync.Mutex
	by   map[string]map[seedbed.MAC]string
	ours map[seedbed.MAC]time.Time // when an instance had it last
}

// note takes in what an inventory of a node has, with all instances of that moment.
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

// forget drops what is known of a node that is followed no more.
func (s *foreignMACs) forget(node string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.by, node)
}

// MACTaken tells who uses a MAC on a node that is none of our instances: a
// domain of somebody else's, or a neighbour. It is as of the last inventory, which
// is a minute old at most; empty when nobody is known to.
func (e *Engine) MACTaken(node string, mac seedbed.MAC) (by string) {
	e.foreign.mu.Lock()
	defer e.foreign.mu.Unlock()
	return e.foreign.by[node][mac]
}

// acceptNew records a request that makes an instance. A MAC that somebody else
// uses on the node is refused with ErrExists, as one that an instance has.
func (in *Intake) acceptNew(ctx context.Context, a seedbed.Acceptance) (seedbed.Receipt, error) {
	if in.serving.MACTaken != nil {
		for _, nic := range a.Instance.NICs {
			if by := in.serving.MACTaken(a.Instance.Node, nic.MAC); by != "" {
				return seedbed.Receipt{}, seedbed.Errorf(seedbed.ErrExists, "MAC address %s is used on node %s already, by %s", nic.MAC, a.Instance.Node, by)
			}
		}
	}
	return in.store.Accept(ctx, a)
}
