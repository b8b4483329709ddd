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
	addr     netip.Addr // of the node; the unspecified address of its version of IP for any
	protocol byte       // zero for a floating address, which has no ports
	port     uint16
	// bridge, to and toPort are where it goes, and tap is the port that has it. to is of the version of IP of addr.
	bridge string
	to     netip.Addr
	toPort uint16
	tap    [16]byte
}

// newForwards returns the forwards of a port that was checked, one for each port of the node, and its floating addresses: none
// into a network that does not reach outside, none of a version of IP of which the port has no address, and none that this
// version does not understand.
func newForwards(t *Port, p *port, n seedbed.Network) (all []forward) {
	to := func(a netip.Addr) netip.Addr {
		if a.Is6() {
			return n.Addr6(p.mac)
		}
		return t.Addr
	}
	for _, f := range t.Forwards {
		if !n.Kind.Outside() || f.Check() != nil || !to(f.Listen.Addr).IsValid() {
			continue
		}
		one := forward{addr: f.Listen.Addr, protocol: unix.IPPROTO_TCP, bridge: t.Bridge, to: to(f.Listen.Addr), tap: p.tap}
		if f.Listen.Protocol == "udp" {
			one.protocol = unix.IPPROTO_UDP
		}
		if !one.addr.IsValid() {
			one.addr = zeroAddr
		}
		for n := range f.Listen.Last - f.Listen.First + 1 {
			one.port, one.toPort = f.Listen.First+n, f.Port+n
			all = append(all, one)
		}
	}
	for _, a := range []netip.Addr{t.Floating, t.Floating6} {
		if a.IsValid() && n.Kind.Outside() && n.FloatingUplink != "" && to(a).IsValid() {
			all = append(all, forward{addr: a, bridge: t.Bridge, to: to(a), tap: p.tap})
		}
	}
	return all
}

// floating reports whether the forward is a floating address.
func (f forward) floating() bool { return f.protocol == 0 }

// sortedForwards sorts forwards in place and returns them. Of those of the same port of the node, it leaves the first by tap.
func sortedForwards(all []forward) []forward {
	order := func(a, b forward) int {
		return cmp.Or(a.addr.Compare(b.addr), cmp.Compare(a.protocol, b.protocol), cmp.Compare(a.port, b.port))
	}
	slices.SortFunc(all, func(a, b forward) int { return cmp.Or(order(a, b), bytes.Compare(a.tap[:], b.tap[:])) })
	return slices.CompactFunc(all, func(a, b forward) bool { return order(a, b) == 0 })
}

// floatingLabel marks the floating addresses among those of interfaces that Apply does not make (IFA_LABEL), and floatingMetric
// those of IPv6, which have no labels (IFA_RT_PRIORITY). No route comes with these, whose metric it would be.
const (
	floatingLabel  = "seedbed"
	floatingMetric = 0x5eedbed
)

// floatingAddress returns a floating address on an interface. No other host has it, so that one of IPv6 is not probed, and the
// node sends nothing of its own from that.
func floatingAddress(a netip.Addr, on link) address {
	if a.Is4() {
		return address{prefix: netip.PrefixFrom(a, 32), label: floatingLabel, index: on.index}
	}
	return address{prefix: netip.PrefixFrom(a, 128), metric: floatingMetric, index: on.index, avoided: true,
		flags: unix.IFA_F_NODAD | unix.IFA_F_NOPREFIXROUTE}
}

// floating reports whether an address of an interface is one that floatingAddress returned.
func (a address) floating() bool {
	return a.label == floatingLabel || a.metric == floatingMetric && a.prefix.Addr().Is6() && a.prefix.Bits() == 128
}

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
		if addr := a.prefix.Addr(); a.floating() {
			ours[addr] = append(ours[addr], a)
		} else {
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
		addr := w.addr
		on, exists := links[uplinks[w.bridge]]
		holder, held := own[addr]
		switch {
		case held:
			left = append(left, seedbed.Check{Name: floatingCheck(addr), Detail: "it is this node's own, on " + holder.name,
				Hint: "keep it out of those that the network lends"})
		case !exists:
			left = append(left, seedbed.Check{Name: floatingCheck(addr), Detail: "this node has no interface " + uplinks[w.bridge],
				Hint: "make it, or name the node's own in network.uplinks"})
		case addr.Is6() && !hasIPv6(on.name):
			left = append(left, seedbed.Check{Name: floatingCheck(addr), Detail: "IPv6 is disabled on this node's interface " + on.name,
				Hint: "set net.ipv6.conf." + on.name + ".disable_ipv6 to 0"})
		default:
			kept := slices.ContainsFunc(ours[addr], func(a address) bool { return a.index == on.index })
			if !kept {
				f.missing = append(f.missing, floatingAddress(addr, on))
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

// Floating returns the floating addresses that are on interfaces of the node, as requests to the hosts there: Bridge is the
// interface. Those that are left out are not among them.
func (m *Manager) Floating() ([]seedbed.AddressProbe, error) {
	m.mu.Lock()
	wanted := m.applied != nil && m.applied.floats()
	m.mu.Unlock()
	if !wanted {
		return nil, nil
	}
	rt, err := dialRoute()
	if err != nil {
		return nil, err
	}
	defer rt.Close()
	by, err := rt.addrsByLink()
	if err != nil {
		return nil, err
	}
	var all []seedbed.AddressProbe
	for _, index := range slices.Sorted(maps.Keys(by)) {
		var addrs []netip.Addr
		for _, a := range by[index] {
			if a.floating() {
				addrs = append(addrs, a.prefix.Addr())
			}
		}
		if len(addrs) == 0 { // as at the most of them: a node may have thousands of ports
			continue
		}
		l, err := rt.linkAt(index)
		if err != nil {
			return nil, err
		}
		if l.mac != (seedbed.MAC{}) {
			all = append(all, seedbed.AddressProbe{Bridge: l.name, MAC: l.mac, Addrs: addrs})
		}
	}
	return all, nil
}

// floatingCheck is the name of the check of a floating address.
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
// (RFC 5227 2.3), or by unsolicited neighbour advertisements (RFC 4861 7.2.6).
func announce(l link, a netip.Addr) error {
	if l.mac == (seedbed.MAC{}) || !l.up {
		return nil // nobody is there
	}
	var b []byte
	to := &unix.SockaddrLinklayer{Ifindex: int(l.index), Halen: 6}
	if a.Is4() {
		b, to.Protocol, to.Addr = gratuitousARP(l.mac, a), networkOrder(unix.ETH_P_ARP), [8]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	} else {
		b, to.Protocol, to.Addr = advertisement(l.mac, a), networkOrder(unix.ETH_P_IPV6), [8]byte{0x33, 0x33, 0, 0, 0, 1}
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("announce: %w", err)
	}
	time.AfterFunc(announceInterval, func() {
		_ = unix.Sendto(fd, b, 0, to) // the interface may be gone
		unix.Close(fd)
	})
	if err := unix.Sendto(fd, b, 0, to); err != nil && !errors.Is(err, unix.ENETDOWN) {
		return fmt.Errorf("announce: %w", err)
	}
	return nil
}

// gratuitousARP returns a request for an IPv4 address by its holder (RFC 826, for IPv4 on Ethernet).
func gratuitousARP(mac seedbed.MAC, a netip.Addr) []byte {
	ip := a.As4()
	b := append([]byte{0, 1, 8, 0, 6, 4, 0, 1}, mac[:]...)
	return append(append(append(b, ip[:]...), make([]byte, 6)...), ip[:]...)
}

// advertisement returns the IPv6 packet to all hosts of a link by which the holder of an address advertises that (RFC 4861 4.4). It is
// a router's, and overrides what they know.
func advertisement(mac seedbed.MAC, a netip.Addr) []byte {
	const routerAndOverride, targetMAC, whole = 0xa0, 2, 255
	ip, all := a.As16(), netip.IPv6LinkLocalAllNodes().As16()
	icmp := append([]byte{neighbourAdvertisement, 0, 0, 0, routerAndOverride, 0, 0, 0}, ip[:]...)
	icmp = append(append(icmp, targetMAC, 1), mac[:]...)
	binary.BigEndian.PutUint16(icmp[2:], checksum(slices.Concat(ip[:], all[:], []byte{0, byte(len(icmp)), 0, unix.IPPROTO_ICMPV6}, icmp)))
	b := append([]byte{0x60, 0, 0, 0, 0, byte(len(icmp)), unix.IPPROTO_ICMPV6, whole}, ip[:]...)
	return append(append(b, all[:]...), icmp...)
}

// checksum is that of the Internet (RFC 1071), of an even number of bytes. Over IPv6, the pseudo-header is a part of them (RFC 8200 8.1).
func checksum(b []byte) uint16 {
	var sum uint32
	for ; len(b) > 1; b = b[2:] {
		sum += uint32(binary.BigEndian.Uint16(b))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

// networkOrder returns a number as the kernel reads it in network byte order.
func networkOrder(v uint16) uint16 { return binary.NativeEndian.Uint16(be16(v)) }
