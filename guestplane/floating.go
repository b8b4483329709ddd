package guestplane

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"

	"seedbed"
	"seedbed/netcfg/probe"
)

// floating is what hosts answered for the floating addresses of this node.
type floating struct {
	mu    sync.Mutex
	asked map[lent]bool
	used  map[lent]seedbed.AddressUse
}

// lent is a floating address on an interface of the node, whose hosts are asked for it.
type lent struct {
	on   string
	addr netip.Addr
}

// askFloating asks the hosts at the uplinks for each floating address once, soon after this node has it. It asks again for those that
// another host has, until it has not. An address waits for no answer: its former node may have it for a moment longer, and what
// would be the right one of the two is not for this node to say.
func (p *Plane) askFloating(ctx context.Context) {
	all, err := p.host.Floating()
	if err != nil {
		p.log.Warn("list the floating addresses", "err", err)
		return
	}
	f := &p.floating
	have, asks := map[lent]bool{}, []seedbed.AddressProbe{}
	f.mu.Lock()
	for _, on := range all {
		for _, a := range on.Addrs {
			have[lent{on.Bridge, a}] = true
		}
		on.Addrs = slices.DeleteFunc(slices.Clone(on.Addrs), func(a netip.Addr) bool {
			l := lent{on.Bridge, a}
			return f.asked[l] && !f.used[l].Addr.IsValid()
		})
		if len(on.Addrs) > 0 {
			asks = append(asks, on)
		}
	}
	for l := range f.asked {
		if !have[l] {
			delete(f.asked, l)
			delete(f.used, l)
		}
	}
	f.mu.Unlock()
	if len(asks) == 0 {
		return
	}
	probed, err := probe.Held(ctx, asks)
	if err != nil {
		return // ctx has ended
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, on := range asks {
		for _, a := range on.Addrs {
			l := lent{on.Bridge, a}
			f.asked[l] = probed.Unasked[on.Bridge] == ""
			delete(f.used, l)
		}
	}
	for _, u := range probed.Used {
		f.used[lent{u.Bridge, u.Addr}] = u
	}
}

// floatingChecks report the floating addresses of this node that another host has, too.
func (p *Plane) floatingChecks() (checks []seedbed.Check) {
	p.floating.mu.Lock()
	defer p.floating.mu.Unlock()
	for _, u := range p.floating.used {
		checks = append(checks, seedbed.Check{Name: "floating address " + u.Addr.String(),
			Detail: fmt.Sprintf("the host with the MAC address %s has it, too, at %s: what others send there may go to that host", u.MAC, u.Bridge),
			Hint: "free it on that host, or lend another (seedbed network set --floating); if that is a node, its seedbed-metadata is behind; " +
				"a router that answers for all addresses (proxy ARP) must not do so for these"})
	}
	slices.SortFunc(checks, func(a, b seedbed.Check) int { return cmp.Compare(a.Name, b.Name) })
	return checks
}
