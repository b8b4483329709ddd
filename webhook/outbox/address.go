package outbox

import (
	"encoding/binary"
	"net/netip"

	"seedbed"
)

// never are the addresses that deliveries are never sent to: those of metadata services, which
// serve any process on this host, and those that do not belong to a host.
var never = prefixes("169.254.169.254/32", "fd00:ec2::254/128", "0.0.0.0/8", "::/128", "224.0.0.0/4", "ff00::/8", "240.0.0.0/4")

// private are the addresses that are not reachable over the Internet, by the registries of RFC
// 6890: loopback, private, shared (CGNAT), link-local, for benchmarks and documentation, discarded,
// and the local form of NAT64 (RFC 8215).
var private = prefixes(
	"10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24",
	"192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
	"::1/128", "64:ff9b:1::/48", "100::/64", "2001:db8::/32", "3fff::/20", "5f00::/16", "fc00::/7", "fe80::/10", "fec0::/10",
)

func prefixes(all ...string) []netip.Prefix {
	parsed := make([]netip.Prefix, len(all))
	for i, s := range all {
		parsed[i] = netip.MustParsePrefix(s)
	}
	return parsed
}

func within(all []netip.Prefix, a netip.Addr) bool {
	for _, p := range all {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// checkAddress returns ErrForbidden for an address that must not be connected to: always one of
// never, and one of private unless allowPrivate is set. An IPv6 address that stands for an IPv4
// address is checked as both.
func checkAddress(a netip.Addr, allowPrivate bool) error {
	if !a.IsValid() {
		return seedbed.Errorf(seedbed.ErrForbidden, "there is no address to connect to")
	}
	for _, form := range forms(a) {
		switch {
		case within(never, form):
			return seedbed.Errorf(seedbed.ErrForbidden, "address %s is never connected to", a)
		case within(private, form) && !allowPrivate:
			return seedbed.Errorf(seedbed.ErrForbidden, "address %s is not a public one: the endpoint must allow private addresses", a)
		}
	}
	return nil
}

// isPublic reports whether a is reachable over the Internet.
func isPublic(a netip.Addr) bool { return checkAddress(a, false) == nil }

var (
	nat64      = netip.MustParsePrefix("64:ff9b::/96")    // RFC 6052
	nat64Local = netip.MustParsePrefix("64:ff9b:1::/48")  // RFC 8215
	translated = netip.MustParsePrefix("::ffff:0:0:0/96") // RFC 2765
	compatible = netip.MustParsePrefix("::/96")           // RFC 4291 2.5.5.1
	sixToFour  = netip.MustParsePrefix("2002::/16")       // RFC 3056
	teredo     = netip.MustParsePrefix("2001::/32")       // RFC 4380
	isatap     = [4]byte{0x00, 0x00, 0x5e, 0xfe}          // RFC 5214
	isatapUniq = [4]byte{0x02, 0x00, 0x5e, 0xfe}
)

// forms returns an address without its zone, and the IPv4 addresses that it may stand for.
func forms(a netip.Addr) []netip.Addr {
	a = a.WithZone("").Unmap()
	if a.Is4() {
		return []netip.Addr{a}
	}
	b := a.As16()
	v4 := func(at int) netip.Addr { return netip.AddrFrom4([4]byte(b[at : at+4])) }
	all := []netip.Addr{a}
	switch {
	case nat64.Contains(a), translated.Contains(a), nat64Local.Contains(a):
		all = append(all, v4(12))
	case compatible.Contains(a) && binary.BigEndian.Uint32(b[12:]) > 1: // not :: and ::1
		all = append(all, v4(12))
	case sixToFour.Contains(a):
		all = append(all, v4(2))
	case teredo.Contains(a): // the server, and the client with every bit inverted
		all = append(all, v4(4), netip.AddrFrom4([4]byte{^b[12], ^b[13], ^b[14], ^b[15]}))
	}
	if id := [4]byte(b[8:12]); id == isatap || id == isatapUniq {
		all = append(all, v4(12))
	}
	return all
}
