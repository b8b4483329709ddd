package netcfg

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"seedbed"
)

// nodeRoute is a route by which the node reaches hosts that are not its guests.
type nodeRoute struct {
	to    netip.Prefix
	iface string
	// onLink is whether the hosts are neighbours of the node, rather than behind a router.
	onLink bool
}

// nodeRoutes returns the node's IPv4 routes in the main table, without default routes and those to managed
// bridges. If no bridge is to be made, they are not needed and it returns none.
func (m *Manager) nodeRoutes(rt *route, p *plan, links map[string]link) ([]nodeRoute, error) {
	needed := false
	for _, n := range p.networks {
		_, there := links[n.Bridge]
		needed = needed || !there && n.Kind.Outside()
	}
	if !needed {
		return nil, nil
	}
	names := map[uint32]string{}
	for _, l := range links {
		if _, _, ours := l.madeFor(); !ours {
			names[l.index] = l.name
		}
	}
	all, err := rt.rt.Route.List()
	if err != nil {
		return nil, fmt.Errorf("list routes: %w", err)
	}
	var routes []nodeRoute
	for _, one := range all {
		to, ok := destination(one)
		iface, foreign := names[one.Attributes.OutIface]
		if ok && foreign && one.Table == unix.RT_TABLE_MAIN && one.Type == unix.RTN_UNICAST {
			routes = append(routes, nodeRoute{to, iface, one.Attributes.Gateway == nil})
		}
	}
	return routes, nil
}

// unrouted returns ErrConflict if a new network that reaches outside would take from the node the way to hosts
// that are not guests: to its neighbours, or to a prefix for which it has a route as exact. A shorter route to
// a router, such as one to all private addresses, may have such a network cut out of it.
func unrouted(n seedbed.Network, routes []nodeRoute) error {
	for _, r := range routes {
		if n.Kind.Outside() && r.to.Overlaps(n.Prefix) && (r.onLink || r.to.Bits() >= n.Prefix.Bits()) {
			return seedbed.Errorf(seedbed.ErrConflict,
				"prefix %s of network %s overlaps %s, which this node reaches on %s: choose another prefix, or the kind isolated",
				n.Prefix, n.Name, r.to, r.iface)
		}
	}
	return nil
}

// NodeAddress returns where other nodes send the frames of overlays, and the MTU of the interface that has the address, or 0
// if none has. Unless it is given, it is the address from which the node reaches other networks. It is the zero Addr if the
// node reaches none. Nothing is sent.
func NodeAddress(given netip.Addr) (addr netip.Addr, mtu int, err error) {
	if addr = given; !addr.IsValid() {
		addr = cmp.Or(sourceTo("udp4", "192.0.2.1"), sourceTo("udp6", "2001:db8::1")) // of RFC 5737 and RFC 3849: no host has it
	}
	if !addr.IsValid() {
		return addr, 0, nil
	}
	rt, err := dialRoute()
	if err != nil {
		return addr, 0, err
	}
	defer rt.Close()
	all, err := rt.addrs()
	if err != nil {
		return addr, 0, err
	}
	i := slices.IndexFunc(all, func(a address) bool { return a.prefix.Addr() == addr })
	if i < 0 {
		return addr, 0, nil
	}
	msgs, err := rt.link(unix.RTM_GETLINK, 0, link{index: all[i].index}, 0, nil)
	if err != nil || len(msgs) == 0 {
		return addr, 0, err
	}
	l, err := parseLink(msgs[0].Data)
	return addr, l.mtu, err
}

// sourceTo returns the address from which the node would send to another.
func sourceTo(network, to string) netip.Addr {
	c, err := net.Dial(network, net.JoinHostPort(to, "9"))
	if err != nil {
		return netip.Addr{}
	}
	defer c.Close()
	return c.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap()
}
