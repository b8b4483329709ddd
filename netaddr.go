package seedbed

import (
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
	"strings"
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

// LastAddr returns the last address of a prefix.
func LastAddr(p netip.Prefix) netip.Addr {
	a := p.Masked().Addr().AsSlice()
	for bit := p.Bits(); bit < 8*len(a); bit++ {
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

// ValidInterface reports whether s can be the name of a network interface. It is the kernel's dev_valid_name (net/core/dev.c), in ASCII.
func ValidInterface(s string) bool {
	return s != "" && len(s) <= ifnameSize && s != "." && s != ".." &&
		!strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' || r == '/' || r == ':' })
}
