package config

import (
	"net/netip"

	"seedbed"
)

// Resolvers returns the DNS servers of a new network with a prefix: those of the configuration, or else Seedbed's own.
func (n Network) Resolvers() []netip.Addr {
	if len(n.DNS) > 0 {
		return n.DNS
	}
	return []netip.Addr{seedbed.ResolverAddr}
}
