package netcfg

import (
	"bytes"
	"cmp"
	"slices"

	"golang.org/x/sys/unix"

	"seedbed"
)

// forward is one port of the node that goes to a guest, or a floating address.
type forward struct {
	addr     [4]byte // of the node; zero for any
	protocol byte    // zero for a floating address, which has no ports
	port     uint16
	// bridge, to and toPort are where it goes, and tap is the port that has it.
	bridge string
	to     [4]byte
	toPort uint16
	tap    [16]byte
}

// newForwards returns the forwards of a port that was checked, one for each port of the node, and its floating address: none into a network that
// does not reach outside, and none that this version does not understand.
func newForwards(t *Port, p *port, n seedbed.Network) (all []forward) {
	for _, f := range t.Forwards {
		if !n.Kind.Outside() || f.Check() != nil {
			continue
		}
		one := forward{protocol: unix.IPPROTO_TCP, bridge: t.Bridge, to: p.addr, tap: p.tap}
		if f.Listen.Protocol == "udp" {
			one.protocol = unix.IPPROTO_UDP
		}
		if f.Listen.Addr.IsValid() {
			one.addr = f.Listen.Addr.As4()
		}
		for n := range f.Listen.Last - f.Listen.First + 1 {
			one.port, one.toPort = f.Listen.First+n, f.Port+n
			all = append(all, one)
		}
	}
	if t.Floating.IsValid() && n.Kind.Outside() && n.FloatingUplink != "" {
		all = append(all, forward{addr: t.Floating.As4(), bridge: t.Bridge, to: p.addr, tap: p.tap})
	}
	return all
}

// floating reports whether the forward is a floating address.
func (f forward) floating() bool { return f.protocol == 0 }

// sortedForwards sorts forwards in place and returns them. Of those of the same port of the node, it leaves the first by tap.
func sortedForwards(all []forward) []forward {
	order := func(a, b forward) int {
		return cmp.Or(bytes.Compare(a.addr[:], b.addr[:]), cmp.Compare(a.protocol, b.protocol), cmp.Compare(a.port, b.port))
	}
	slices.SortFunc(all, func(a, b forward) int { return cmp.Or(order(a, b), bytes.Compare(a.tap[:], b.tap[:])) })
	return slices.CompactFunc(all, func(a, b forward) bool { return order(a, b) == 0 })
}
