package seedbed

import (
	"encoding/binary"
	"maps"
	"net/netip"
	"slices"
)

// MaxRuleParts is how many parts the rules of a security group have at most, those of both directions, of IPv4 and of IPv6
// together. Each is an element of a set of the kernel.
const MaxRuleParts = 256

// MaxProjectParts is how many parts the rules of all security groups of a project have at most, with those that the ACLs of its
// networks make.
const MaxProjectParts = 32768

// RulePart is what some rules of a direction allow. The parts of a group have no packet in common: the kernel takes no element
// of a set that overlaps another.
type RulePart struct {
	Protocols, Targets Span
	// First and Last are the ends of the addresses at the other end. They are zero for rules that name a group.
	First, Last netip.Addr
}

// PrefixParts returns the parts of those rules of one direction that name no group, for addresses of so many bits.
func PrefixParts(rules []SecurityRule, d Direction, bits int) []RulePart {
	var boxes []box
	for _, r := range rules {
		if r.Direction != d || r.Group != "" {
			continue
		}
		addresses := interval{string(make([]byte, bits/8)), string(slices.Repeat([]byte{0xff}, bits/8))}
		if r.Prefix.IsValid() {
			if r.Prefix.Addr().BitLen() != bits {
				continue
			}
			addresses = interval{string(r.Prefix.Masked().Addr().AsSlice()), string(LastAddr(r.Prefix).AsSlice())}
		}
		boxes = append(boxes, box{ends(r.Protocols()), addresses, ends(r.Targets())})
	}
	return parts(boxes)
}

// GroupParts returns the parts of those rules of one direction that name a group.
func GroupParts(rules []SecurityRule, d Direction, group string) []RulePart {
	var boxes []box
	for _, r := range rules {
		if r.Direction == d && r.Group == group {
			boxes = append(boxes, box{ends(r.Protocols()), {}, ends(r.Targets())})
		}
	}
	return parts(boxes)
}

// RuleParts returns how many parts the rules of a group have.
func RuleParts(rules []SecurityRule) (n int) {
	for _, d := range []Direction{DirectionIn, DirectionOut} {
		n += len(PrefixParts(rules, d, 32)) + len(PrefixParts(rules, d, 128))
		for _, group := range NamedGroups(rules) {
			n += len(GroupParts(rules, d, group))
		}
	}
	return n
}

// CheckParts returns ErrInvalid, which says what would be right, if the rules of the group have too many parts, and more than those
// that it had before.
func (g SecurityGroup) CheckParts(before []SecurityRule) error {
	n := RuleParts(g.Rules)
	if n <= MaxRuleParts || n <= RuleParts(before) {
		return nil
	}
	return Errorf(ErrInvalid, "security group %q: its rules overlap in too many ways: a node needs %d parts for them that do not overlap, "+
		"expected at most %d; name prefixes of which none holds another, or ports that do not overlap, or put some rules into another group",
		Clip(g.Name), n, MaxRuleParts)
}

// CheckACLParts is CheckParts for the groups that the ACLs of the network make. It had those of was before.
func (n Network) CheckACLParts(was Network) error {
	before := map[string][]SecurityRule{}
	for _, g := range was.ACLGroups() {
		before[g.Name] = g.Rules
	}
	for _, g := range n.ACLGroups() {
		if err := g.CheckParts(before[g.Name]); err != nil {
			return err
		}
	}
	return nil
}

// ACLParts returns how many parts the groups have that the ACLs of the network make.
func (n Network) ACLParts() (parts int) {
	for _, g := range n.ACLGroups() {
		parts += RuleParts(g.Rules)
	}
	return parts
}

// NamedGroups returns the groups that rules name, sorted.
func NamedGroups(rules []SecurityRule) []string {
	named := map[string]bool{}
	for _, r := range rules {
		if r.Group != "" {
			named[r.Group] = true
		}
	}
	return slices.Sorted(maps.Keys(named))
}

// box is a range of protocols, one of addresses and one of targets, and so the set of points in it.
type box [3]interval

// interval is a range of big-endian numbers of equal length, both ends included. The empty number, of length 0, is the
// only one of its length.
type interval [2]string

func ends(s Span) interval {
	return interval{string(binary.BigEndian.AppendUint16(nil, s.First)), string(binary.BigEndian.AppendUint16(nil, s.Last))}
}

func (i interval) span() Span {
	return Span{binary.BigEndian.Uint16([]byte(i[0])), binary.BigEndian.Uint16([]byte(i[1]))}
}

func parts(boxes []box) (out []RulePart) {
	for _, b := range split(boxes, 0) {
		part := RulePart{Protocols: b[0].span(), Targets: b[2].span()}
		part.First, _ = netip.AddrFromSlice([]byte(b[1][0]))
		part.Last, _ = netip.AddrFromSlice([]byte(b[1][1]))
		out = append(out, part)
	}
	return out
}

// split returns boxes that have the same points as the given ones together, and none in common, in the dimensions from dim on.
// The intervals of the others are left empty.
func split(boxes []box, dim int) (out []box) {
	if len(boxes) == 0 {
		return nil
	}
	if dim == len(box{}) {
		return []box{{}}
	}
	var parts []box // of the last interval, whose boxes begin at out[at]
	at := 0
	cuts, last := cutsOf(boxes, dim), ""
	for _, b := range boxes {
		last = max(last, b[dim][1])
	}
	for i, from := range cuts {
		to := last
		if i+1 < len(cuts) {
			to = before(cuts[i+1])
		}
		var within []box
		for _, b := range boxes {
			if b[dim][0] <= from && from <= b[dim][1] {
				within = append(within, b)
			}
		}
		next := split(within, dim+1)
		if len(next) > 0 && slices.Equal(next, parts) && out[at][dim][1] == before(from) {
			for j := at; j < len(out); j++ {
				out[j][dim][1] = to
			}
			continue
		}
		parts, at = next, len(out)
		for _, b := range next {
			b[dim] = interval{from, to}
			out = append(out, b)
		}
	}
	return out
}

// cutsOf returns where the boxes that a point is in may change: each first number, and each behind a last one.
func cutsOf(boxes []box, dim int) []string {
	cuts := map[string]bool{}
	for _, b := range boxes {
		cuts[b[dim][0]] = true
		if next, ok := after(b[dim][1]); ok {
			cuts[next] = true
		}
	}
	return slices.Sorted(maps.Keys(cuts))
}

// after returns the next number; ok is false for the last one of its length.
func after(s string) (next string, ok bool) {
	b := []byte(s)
	for i := len(b) - 1; i >= 0; i-- {
		if b[i]++; b[i] != 0 {
			return string(b), true
		}
	}
	return "", false
}

// before returns the number before one that is not 0.
func before(s string) string {
	b := []byte(s)
	for i := len(b) - 1; i >= 0; i-- {
		if b[i]--; b[i] != 0xff {
			break
		}
	}
	return string(b)
}
