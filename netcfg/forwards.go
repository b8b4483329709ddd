package netcfg

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

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

// newForwards returns the forwards of a port that was checked, one for each port of the node, and its floating address: none
// into a network that does not reach outside, and none that this version does not understand.
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

// floatingLabel marks the floating addresses among those of interfaces that Apply does not make (IFA_LABEL).
const floatingLabel = "seedbed"

// floats are what to do about the floating addresses on the node's interfaces.
type floats struct {
	stale   []address
	missing []address
	links   map[uint32]link
}

// floating returns the plan without the floating addresses that are the node's own or have no interface, and what differs on
// the interfaces. Why others are left out is logged once, and Check says it.
func (m *Manager) floating(rt *route, p *plan, links map[string]link) (*plan, floats, error) {
	f := floats{links: map[uint32]link{}}
	var left []seedbed.Check
	defer func() { m.leaveFloating(left) }()
	if !p.floats() && m.applied != nil && !m.applied.floats() {
		return p, f, nil
	}
	have, err := rt.addrs()
	if err != nil {
		return p, f, err
	}
	for _, l := range links {
		f.links[l.index] = l
	}
	own, ours := map[netip.Addr]link{}, map[netip.Addr][]address{}
	for _, a := range have {
		if addr := a.prefix.Addr(); a.label == floatingLabel {
			ours[addr] = append(ours[addr], a)
		} else if addr.Is4() {
			own[addr] = f.links[a.index]
		}
	}
	uplinks := map[string]string{}
	for _, n := range p.networks {
		uplinks[n.Bridge] = cmp.Or(p.names[n.FloatingUplink], n.FloatingUplink)
	}
	out := *p
	out.sum, out.forwards = "", slices.DeleteFunc(slices.Clone(p.forwards), func(w forward) bool {
		if !w.floating() {
			return false
		}
		addr := netip.AddrFrom4(w.addr)
		on, exists := links[uplinks[w.bridge]]
		holder, held := own[addr]
		switch {
		case held:
			left = append(left, seedbed.Check{Name: floatingCheck(addr), Detail: "it is this node's own, on " + holder.name,
				Hint: "keep it out of those that the network lends"})
		case !exists:
			left = append(left, seedbed.Check{Name: floatingCheck(addr), Detail: "this node has no interface " + uplinks[w.bridge],
				Hint: "make it, or name the node's own in network.uplinks"})
		default:
			kept := slices.ContainsFunc(ours[addr], func(a address) bool { return a.index == on.index })
			if !kept {
				f.missing = append(f.missing, address{prefix: netip.PrefixFrom(addr, 32), label: floatingLabel, index: on.index})
			}
			ours[addr] = slices.DeleteFunc(ours[addr], func(a address) bool { return a.index == on.index })
			return false
		}
		return true
	})
	for _, addr := range slices.SortedFunc(maps.Keys(ours), netip.Addr.Compare) {
		f.stale = append(f.stale, ours[addr]...)
	}
	return &out, f, nil
}

func floatingCheck(a netip.Addr) string { return "floating address " + a.String() }

// leaveFloating notes which floating addresses are left out, and logs what is new.
func (m *Manager) leaveFloating(left []seedbed.Check) {
	for _, c := range left {
		if !slices.Contains(m.leftFloating, c) {
			m.log.Error(c.Name+" left out", "err", c.Detail, "hint", c.Hint)
		}
	}
	m.leftFloating = left
}

// floats reports whether a port of the plan has a floating address.
func (p *plan) floats() bool { return slices.ContainsFunc(p.forwards, forward.floating) }

// takeFloating removes the floating addresses that are stale. It is done before the rules change: otherwise, the node itself
// would answer at them.
func (m *Manager) takeFloating(rt *route, f floats) error {
	var problems []error
	for _, a := range f.stale {
		if err := rt.setAddr(unix.RTM_DELADDR, 0, a); err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) {
			problems = append(problems, fmt.Errorf("take floating address %s from %s: %w", a.prefix.Addr(), f.links[a.index].name, err))
			continue
		}
		m.log.Info("floating address removed", "address", a.prefix.Addr(), "interface", f.links[a.index].name)
	}
	return errors.Join(problems...)
}

// addFloating adds the floating addresses that are missing, and announces them. The rules are in force.
func (m *Manager) addFloating(rt *route, f floats) error {
	var problems []error
	for _, a := range f.missing {
		l := f.links[a.index]
		err := rt.setAddr(unix.RTM_NEWADDR, 0, a)
		if err == nil {
			m.log.Info("floating address added", "address", a.prefix.Addr(), "interface", l.name)
			err = announce(l, a.prefix.Addr())
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("add floating address %s to %s: %w", a.prefix.Addr(), l.name, err))
		}
	}
	return errors.Join(problems...)
}

// announceInterval is ANNOUNCE_INTERVAL (RFC 5227 1.1). Linux ignores an announcement of an address that it has learned
// within the last second.
const announceInterval = 2 * time.Second

// announce tells the hosts at an interface where an address is now: by a gratuitous ARP request, and by another one later
// (RFC 5227 2.3).
func announce(l link, a netip.Addr) error {
	if l.mac == (seedbed.MAC{}) || !l.up {
		return nil // nobody is there
	}
	ip := a.As4()
	b := append([]byte{0, 1, 8, 0, 6, 4, 0, 1}, l.mac[:]...) // RFC 826, for IPv4 on Ethernet
	b = append(append(append(b, ip[:]...), make([]byte, 6)...), ip[:]...)
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("announce: %w", err)
	}
	to := &unix.SockaddrLinklayer{Protocol: networkOrder(unix.ETH_P_ARP), Ifindex: int(l.index), Halen: 6,
		Addr: [8]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}}
	time.AfterFunc(announceInterval, func() {
		_ = unix.Sendto(fd, b, 0, to) // the interface may be gone
		unix.Close(fd)
	})
	if err := unix.Sendto(fd, b, 0, to); err != nil && !errors.Is(err, unix.ENETDOWN) {
		return fmt.Errorf("announce: %w", err)
	}
	return nil
}

// networkOrder returns a number as the kernel reads it in network byte order.
func networkOrder(v uint16) uint16 { return binary.NativeEndian.Uint16(be16(v)) }
