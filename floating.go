package seedbed

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// AddrRange is a range of IPv4 addresses, both ends included. Its text form is "10.9.0.10-10.9.0.99", or
// one address.
type AddrRange struct{ First, Last netip.Addr }

// ParseAddrRange parses the text form of an AddrRange. Any other text is ErrInvalid.
func ParseAddrRange(s string) (AddrRange, error) {
	from, to, two := strings.Cut(s, "-")
	if !two {
		to = from
	}
	first, err1 := netip.ParseAddr(strings.TrimSpace(from))
	last, err2 := netip.ParseAddr(strings.TrimSpace(to))
	if err1 != nil || err2 != nil || !first.Is4() || !last.Is4() || last.Less(first) {
		return AddrRange{}, Errorf(ErrInvalid,
			"%q is not a range of addresses: expected one IPv4 address, or two as in 10.9.0.10-10.9.0.99", Clip(s))
	}
	return AddrRange{first, last}, nil
}

// String returns the text form; of the zero AddrRange, the empty string.
func (r AddrRange) String() string {
	switch {
	case !r.First.IsValid():
		return ""
	case r.First == r.Last:
		return r.First.String()
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

// FloatingOverlaps reports whether the networks lend the same address, or one of them an address of the other's guests.
func (n Network) FloatingOverlaps(other Network) bool {
	lends := func(a, b Network) bool {
		return slices.ContainsFunc(a.Floating, func(r AddrRange) bool {
			return b.ReachesOthers() && b.Prefix.IsValid() && r.Overlaps(b.addrs()) || slices.ContainsFunc(b.Floating, r.Overlaps)
		})
	}
	return lends(n, other) || lends(other, n)
}

// addrs returns the addresses of the network's prefix.
func (n Network) addrs() AddrRange { return AddrRange{n.Prefix.Masked().Addr(), LastAddr(n.Prefix)} }

// The bounds of the addresses that a network lends.
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
		size := int64(addrNumber(r.Last)) - int64(addrNumber(r.First)) + 1
		switch {
		case size > maxFloating:
			return bad("floating addresses %s are %d: expected at most %d in a range", r, size, maxFloating)
		case special(netip.PrefixFrom(r.First, 32)) || special(netip.PrefixFrom(r.Last, 32)):
			return bad("floating addresses %s are not usable: expected none that are loopback, link-local, multicast or reserved", r)
		case r.Overlaps(n.addrs()):
			return bad("floating addresses %s are in its prefix %s: expected addresses of the network behind the uplink", r, n.Prefix)
		case slices.ContainsFunc(n.Floating[:i], r.Overlaps):
			return bad("floating addresses %s are there twice", r)
		}
	}
	return nil
}

func addrNumber(a netip.Addr) uint32 {
	b := a.As4()
	return binary.BigEndian.Uint32(b[:])
}
