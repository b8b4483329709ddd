package netcfg

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/jsimonetti/rtnetlink/v2"
	"golang.org/x/sys/unix"

	"seedbed"
)

// ensureAddrs gives the bridge its gateway address and the metadata address,
// and takes away any other IPv4 address: a bridge of ours is ours alone.
func (r *route) ensureAddrs(l link, n seedbed.Network) error {
	// Scope link keeps the kernel from choosing the metadata address as a source for other traffic.
	want := map[netip.Prefix]uint8{
		netip.PrefixFrom(n.Gateway, n.Prefix.Bits()): unix.RT_SCOPE_UNIVERSE,
		netip.PrefixFrom(MetadataAddr, 32):           unix.RT_SCOPE_LINK,
	}
	have, err := r.addrs()
	if err != nil {
		return err
	}
	var stale []rtnetlink.AddressMessage
	for _, a := range have {
		if a.Index != l.index {
			continue
		}
		if _, ok := want[addrPrefix(a)]; ok {
			delete(want, addrPrefix(a))
			continue
		}
		stale = append(stale, a)
	}
	// New ones first: the first address of a subnet going takes the others of it with it.
	for p, scope := range want {
		if err := r.rt.Address.New(addrMessage(l, p, scope)); err != nil {
			return fmt.Errorf("add %s to %s: %w", p, l.name, err)
		}
	}
	for _, a := range stale {
		if err := r.rt.Address.Delete(addrMessage(l, addrPrefix(a), a.Scope)); err != nil {
			return fmt.Errorf("take %s from %s: %w", addrPrefix(a), l.name, err)
		}
	}
	if len(stale) == 0 {
		return nil
	}
	return r.verifyAddrs(l, n)
}

// verifyAddrs adds what went with a removed address of the same subnet.
func (r *route) verifyAddrs(l link, n seedbed.Network) error {
	have, err := r.addrs()
	if err != nil {
		return err
	}
	gw := netip.PrefixFrom(n.Gateway, n.Prefix.Bits())
	if slices.ContainsFunc(have, func(a rtnetlink.AddressMessage) bool { return a.Index == l.index && addrPrefix(a) == gw }) {
		return nil
	}
	if err := r.rt.Address.New(addrMessage(l, gw, unix.RT_SCOPE_UNIVERSE)); err != nil {
		return fmt.Errorf("add %s to %s: %w", gw, l.name, err)
	}
	return nil
}

// addrs are the IPv4 addresses of the namespace.
func (r *route) addrs() ([]rtnetlink.AddressMessage, error) {
	all, err := r.rt.Address.List()
	if err != nil {
		return nil, fmt.Errorf("list addresses: %w", err)
	}
	return slices.DeleteFunc(all, func(a rtnetlink.AddressMessage) bool {
		return a.Family != unix.AF_INET || a.Attributes == nil
	}), nil
}

// addrPrefix is the interface's own address with its prefix length.
func addrPrefix(a rtnetlink.AddressMessage) netip.Prefix {
	ip := a.Attributes.Local
	if ip == nil {
		ip = a.Attributes.Address
	}
	addr, _ := netip.AddrFromSlice(ip.To4())
	return netip.PrefixFrom(addr, int(a.PrefixLength))
}

func addrMessage(l link, p netip.Prefix, scope uint8) *rtnetlink.AddressMessage {
	ip := p.Addr().AsSlice()
	m := &rtnetlink.AddressMessage{
		Family: unix.AF_INET, PrefixLength: uint8(p.Bits()), Scope: scope, Index: l.index,
		Attributes: &rtnetlink.AddressAttributes{Address: ip, Local: ip},
	}
	if p.Bits() < 31 {
		m.Attributes.Broadcast = lastAddr(p).AsSlice()
	}
	return m
}
