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

// routesFor returns the routes of nodeRoutes if a bridge is to be made. If none is, they are not needed and it returns none.
func (r *route) routesFor(p *plan, links map[string]link) ([]nodeRoute, error) {
	for _, n := range p.networks {
		if _, there := links[n.Bridge]; !there && n.Kind.Outside() {
			return r.nodeRoutes(links)
		}
	}
	return nil, nil
}

// nodeRoutes returns the node's routes in the main table, without default routes and those to managed bridges.
func (r *route) nodeRoutes(links map[string]link) ([]nodeRoute, error) {
	names := map[uint32]string{}
	for _, l := range links {
		if _, _, ours := l.madeFor(); !ours {
			names[l.index] = l.name
		}
	}
	all, err := r.rt.Route.List()
	if err != nil {
		return nil, fmt.Errorf("list routes: %w", err)
	}
	var routes []nodeRoute
	for _, one := range all {
		to, ok := destination(one)
		iface, foreign := names[one.Attributes.OutIface]
		if !ok {
			to, ok = destination6(one)
		}
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

// takes6 reports whether the IPv6 prefix of a network takes from the node what it reaches by a route: other hosts or, whatever the
// kind of the network is, a neighbour that has the address of the node in it.
func takes6(n seedbed.Network, r nodeRoute) bool {
	return n.Kind.Outside() && r.to.Overlaps(n.Prefix6) && (r.onLink || r.to.Bits() >= n.Prefix6.Bits()) ||
		r.onLink && r.to.Contains(n.Gateway6())
}

// checkPrefixes6 reports IPv6 prefixes that take from the node what it reaches. They are applied, since one may come to a
// network whose guests run, and a route to them.
func (p *plan) checkPrefixes6() (checks []seedbed.Check) {
	if !slices.ContainsFunc(p.networks, func(n seedbed.Network) bool { return n.Gateway6().IsValid() }) {
		return nil
	}
	rt, err := dialRoute()
	if err != nil {
		return []seedbed.Check{failed("IPv6 prefixes", err, "")}
	}
	defer rt.Close()
	links, err := rt.links()
	if err != nil {
		return []seedbed.Check{failed("IPv6 prefixes", err, "")}
	}
	routes, err := rt.nodeRoutes(links)
	if err != nil {
		return []seedbed.Check{failed("IPv6 prefixes", err, "")}
	}
	for _, n := range p.networks {
		if i := slices.IndexFunc(routes, func(r nodeRoute) bool { return takes6(n, r) }); i >= 0 {
			checks = append(checks, failed("IPv6 prefix of network "+n.Name,
				fmt.Errorf("%s overlaps %s, which this node reaches on %s", n.Prefix6, routes[i].to, routes[i].iface),
				"give the network another (seedbed network set "+n.Name+" --prefix6)"))
		}
	}
	return checks
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
	l, err := rt.under(addr)
	return addr, l.mtu, err
}

// under returns the interface that has an address, or the zero link if none has.
func (r *route) under(addr netip.Addr) (link, error) {
	all, err := r.addrs()
	if err != nil {
		return link{}, err
	}
	i := slices.IndexFunc(all, func(a address) bool { return a.prefix.Addr() == addr })
	if i < 0 {
		return link{}, nil
	}
	msgs, err := r.link(unix.RTM_GETLINK, 0, link{index: all[i].index}, 0, nil)
	if err != nil || len(msgs) == 0 {
		return link{}, err
	}
	return parseLink(msgs[0].Data)
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
