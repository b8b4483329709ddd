package seedbed

import (
	"crypto/sha256"
	"encoding/hex"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Reservation is an address of a network that only the NIC with a MAC address gets. A MAC address may have one of each version of IP.
type Reservation struct {
	MAC  MAC        `json:"mac"`
	Addr netip.Addr `json:"addr"`
	// Description is one line for people.
	Description string `json:"description,omitempty"`
}

// Asks returns the IPv4 address that a new NIC asks for: want or, if that is the zero Addr, the one that is reserved for its MAC
// address. It returns the zero Addr if the NIC gets any, and ErrInvalid if it cannot have what it asks for.
func (n Network) Asks(mac MAC, want netip.Addr) (netip.Addr, error) {
	for _, r := range n.Reservations {
		switch {
		case !want.IsValid() && r.MAC == mac && r.Addr.Is4():
			return r.Addr, nil
		case want.IsValid() && r.Addr == want && r.MAC != mac:
			return want, Errorf(ErrInvalid, "address %s of network %q is reserved for the MAC address %s", want, n.Name, r.MAC)
		}
	}
	if want.IsValid() {
		return want, n.Takes(want)
	}
	return want, nil
}

// MaxSecondary is how many secondary addresses a NIC may have.
const MaxSecondary = 32

// AnyAddr6 asks for a free IPv6 address where secondary ones are asked for. The zero Addr asks for a free IPv4 address.
var AnyAddr6 = netip.IPv6Unspecified()

// AnyFree reports whether a asks for a free address.
func AnyFree(a netip.Addr) bool { return !a.IsValid() || a == AnyAddr6 }

// FreeAddrs asks for free secondary addresses: for a number of IPv4 ones, and then for a number of IPv6 ones.
func FreeAddrs(count, count6 int) []netip.Addr {
	return append(make([]netip.Addr, count), slices.Repeat([]netip.Addr{AnyAddr6}, count6)...)
}

// Adds returns ErrInvalid unless the NIC with a MAC address may have a as a secondary address. IPv6 ones are those of Prefix6
// that no NIC has as its first, now or later.
func (n Network) Adds(mac MAC, a netip.Addr) error {
	if !a.Is6() {
		_, err := n.Asks(mac, a)
		return err
	}
	if !n.Prefix6.Contains(a) {
		return Errorf(ErrInvalid, "address %s cannot be a guest's in network %q: %s", a, n.Name, n.expected6())
	}
	whose := n.notFree6(a)
	if owner, first := n.FirstOf(a); whose == "" && first {
		whose = "the first one of the NIC with the MAC address " + owner.String()
	}
	if whose == "" {
		return nil
	}
	return Errorf(ErrInvalid, "address %s cannot be a secondary one in network %q: it is %s", a, n.Name, whose)
}

// notFree6 says whose an address of Prefix6 is that no NIC ever gets, and that one may have which has no reservation; empty for any other.
func (n Network) notFree6(a netip.Addr) string {
	switch {
	case a == n.Gateway6() || a == n.NodeAddr6():
		return "the node's"
	case n.keeps6(a):
		return "kept out"
	}
	return n.special6(a)
}

// special6 says what an address of Prefix6 is of itself; empty for nothing.
func (n Network) special6(a netip.Addr) string {
	owner, first := n.ownerOf(a)
	switch id := a.As16(); {
	case a == n.Prefix6.Addr():
		return "that of all routers there (RFC 4291 2.6.1)"
	case [7]byte(id[8:15]) == [7]byte{0xfd, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff} && id[15] >= 0x80:
		return "reserved for groups of hosts (RFC 2526)"
	case first:
		return "the first one of the NIC with the MAC address " + owner.String()
	}
	return ""
}

// Asks6 returns the MAC address of a new NIC that asks for want as its IPv6 address: mac or, if that is the zero MAC, the one for which
// want is reserved. It returns ErrInvalid if no NIC, or not the one with that MAC address, has this address.
func (n Network) Asks6(mac MAC, want netip.Addr) (MAC, error) {
	owner, first := n.FirstOf(want)
	switch {
	case first && (mac == owner || mac == MAC{}):
		return owner, nil
	case first:
		return mac, Errorf(ErrInvalid, "address %s of network %q is the first one of the NIC with the MAC address %s, and not of %s",
			want, n.Name, owner, mac)
	case !n.Prefix6.Contains(want):
		return mac, Errorf(ErrInvalid, "address %s cannot be a guest's in network %q: %s", want, n.Name, n.expected6())
	}
	return mac, Errorf(ErrInvalid, "address %s is not reserved in network %q, and NICs ask only for IPv6 addresses that are: reserve it for "+
		"a MAC address first (seedbed network reserve %s MAC %[1]s)", want, n.Name, ShortName(n.Name))
}

// expected6 says of what IPv6 addresses of guests are.
func (n Network) expected6() string {
	if n.Prefix6.IsValid() {
		return "expected one of " + n.Prefix6.String()
	}
	return "expected one of a network with an IPv6 prefix"
}

// takes6 returns ErrInvalid unless an IPv6 address can be reserved for a MAC address.
func (n Network) takes6(mac MAC, a netip.Addr) error {
	whose := ""
	switch owner, first := n.ownerOf(a); {
	case !n.Prefix6.Contains(a):
		return Errorf(ErrInvalid, "address %s cannot be reserved in network %q: %s", a, n.Name, n.expected6())
	case n.SLAAC:
		return Errorf(ErrInvalid, "address %s cannot be reserved in network %q, whose guests make their IPv6 addresses of their MAC addresses "+
			"(slaac): only those that ask DHCPv6 can have others", a, n.Name)
	case !first || owner != mac || n.keeps6(a):
		whose = n.notFree6(a)
	}
	if whose == "" {
		return nil
	}
	return Errorf(ErrInvalid, "address %s cannot be reserved in network %q: it is %s", a, n.Name, whose)
}

// Reserve removes the reservations of some MAC addresses, of both versions of IP, and then adds others. It returns ErrNotFound if one
// of these MAC addresses has none. The caller checks the network.
func (n *Network) Reserve(add []Reservation, remove []MAC) error {
	for _, mac := range remove {
		if !slices.ContainsFunc(n.Reservations, func(r Reservation) bool { return r.MAC == mac }) {
			return Errorf(ErrNotFound, "network %q has no reservation for the MAC address %s", n.Name, mac)
		}
		n.Reservations = slices.DeleteFunc(slices.Clone(n.Reservations), func(r Reservation) bool { return r.MAC == mac })
	}
	n.Reservations = slices.Concat(n.Reservations, add)
	slices.SortFunc(n.Reservations, func(a, b Reservation) int { return a.Addr.Compare(b.Addr) })
	return nil
}

// Reserves reports whether an address is reserved.
func (n Network) Reserves(a netip.Addr) bool {
	return slices.ContainsFunc(n.Reservations, func(r Reservation) bool { return r.Addr == a })
}

// maxReservations bounds those of a network, which is read as a whole.
const maxReservations = 1024

func (n Network) checkReservations(bad complaint) error {
	if len(n.Reservations) > maxReservations {
		return bad("%d reservations: expected at most %d", len(n.Reservations), maxReservations)
	}
	type owner struct {
		mac MAC
		v6  bool
	}
	owners, addrs := map[owner]bool{}, map[netip.Addr]bool{}
	for _, r := range n.Reservations {
		switch {
		case r.MAC[0]&1 != 0 || r.MAC == MAC{}:
			return bad("an address is reserved for %s, which is not a unicast MAC address", r.MAC)
		case owners[owner{r.MAC, r.Addr.Is6()}]:
			return Errorf(ErrExists, "network %q has a reservation for the MAC address %s already", Clip(n.Name), r.MAC)
		case addrs[r.Addr]:
			return Errorf(ErrExists, "network %q has a reservation of the address %s already", Clip(n.Name), r.Addr)
		case !line(r.Description):
			return bad("the description of a reservation is not one line of at most %d bytes", maxDescription)
		}
		takes := n.Takes
		if r.Addr.Is6() {
			takes = func(a netip.Addr) error { return n.takes6(r.MAC, a) }
		}
		if err := takes(r.Addr); err != nil {
			return err
		}
		owners[owner{r.MAC, r.Addr.Is6()}], addrs[r.Addr] = true, true
	}
	return nil
}

// NetworkRoute is a route of guests: to a prefix, by a router in their network.
type NetworkRoute struct {
	Prefix netip.Prefix `json:"prefix"`
	Via    netip.Addr   `json:"via"`
}

// NetworkLease is an address of a network that an instance has, from the acceptance of its create job on.
type NetworkLease struct {
	Addr netip.Addr `json:"addr"`
	MAC  MAC        `json:"mac"`
	// Instance is the full name of the instance, and NIC the index of its NIC.
	Instance string `json:"instance"`
	NIC      int    `json:"nic"`
	// Addr6 is its IPv6 address, if the network has a prefix of these.
	Addr6 netip.Addr `json:"addr6,omitzero"`
	// Secondary is whether Addr or else Addr6 is a secondary address of the NIC. It has no DHCP lease then, and no other address.
	Secondary bool `json:"secondary,omitempty"`
	// Reserved is whether Addr is reserved for the NIC with the MAC address, and no instance has that. Instance is empty then.
	Reserved bool `json:"reserved,omitempty"`
	// Until is the end of its DHCP lease as last reported; zero if the guest has not asked for one.
	Until time.Time `json:"until,omitzero"`
}

// prefix6Bits is the length of the prefix of a link whose hosts make their addresses from their MAC addresses (RFC 4291 2.5.1).
const prefix6Bits = 64

// checkPrefix6 checks the IPv6 prefix.
func (n Network) checkPrefix6(bad complaint) error {
	p := n.Prefix6
	switch {
	case n.Prefix6 == netip.Prefix{} && n.SLAAC:
		return bad("guests cannot choose addresses without an IPv6 prefix: give it one")
	case n.Prefix6 == netip.Prefix{}:
		return nil
	case !p.IsValid() || !p.Addr().Is6() || p.Addr().Is4In6() || p.Bits() != prefix6Bits || p != p.Masked():
		return bad("IPv6 prefix %s is not usable: expected a /%d, such as fd12:3456:789a:1::/64", p, prefix6Bits)
	}
	for _, s := range specials6 {
		if p.Overlaps(netip.MustParsePrefix(s)) {
			return bad("IPv6 prefix %s is not usable: expected none in %s, which has addresses of another meaning", p, s)
		}
	}
	return nil
}

// checkNo4 checks that a network without an IPv4 prefix has nothing that needs one.
func (n Network) checkNo4(bad complaint) error {
	var has string
	switch {
	case n.Gateway.IsValid():
		has = "gateway " + n.Gateway.String()
	case n.Range.First.IsValid() || slices.ContainsFunc(n.Kept, func(r AddrRange) bool { return r.First.Is4() }) ||
		slices.ContainsFunc(n.Reservations, func(r Reservation) bool { return r.Addr.Is4() }):
		has = "range, kept addresses or reservations of IPv4 addresses"
	case len(n.Floating) > 0 && !n.LendsOnly6():
		has = "floating addresses of IPv4"
	case slices.ContainsFunc(n.Routes, func(r NetworkRoute) bool { return !r.Prefix.Addr().Is6() }):
		has = "routes of IPv4"
	case n.BootServer.IsValid():
		has = "boot server"
	case slices.ContainsFunc(n.NTP, func(a netip.Addr) bool { return a.Is4() && a != TimeAddr }):
		has = "time servers with IPv4 addresses"
	case slices.ContainsFunc(n.DNS, func(a netip.Addr) bool { return a.Is4() && a != ResolverAddr }):
		has = "DNS servers with IPv4 addresses"
	default:
		return nil
	}
	return bad("without an IPv4 prefix, it cannot have %s: give it a prefix such as 10.99.0.0/24 as well, or leave that out", has)
}

// Without4 says why the network has no IPv4 prefix: "whose addresses come from elsewhere", for example.
func (n Network) Without4() string {
	if n.Only6() {
		return "whose NICs have IPv6 addresses alone, which follow from their MAC addresses"
	}
	return "whose addresses come from elsewhere"
}

// Addr6 returns the first IPv6 address of the NIC with a MAC address, in Prefix6: the one that is reserved for it, or that of
// Range6 which ends in the MAC address, or else the one that hosts choose of themselves, with the modified EUI-64 of the MAC
// address as its interface identifier (RFC 4291 A). It is the zero Addr if there is no prefix.
func (n Network) Addr6(m MAC) netip.Addr {
	if !n.Prefix6.IsValid() {
		return netip.Addr{}
	}
	for _, r := range n.Reserved6() {
		if r.MAC == m {
			return r.Addr
		}
	}
	return n.addr6(m, 0)
}

// Reserved6 returns the reservations of IPv6 addresses, which are behind those of IPv4.
func (n Network) Reserved6() []Reservation {
	at := len(n.Reservations)
	for at > 0 && n.Reservations[at-1].Addr.Is6() {
		at--
	}
	return n.Reservations[at:]
}

// FirstOf returns the MAC address of the NIC that has an IPv6 address of Prefix6 as its first one. It returns false if none ever has.
func (n Network) FirstOf(a netip.Addr) (m MAC, ok bool) {
	for _, r := range n.Reserved6() {
		if r.Addr == a {
			return r.MAC, true
		}
	}
	m, ok = n.ownerOf(a)
	return m, ok && n.Addr6(m) == a
}

// FreeAddr6 returns the i-th address that the NIC with a MAC address may get as a secondary one in Prefix6, from 1 on: its Addr6 with
// i in place of what marks an EUI-64 or, in Range6, before the MAC address, so that it is no other NIC's unless it was asked for. It is
// the zero Addr if there is none.
func (n Network) FreeAddr6(m MAC, i int) netip.Addr {
	if !n.Prefix6.IsValid() || i < 1 || i >= 0xfffe || n.Range6.IsValid() && i >= 1<<(maxRange6Bits-n.Range6.Bits()) {
		return netip.Addr{}
	}
	return n.addr6(m, uint16(i))
}

// addr6 returns the first address of a NIC for 0, and otherwise FreeAddr6.
func (n Network) addr6(m MAC, i uint16) netip.Addr {
	if n.Range6.IsValid() {
		a := n.Range6.Addr().As16()
		a[8], a[9] = a[8]|byte(i>>8), a[9]|byte(i)
		copy(a[10:], m[:])
		return netip.AddrFrom16(a)
	}
	middle := uint16(0xfffe)
	if i != 0 {
		middle = i
	}
	a := n.Prefix6.Addr().As16()
	copy(a[8:], []byte{m[0] ^ 2, m[1], m[2], byte(middle >> 8), byte(middle), m[3], m[4], m[5]})
	return netip.AddrFrom16(a)
}

// ownerOf returns the MAC address that an IPv6 address follows from as Addr6 does without a reservation. It returns false for any other
// address.
func (n Network) ownerOf(a netip.Addr) (m MAC, ok bool) {
	if !n.Range6.IsValid() {
		return MACOf(a)
	}
	b := a.As16()
	copy(m[:], b[10:])
	return m, a.Is6() && m[0]&1 == 0 && n.addr6(m, 0) == a
}

// special reports whether a prefix has addresses that are no host's (RFC 6890).
func special(p netip.Prefix) bool {
	for _, s := range []string{"0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/3"} {
		if p.Overlaps(netip.MustParsePrefix(s)) {
			return true
		}
	}
	return false
}

// LastAddr returns the last address of a prefix; the zero Addr for one that is not valid.
func LastAddr(p netip.Prefix) netip.Addr {
	a := p.Masked().Addr().AsSlice()
	for bit := max(0, p.Bits()); bit < 8*len(a); bit++ {
		a[bit/8] |= 0x80 >> (bit % 8)
	}
	last, _ := netip.AddrFromSlice(a)
	return last
}

// BridgeOf returns the name of the bridge of a network that was given none: sb- and the start of the digest of the
// network's qualified name, since an interface has a shorter name than a network.
func BridgeOf(network string) string {
	sum := sha256.Sum256([]byte(network))
	return "sb-" + hex.EncodeToString(sum[:6])
}

// NewVNI returns a random number for an overlay, so that two installations on one wire hardly have the same ones. It is above
// the numbers that people choose.
func NewVNI() int {
	const least = 1 << 20
	return least + rand.IntN(MaxVNI+1-least)
}

// ValidInterface reports whether s can be the name of a network interface. It is the kernel's dev_valid_name (net/core/dev.c), in ASCII.
func ValidInterface(s string) bool {
	return s != "" && len(s) <= ifnameSize && s != "." && s != ".." &&
		!strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' || r == '/' || r == ':' })
}

// Wide reports whether guests of different nodes reach each other in the network.
func (n Network) Wide() bool { return n.Kind == NetworkBridged || n.VNI != 0 }

// VXLANPort is the UDP port at which nodes get the frames of overlays (RFC 7348 5).
const VXLANPort = 4789

// VXLANOverhead returns how many bytes a frame of an overlay grows by between nodes: an Ethernet, a VXLAN and a UDP header,
// and the IP header of the family of their addresses.
func VXLANOverhead(node netip.Addr) int {
	if node.Is6() {
		return 14 + 8 + 8 + 40
	}
	return 14 + 8 + 8 + 20
}
