package guestplane

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"seedbed"
	"seedbed/netcfg"
)

// A network whose bridge name is taken by a foreign bridge is left out: it has no servers, the
// ports of its guests are closed, and the rest of the node is served. Each check of the node tries
// it again. Held describes what that means for the jobs of its guests.

// settle runs a change of the kernel and records which networks it left out. Leaving some out is
// not an error.
func (p *Plane) settle(change func() error) error {
	p.settling.Lock()
	defer p.settling.Unlock()
	err := change()
	var left map[string]error
	if only, ok := errors.AsType[*netcfg.LeftOut](err); ok {
		left = only.Networks
	} else if err != nil {
		return err
	}
	p.mu.Lock()
	same := maps.EqualFunc(left, p.leftOut, func(a, b error) bool { return a.Error() == b.Error() })
	p.leftOut = left
	p.mu.Unlock()
	if !same {
		p.signal()
	}
	return nil
}

// restore repairs what others changed on the node.
func (p *Plane) restore(ctx context.Context) error {
	return p.settle(func() error { return p.kernel.Restore(ctx) })
}

// await records the instances that are new in after and are on a network that is left out.
// Instances in the first state of a process do not count as new.
func (p *Plane) await(before, after seedbed.GuestPlaneState) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if before.Guest == nil || len(p.leftOut) == 0 {
		return
	}
	check := func(g seedbed.Guest) {
		if _, known := before.Guest(g.ID); !known && p.onLeftOut(g) != nil {
			p.awaited[g.ID] = true
		}
	}
	if after.Since == before.Revision {
		for _, id := range after.Changed {
			if g, ok := after.Guest(id); ok {
				check(g)
			}
		}
		return
	}
	for _, g := range after.Guests {
		check(g)
	}
}

// onLeftOut returns why a NIC of the guest has no bridge; nil if each has one. The caller holds
// p.mu.
func (p *Plane) onLeftOut(g seedbed.Guest) error {
	for _, nic := range g.NICs {
		if err := p.leftOut[nic.Network]; err != nil {
			return fmt.Errorf("instance %s is on network %s, which this node leaves out: %w", g.ID, nic.Network, err)
		}
	}
	return nil
}

// Held returns why the last state must not be acknowledged: a new instance has no bridge on this
// node. Its job then waits and is undone once its time is over. Until then, jobs of later instances
// wait as well. An instance that was acknowledged once no longer delays the acknowledgement,
// whatever happens to its bridge.
func (p *Plane) Held() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(p.awaited)) {
		if g, ok := p.state.Guest(id); ok {
			if err := p.onLeftOut(g); err != nil {
				return err
			}
		}
		delete(p.awaited, id)
	}
	return nil
}
