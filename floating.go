package seedbed

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// AddrRange is a range of addresses of one version of IP, both ends included. Its text form is "10.9.0.10-10.9.0.99", or one address;
// of IPv6 addresses that are those of a prefix, it is the prefix.
type AddrRange struct{ First, Last netip.Addr }

// ParseAddrRange parses the text form of an AddrRange, or any prefix of addresses. Any other text is ErrInvalid.
func ParseAddrRange(s string) (AddrRange, error) {
	if strings.Contains(s, "/") {
		p, err := netip.ParsePrefix(strings.TrimSpace(s))
		switch {
		case err != nil || p.Addr().Is4In6():
			return AddrRange{}, noRange(s)
		case p != p.Masked():
			return AddrRange{}, Errorf(ErrInvalid, "%q is not a prefix, since bits of a host are set in it: expected %s", Clip(s), p.Masked())
		}
		return AddrRange{p.Addr(), LastAddr(p)}, nil
	}
	from, to, two := strings.Cut(s, "-")
	if !two {
		to = from
	}
	first, err1 := netip.ParseAddr(strings.TrimSpace(from))
	last, err2 := netip.ParseAddr(strings.TrimSpace(to))
	if err1 != nil || err2 != nil || first.Is4In6() || first.Zone() != "" || first.BitLen() != last.BitLen() || last.Zone() != "" ||
		last.Less(first) {
		return AddrRange{}, noRange(s)
	}
	return AddrRange{first, last}, nil
}

// AddressCount counts the IPv4 addresses of a network: those that NICs have, and those that are left for NICs that do not ask for one.
type AddressCount struct {
	Used int64 `json:"used"`
	Free int64 `json:"free"`
}

// CountAddresses counts the addresses of the network. taken are those that NICs have. It returns nil for a network that gives its NICs
// no IPv4 addresses.
func (n Network) CountAddresses(taken map[netip.Addr]bool) *AddressCount {
	if !n.Prefix.IsValid() {
		return nil
	}
	use := &AddressCount{Free: n.assignable()}
	for a := range taken {
		if a.Is4() {
			use.Used++
		}
		if n.NextAddr(a) == a {
			use.Free--
		}
	}
	return use
}

// assignable returns how many addresses NICs may get that do not ask for one: those for which NextAddr returns the same address.
func (n Network) assignable() (size int64) {
	out := slices.DeleteFunc(slices.Clone(n.Kept), func(r AddrRange) bool { return r.First.Is6() })
	if n.Gateway.IsValid() {
		out = append(out, AddrRange{n.Gateway, n.Gateway})
	}
	for _, r := range n.Reservations {
		if r.Addr.Is4() {
			out = append(out, AddrRange{r.Addr, r.Addr})
		}
	}
	slices.SortFunc(out, func(a, b AddrRange) int { return a.First.Compare(b.First) })
	within := n.assigned()
	next, last := number4(within.First), number4(within.Last)
	for _, r := range out {
		size += max(0, min(number4(r.First), last+1)-next)
		next = max(next, number4(r.Last)+1)
	}
	return size + max(0, last+1-next)
}

// number4 returns an IPv4 address as a number.
func number4(a netip.Addr) int64 {
	b := a.As4()
	return int64(binary.BigEndian.Uint32(b[:]))
}

func noRange(s string) error {
	return Errorf(ErrInvalid, "%q is not a range of addresses: expected one address, two as in 10.9.0.10-10.9.0.99, "+
		"or a prefix as in 10.9.0.16/28", Clip(s))
}

// String returns the text form; of the zero AddrRange, the empty string.
func (r AddrRange) String() string {
	switch {
	case !r.First.IsValid():
		return ""
	case r.First == r.Last:
		return r.First.String()
	}
	for bits := 0; r.First.Is6() && bits < r.First.BitLen(); bits++ {
		if p := netip.PrefixFrom(r.First, bits); p == p.Masked() && LastAddr(p) == r.Last {
			return p.String()
		}
	}
	return r.First.String() + "-" + r.Last.String()
}

// MarshalText implements encoding.TextMarshaler.
func (r AddrRange) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler. Empty text is the zero AddrRange.
func (r *AddrRange) UnmarshalText(b []byte) (err error) {
	*r = AddrRange{}
	if len(b) > 0 {
		*r, err = ParseAddrRange(string(b))
	}
	return err
}

// Contains reports whether a is in the range.
func (r AddrRange) Contains(a netip.Addr) bool {
	return r.First.IsValid() && !a.Less(r.First) && !r.Last.Less(a)
}

// Overlaps reports whether both ranges have an address in common. Neither is the zero AddrRange.
func (r AddrRange) Overlaps(other AddrRange) bool {
	return !r.Last.Less(other.First) && !other.Last.Less(r.First)
}

// Host reports whether a is an address of a host in the network: neither the first nor the last of its
// prefix.
func (n Network) Host(a netip.Addr) bool {
	return n.Prefix.Contains(a) && a != n.Prefix.Masked().Addr() && a != LastAddr(n.Prefix)
}

// Takes returns ErrInvalid unless a NIC may ask for the address.
func (n Network) Takes(a netip.Addr) error {
	if !n.Prefix.IsValid() {
		return Errorf(ErrInvalid, "address %s cannot be asked for in network %q, %s: leave it out", a, n.Name, n.Without4())
	}
	if a == n.Gateway || !n.Host(a) {
		but := "its first and its last"
		if n.Gateway.IsValid() {
			but = "its first, its last and the gateway " + n.Gateway.String()
		}
		return Errorf(ErrInvalid, "address %s cannot be a guest's in network %q: expected one of %s but %s", a, n.Name, n.Prefix, but)
	}
	if i := slices.IndexFunc(n.Kept, func(r AddrRange) bool { return r.Contains(a) }); i >= 0 {
		return Errorf(ErrInvalid, "address %s cannot be a guest's in network %q, which keeps out %s", a, n.Name, n.Kept[i])
	}
	return nil
}

// NextAddr returns the lowest address from a on that NICs get which do not ask for one. It returns the zero
// Addr if there is none.
func (n Network) NextAddr(a netip.Addr) netip.Addr {
	within := n.assigned()
	if !a.IsValid() || a.Less(within.First) {
		a = within.First
	}
	for within.Contains(a) {
		i := slices.IndexFunc(n.Kept, func(r AddrRange) bool { return r.Contains(a) })
		switch {
		case i >= 0:
			a = n.Kept[i].Last.Next()
		case a == n.Gateway || n.Reserves(a):
			a = a.Next()
		default:
			return a
		}
	}
	return netip.Addr{}
}

// maxRange6Bits is the length of a prefix whose addresses end in a MAC address.
const maxRange6Bits = 128 - 48

// checkRange6 checks what says which IPv6 addresses the nodes and the NICs have.
func (n Network) checkRange6(bad complaint) error {
	r, g := n.Range6, n.Router6
	if g.IsValid() {
		switch whose := n.special6(g); {
		case n.Kind.OnWire():
			return bad("IPv6 gateway %s: expected none for a %s network, whose routers advertise themselves", g, n.Kind)
		case !n.Prefix6.Contains(g):
			return bad("IPv6 gateway %s is not an address of the IPv6 prefix: %s", g, n.expected6())
		case whose != "":
			return bad("IPv6 gateway %s is %s: expected another address of %s", g, whose, n.Prefix6)
		}
	}
	switch {
	case r == netip.Prefix{}:
	case !r.IsValid() || r != r.Masked() || !n.Prefix6.Contains(r.Addr()) || r.Bits() <= prefix6Bits || r.Bits() > maxRange6Bits:
		return bad("IPv6 range %s is not usable: expected a prefix of /%d to /%d within the IPv6 prefix, such as fd12:3456:789a:1:d::/%[3]d, "+
			"since addresses end in the MAC address of the NIC", r, prefix6Bits+1, maxRange6Bits)
	case n.SLAAC:
		return bad("IPv6 range %s: guests that choose their addresses (slaac) do not know it: expected none, or DHCPv6", r)
	case r.Contains(n.NodeAddr6()):
		return bad("IPv6 range %s has the address %s of the nodes: expected another range, or another gateway6", r, n.NodeAddr6())
	}
	return nil
}

// checkRoute6 checks a route of IPv6. A router advertises only routes by itself (RFC 4191).
func (n Network) checkRoute6(r NetworkRoute, bad complaint) error {
	by := "which it does not have"
	if g := n.Gateway6(); g.IsValid() {
		by = g.String()
	}
	if !r.Prefix.IsValid() || r.Prefix != r.Prefix.Masked() || r.Prefix.Addr().Is4In6() || r.Prefix.Bits() == 0 || !n.Kind.Outside() ||
		!n.Prefix6.IsValid() || r.Via != n.Gateway6() {
		return bad("route %s via %s: over IPv6, the nodes advertise routes by themselves: expected a prefix such as 2001:db8:5::/48, via the "+
			"IPv6 gateway of a network of the kind nat or routed (%s)", r.Prefix, r.Via, by)
	}
	return nil
}

// keeps6 reports whether an IPv6 address is kept out.
func (n Network) keeps6(a netip.Addr) bool {
	return slices.ContainsFunc(n.Kept, func(r AddrRange) bool { return r.Contains(a) })
}

// Admits returns ErrInvalid if the first IPv6 address of a NIC with a MAC address is kept out.
func (n Network) Admits(m MAC) error {
	a := n.Addr6(m)
	if !a.IsValid() || !n.keeps6(a) {
		return nil
	}
	return Errorf(ErrInvalid, "a NIC with the MAC address %s would have the IPv6 address %s in network %q, which is kept out: give it "+
		"another MAC address, or the network an IPv6 range (seedbed network set %s --range6 PREFIX)", m, a, n.Name, ShortName(n.Name))
}

// assigned returns the range of the addresses that NICs get which do not ask for one.
func (n Network) assigned() AddrRange {
	if n.Range.First.IsValid() {
		return n.Range
	}
	return AddrRange{n.Prefix.Masked().Addr().Next(), LastAddr(n.Prefix).Prev()}
}

// FloatingAddress is an address that a network lends and that a project has allocated.
type FloatingAddress struct {
	Addr netip.Addr `json:"addr"`
	// Network is the qualified name of the network that lends it.
	Network string `json:"network"`
	Project string `json:"project"`
	// Instance is the full name of the instance that has it, and NIC the index of its NIC; empty if none has.
	Instance string `json:"instance,omitempty"`
	NIC      int    `json:"nic,omitempty"`
	// Description is one line for people.
	Description string    `json:"description,omitempty"`
	Created     time.Time `json:"created"`
}

// FloatingState is whether a floating address is in use.
type FloatingState string

// The states of floating addresses.
const (
	FloatingFree       FloatingState = "free"       // no NIC has it
	FloatingAssociated FloatingState = "associated" // a NIC has it
)

// FloatingStates returns the states of floating addresses.
func FloatingStates() []FloatingState { return []FloatingState{FloatingFree, FloatingAssociated} }

// State returns the state of the address.
func (a FloatingAddress) State() FloatingState {
	if a.Instance == "" {
		return FloatingFree
	}
	return FloatingAssociated
}

// Check returns ErrInvalid unless its description is usable.
func (a FloatingAddress) Check() error {
	if !line(a.Description) {
		return Errorf(ErrInvalid, "the description of a floating address is not one line of at most %d bytes", maxDescription)
	}
	return nil
}

// MaxProjectFloating is how many floating addresses a project may have.
const MaxProjectFloating = 256

// Lends reports whether an address is one of those that the network lends.
func (n Network) Lends(a netip.Addr) bool {
	return slices.ContainsFunc(n.Floating, func(r AddrRange) bool { return r.Contains(a) })
}

// LendsOnly6 reports whether all addresses that the network lends are of IPv6.
func (n Network) LendsOnly6() bool {
	return len(n.Floating) > 0 && !slices.ContainsFunc(n.Floating, func(r AddrRange) bool { return r.First.Is4() })
}

// FloatingOf returns the floating address of the NIC of the version of IP that a is of, to be read or set.
func (n *NIC) FloatingOf(a netip.Addr) *netip.Addr {
	if a.Is6() {
		return &n.Floating6
	}
	return &n.Floating
}

// FloatingOverlaps reports whether the networks lend the same address, or one of them an address of the other's guests.
func (n Network) FloatingOverlaps(other Network) bool {
	lends := func(a, b Network) bool {
		return slices.ContainsFunc(a.Floating, func(r AddrRange) bool {
			return b.ReachesOthers() && b.has(r) || slices.ContainsFunc(b.Floating, r.Overlaps)
		})
	}
	return lends(n, other) || lends(other, n)
}

// has reports whether an address of the range is in a prefix of the network.
func (n Network) has(r AddrRange) bool {
	for _, p := range []netip.Prefix{n.Prefix, n.Prefix6} {
		if p.IsValid() && r.Overlaps(AddrRange{p.Masked().Addr(), LastAddr(p)}) {
			return true
		}
	}
	return false
}

// The bounds of the addresses that a network lends: of IPv4 ones in a range.
const (
	maxFloatingRanges = 16
	maxFloating       = 1 << 16
)

// checkFloating checks the addresses that the network lends.
func (n Network) checkFloating(bad complaint) error {
	switch {
	case len(n.Floating) == 0 && n.FloatingUplink == "":
		return nil
	case !n.Kind.Outside():
		return bad("floating addresses need a network of kind nat or routed: it is %s", n.Kind)
	case len(n.Floating) == 0 || n.FloatingUplink == "":
		return bad("floating addresses and floating uplink belong together: expected both or none")
	case !ValidInterface(n.FloatingUplink) || n.FloatingUplink == n.Bridge:
		return bad("floating uplink %q is not an interface of the nodes: "+
			"expected the name of one, of 1 to %d characters without blanks, '/' or ':'",
			Clip(n.FloatingUplink), ifnameSize)
	case len(n.Floating) > maxFloatingRanges:
		return bad("%d ranges of floating addresses: expected at most %d", len(n.Floating), maxFloatingRanges)
	}
	for i, r := range n.Floating {
		switch {
		case !r.First.IsValid():
			return bad("a range of floating addresses is empty: expected an address, a range or a prefix")
		case r.First.Is4() && !n.Prefix.IsValid():
			return bad("floating addresses %s are of IPv4, which its guests do not have: expected IPv6 ones", r)
		case r.First.Is6() && !n.Prefix6.IsValid():
			return bad("floating addresses %s are of IPv6, which its guests do not have: give it an IPv6 prefix (prefix6) as well", r)
		case r.First.Is4() && int64(addrNumber(r.Last))-int64(addrNumber(r.First)) >= maxFloating:
			return bad("floating addresses %s are %d: expected at most %d in a range", r,
				int64(addrNumber(r.Last))-int64(addrNumber(r.First))+1, maxFloating)
		case r.First.Is4() && (special(netip.PrefixFrom(r.First, 32)) || special(netip.PrefixFrom(r.Last, 32))):
			return bad("floating addresses %s are not usable: expected none that are loopback, link-local, multicast or reserved", r)
		case r.First.Is6() && special6(r):
			return bad("floating addresses %s are not usable: expected none in %s", r, strings.Join(specials6, ", "))
		case n.has(r):
			return bad("floating addresses %s are in its prefix %s: expected addresses of the network behind the uplink", r, n.prefixOf(r.First))
		case slices.ContainsFunc(n.Floating[:i], r.Overlaps):
			return bad("floating addresses %s are there twice", r)
		}
	}
	return nil
}

// prefixOf returns the prefix of the network of the version of IP that a is of.
func (n Network) prefixOf(a netip.Addr) netip.Prefix {
	if a.Is6() {
		return n.Prefix6
	}
	return n.Prefix
}

// specials6 are prefixes of IPv6 addresses of another meaning than those of hosts that others reach.
var specials6 = []string{"::/8", "fe80::/10", "fec0::/10", "ff00::/8", "fd00:ec2::/64"}

func special6(r AddrRange) bool {
	return slices.ContainsFunc(specials6, func(s string) bool {
		p := netip.MustParsePrefix(s)
		return r.Overlaps(AddrRange{p.Addr(), LastAddr(p)})
	})
}

func addrNumber(a netip.Addr) uint32 {
	b := a.As4()
	return binary.BigEndian.Uint32(b[:])
}
