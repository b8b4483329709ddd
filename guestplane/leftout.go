package guestplane

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"seedbed"
	"seedbed/netcfg"
)

// A network whose bridge name is taken by a foreign bridge, or which this version does not understand, is left out: it has no
// servers, the ports of its guests are closed, and the rest of the node is served. Each check of the node tries
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
	tell := p.tellLeftOut != nil && !(same && p.noted)
	p.mu.Unlock()
	if tell { // what a former process told may be out of date
		err := p.tellLeftOut(left)
		if err != nil {
			p.log.Warn("which networks are left out is not told", "err", err)
		}
		p.mu.Lock()
		p.noted = err == nil
		p.mu.Unlock()
	}
	if !same {
		p.signal()
	}
	return nil
}

// restore repairs what others changed on the node.
func (p *Plane) restore(ctx context.Context) error {
	return p.settle(func() error { return p.kernel.Restore(ctx) })
}

// arrival is a NIC that a network got.
type arrival struct {
	guest   seedbed.InstanceID
	nic     seedbed.NICID
	network string
}

// await records the NICs in after that are in a network that is left out and that before does not have there: those of new instances, and
// those that were added or have come from another network. None counts as new in the first state of a process.
func (p *Plane) await(before, after seedbed.GuestPlaneState) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if before.Guest == nil || len(p.leftOut) == 0 {
		return
	}
	check := func(g seedbed.Guest) {
		for _, nic := range g.NICs {
			if p.leftOut[nic.Network] == nil {
				continue
			}
			came := arrival{g.ID, nic.ID, nic.Network}
			if was, known := before.Guest(g.ID); !known || !came.in(was) {
				p.awaited[came] = true
			}
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

// in reports whether a guest has the NIC in that network.
func (a arrival) in(g seedbed.Guest) bool {
	return slices.ContainsFunc(g.NICs, func(n seedbed.GuestNIC) bool { return n.ID == a.nic && n.Network == a.network })
}

// Held returns why the last state must not be acknowledged: a new NIC has no bridge on this
// node. Its job then waits and is undone once its time is over. Until then, jobs of later NICs
// wait as well. A NIC that was acknowledged once no longer delays the acknowledgement,
// whatever happens to its bridge.
func (p *Plane) Held() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	order := func(a, b arrival) int { return cmp.Or(cmp.Compare(a.guest, b.guest), cmp.Compare(a.nic, b.nic)) }
	for _, a := range slices.SortedFunc(maps.Keys(p.awaited), order) {
		if g, ok := p.state.Guest(a.guest); ok && a.in(g) {
			if err := p.leftOut[a.network]; err != nil {
				return fmt.Errorf("instance %s is on network %s, which this node leaves out: %w", a.guest, a.network, err)
			}
		}
		delete(p.awaited, a)
	}
	return nil
}
