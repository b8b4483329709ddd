package netcfg

import (
	"encoding/binary"

	"github.com/google/nftables"

	"seedbed"
)

// networkSets returns the sets of the inet table that say what the networks are, by their bridges.
func networkSets() []set {
	name, ip := nftables.TypeIFName, nftables.TypeIPAddr
	// of returns the set of the bridges of some networks.
	of := func(called string, which func(seedbed.Network) bool) set {
		return set{name: called, key: name, fixed: func(p *plan, add func(key, value string)) {
			for _, n := range p.networks {
				if which(n) {
					add(string(ifname(n.Bridge)), "")
				}
			}
		}}
	}
	return []set{
		// The bridges that the node is protected from.
		{name: "bridges", key: name, fixed: func(p *plan, add func(key, value string)) {
			for _, n := range p.networks {
				add(string(ifname(n.Bridge)), "")
			}
			for _, b := range p.closed {
				add(string(ifname(b)), "")
			}
		}},
		of("outside", func(n seedbed.Network) bool { return n.Kind.Outside() }),
		of("nat", func(n seedbed.Network) bool { return n.NAT }),
		of("routed", func(n seedbed.Network) bool { return n.Kind.Outside() && !n.NAT }),
		// Each bridge twice: what comes from it and goes to it.
		{name: "within", key: nftables.MustConcatSetType(name, name), concat: true, fixed: func(p *plan, add func(key, value string)) {
			for _, n := range p.networks {
				add(string(ifname(n.Bridge))+string(ifname(n.Bridge)), "")
			}
		}},
		// The addresses of a network, from the first to the last.
		{name: "prefixes", key: nftables.MustConcatSetType(name, ip), concat: true, interval: true,
			fixed: func(p *plan, add func(key, value string)) {
				for _, n := range p.networks {
					first, last := n.Prefix.Masked().Addr(), seedbed.LastAddr(n.Prefix)
					add(string(ifname(n.Bridge))+string(first.AsSlice()), string(ifname(n.Bridge))+string(last.AsSlice()))
				}
			}},
		{name: "dns", key: nftables.MustConcatSetType(name, ip), concat: true, fixed: func(p *plan, add func(key, value string)) {
			for _, n := range p.networks {
				for _, d := range n.DNS {
					add(string(ifname(n.Bridge))+string(d.AsSlice()), "")
				}
			}
		}},
		// A zone has two bytes; a mark, the least type of values, has four.
		{name: "zones", key: name, value: nftables.TypeMark, fixed: func(p *plan, add func(key, value string)) {
			for i, zone := range p.zones() {
				add(string(ifname(p.networks[i].Bridge)), string(binary.NativeEndian.AppendUint16(nil, zone))+"\x00\x00")
			}
		}},
	}
}
