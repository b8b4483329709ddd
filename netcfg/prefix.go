package netcfg

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/jsimonetti/rtnetlink/v2"
	"golang.org/x/sys/unix"

	"seedbed"
)

// FreePrefix returns the first of the candidates that does not overlap a route of any table or an
// address of this host. The candidates are /24s, in this order:
//
//	10.213.0.0 to 10.213.63.0, 192.168.213.0 to 192.168.244.0, 172.29.213.0 to 172.29.244.0
//
// They avoid what other software uses by default: 10.0, 10.8, 10.42 and 10.88 (clouds, VPN,
// containers), 10.96 and 10.244 (Kubernetes), 172.17 to 172.28 and 172.31 (Docker, AWS), 192.168.0,
// 1, 100 and 122 (routers, libvirt). Default routes, and routes shorter than /8 that replace one,
// do not count. FreePrefix returns ErrFull if every candidate is taken.
func (m *Manager) FreePrefix(ctx context.Context) (netip.Prefix, error) {
	if err := ctx.Err(); err != nil {
		return netip.Prefix{}, err
	}
	rt, err := dialRoute()
	if err != nil {
		return netip.Prefix{}, err
	}
	defer rt.Close()
	used, err := rt.usedPrefixes()
	if err != nil {
		return netip.Prefix{}, err
	}
	return firstFree(candidates(), used)
}

func candidates() []netip.Prefix {
	var out []netip.Prefix
	add := func(a, b byte, from, to int) {
		for c := from; c <= to; c++ {
			out = append(out, netip.PrefixFrom(netip.AddrFrom4([4]byte{a, b, byte(c), 0}), 24))
		}
	}
	add(10, 213, 0, 63)
	add(192, 168, 213, 244)
	add(172, 29, 213, 244)
	return out
}

func firstFree(candidates, used []netip.Prefix) (netip.Prefix, error) {
	for _, c := range candidates {
		if !slices.ContainsFunc(used, c.Overlaps) {
			return c, nil
		}
	}
	return netip.Prefix{}, seedbed.Errorf(seedbed.ErrFull,
		"none of the %d subnets that Seedbed would choose from is free of routes on this host: set network.prefix to one that is",
		len(candidates))
}

// usedPrefixes returns the destinations of the IPv4 routes and the subnets of the addresses.
func (r *route) usedPrefixes() ([]netip.Prefix, error) {
	routes, err := r.rt.Route.List()
	if err != nil {
		return nil, fmt.Errorf("list routes: %w", err)
	}
	var used []netip.Prefix
	for _, rm := range routes {
		if p, ok := destination(rm); ok {
			used = append(used, p)
		}
	}
	addrs, err := r.addrs()
	if err != nil {
		return nil, err
	}
	for _, a := range addrs {
		if a.prefix.Addr().Is4() {
			used = append(used, a.prefix.Masked())
		}
	}
	return used, nil
}

// destination returns where a route leads; false for a route that does not show that a subnet is
// taken.
func destination(m rtnetlink.RouteMessage) (netip.Prefix, bool) {
	if m.Family != unix.AF_INET || m.DstLength < 8 || m.Type == unix.RTN_BROADCAST || m.Type == unix.RTN_MULTICAST {
		return netip.Prefix{}, false
	}
	addr, ok := netip.AddrFromSlice(m.Attributes.Dst.To4())
	if !ok {
		return netip.Prefix{}, false
	}
	return netip.PrefixFrom(addr, int(m.DstLength)).Masked(), true
}

// destination6 is destination for IPv6, without what is on each link.
func destination6(m rtnetlink.RouteMessage) (netip.Prefix, bool) {
	addr, ok := netip.AddrFromSlice(m.Attributes.Dst)
	if m.Family != unix.AF_INET6 || m.DstLength < 8 || !ok || addr.IsLinkLocalUnicast() || addr.IsMulticast() {
		return netip.Prefix{}, false
	}
	return netip.PrefixFrom(addr, int(m.DstLength)).Masked(), true
}
