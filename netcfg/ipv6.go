package netcfg

import "net/netip"

// The IPv6 addresses at which guests find their metadata: Amazon's, as a /128, and OpenStack's,
// which is link-local and needs no route. Every managed bridge has both, unless IPv6 is disabled
// there.
var (
	MetadataAddr6          = netip.AddrFrom16([16]byte{0xfd, 0, 0x0e, 0xc2, 14: 0x02, 15: 0x54})
	MetadataAddr6LinkLocal = netip.AddrFrom16([16]byte{0xfe, 0x80, 12: 0xa9, 13: 0xfe, 14: 0xa9, 15: 0xfe})
)

func metadata6() []netip.Addr { return []netip.Addr{MetadataAddr6, MetadataAddr6LinkLocal} }

var zero6 = netip.IPv6Unspecified()

// HasIPv6 reports whether a bridge accepts IPv6 addresses: the kernel has IPv6 and it is not
// disabled for that interface.
func (m *Manager) HasIPv6(bridge string) bool { return hasIPv6(bridge) }

func hasIPv6(bridge string) bool {
	off, err := readSysctl(keyConf6(bridge, "disable_ipv6"))
	return err == nil && off == 0
}
