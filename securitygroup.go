package seedbed

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// OpenGroup is the built-in security group of each project that allows everything. It has no rules that could be
// changed. A NIC that names no group is in it.
const OpenGroup = "open"

// DefaultGroup is the security group that each project has from its start. It allows everything out, and in what
// members of the group send.
const DefaultGroup = "default"

// The bounds of security groups.
const (
	// MaxSecurityRules is how many rules a group has at most.
	MaxSecurityRules = 60
	// MaxSecurityGroups is how many groups a NIC is in at most.
	MaxSecurityGroups = 5
	// MaxProjectGroups is how many groups a project has at most.
	MaxProjectGroups = 500
)

// SecurityGroup is a named list of rules that say what its members, which are NICs, may send and receive. What no rule
// of a NIC's groups allows is dropped, but for answers to what was allowed.
type SecurityGroup struct {
	Name string `json:"name"`
	// Description is one line for people.
	Description string         `json:"description,omitempty"`
	Rules       []SecurityRule `json:"rules"`
	Created     time.Time      `json:"created,omitzero"`
}

// Direction says which packets a rule is about, as the member sees them.
type Direction string

// The directions.
const (
	DirectionIn  Direction = "in"
	DirectionOut Direction = "out"
)

// SecurityRule allows packets.
type SecurityRule struct {
	Direction Direction `json:"direction"`
	// Protocol is "any", "tcp", "udp", "icmp", "icmp6", or the number of another one.
	Protocol string `json:"protocol"`
	// Ports are the destination ports, of tcp and udp only: "443" or "8000-8100". Empty means all.
	Ports string `json:"ports,omitempty"`
	// ICMP is the type of icmp and icmp6, or type and code: "8" or "3/4". Empty means all.
	ICMP string `json:"icmp,omitempty"`
	// Prefix holds the addresses at the other end. Group names a security group instead, whose members' NICs on the same
	// network are meant. Without either, any address is.
	Prefix netip.Prefix `json:"prefix,omitzero"`
	Group  string       `json:"group,omitempty"`
	// Description is one line for people.
	Description string `json:"description,omitempty"`
}

// ID returns the name of the rule in its group, which depends on what it allows alone.
func (r SecurityRule) ID() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s %s %s %s %s", r.Direction, r.Protocol, r.Ports, r.ICMP, r.Prefix, r.Group))
	return "sgr-" + hex.EncodeToString(sum[:])[:17]
}

// alike reports whether both rules allow the same, and so have the same ID.
func (r SecurityRule) alike(other SecurityRule) bool {
	r.Description, other.Description = "", ""
	return r == other
}

// Open reports whether some of the groups that a NIC is in is the one that allows everything.
func Open(groups []string) bool {
	return len(groups) == 0 || slices.ContainsFunc(groups, func(g string) bool { return ShortName(g) == OpenGroup })
}

// CheckGroupNames returns ErrInvalid unless the names can be those of the groups of a NIC, without the project.
func CheckGroupNames(names []string) error {
	if len(names) > MaxSecurityGroups {
		return Errorf(ErrInvalid, "there are %d security groups: expected at most %d", len(names), MaxSecurityGroups)
	}
	for i, name := range names {
		if err := CheckName("security group", name); err != nil {
			return err
		}
		if slices.Contains(names[:i], name) {
			return Errorf(ErrInvalid, "security group %q is named twice", name)
		}
	}
	return nil
}

// DefaultRules returns the rules with which the group "default" of a project begins. group is its qualified name.
func DefaultRules(group string) []SecurityRule {
	return []SecurityRule{
		{Direction: DirectionIn, Protocol: "any", Group: group},
		{Direction: DirectionOut, Protocol: "any"},
	}
}

// OpenRules returns the group "open" of a project. name is its qualified name.
func OpenRules(name string) SecurityGroup {
	return SecurityGroup{Name: name, Description: "built in: it allows everything, and does not change",
		Rules: []SecurityRule{{Direction: DirectionIn, Protocol: "any"}, {Direction: DirectionOut, Protocol: "any"}}}
}

// The protocols with a name (IANA's protocol numbers).
var protocolNumbers = map[string]uint8{"icmp": 1, "tcp": 6, "udp": 17, "icmp6": 58}

// Span is a range of numbers, both ends included.
type Span struct{ First, Last uint16 }

// AllProtocols and AllPorts are the widest ranges of a rule.
var (
	AllProtocols = Span{0, 255}
	AllPorts     = Span{0, 65535}
)

// Protocols returns the protocol numbers that the rule allows.
func (r SecurityRule) Protocols() Span {
	if r.Protocol == "any" {
		return AllProtocols
	}
	n, ok := protocolNumbers[r.Protocol]
	if !ok {
		v, _ := strconv.ParseUint(r.Protocol, 10, 8)
		n = uint8(v)
	}
	return Span{uint16(n), uint16(n)}
}

// Targets returns the destination ports that the rule allows or, for ICMP, the types and codes: the type in the upper
// byte. It is AllPorts for other protocols.
func (r SecurityRule) Targets() Span {
	switch {
	case r.Ports != "":
		first, last, _ := parsePorts(r.Ports)
		return Span{first, last}
	case r.ICMP != "":
		typ, code, _ := parseICMP(r.ICMP)
		if code < 0 {
			return Span{uint16(typ) << 8, uint16(typ)<<8 | 0xff}
		}
		return Span{uint16(typ)<<8 | uint16(code), uint16(typ)<<8 | uint16(code)}
	}
	return AllPorts
}

func parsePorts(s string) (first, last uint16, ok bool) {
	from, to, ranged := strings.Cut(s, "-")
	if !ranged {
		to = from
	}
	a, err := strconv.ParseUint(from, 10, 16)
	b, err2 := strconv.ParseUint(to, 10, 16)
	return uint16(a), uint16(b), err == nil && err2 == nil && a <= b && s == Span{uint16(a), uint16(b)}.String()
}

// String returns the range as a rule has it: one number, or two with a dash.
func (s Span) String() string {
	if s.First == s.Last {
		return strconv.Itoa(int(s.First))
	}
	return fmt.Sprintf("%d-%d", s.First, s.Last)
}

// parseICMP returns a type and a code; the code is -1 if there is none.
func parseICMP(s string) (typ, code int, ok bool) {
	t, c, coded := strings.Cut(s, "/")
	a, err := strconv.ParseUint(t, 10, 8)
	if err != nil || !coded {
		return int(a), -1, err == nil && strconv.FormatUint(a, 10) == s
	}
	b, err := strconv.ParseUint(c, 10, 8)
	return int(a), int(b), err == nil && fmt.Sprintf("%d/%d", a, b) == s
}

// String returns the rule in one line: "in tcp 443 from 10.0.0.0/8".
func (r SecurityRule) String() string {
	words := []string{string(r.Direction), r.Protocol}
	if what := cmp.Or(r.Ports, r.ICMP); what != "" {
		words = append(words, what)
	}
	word := "from"
	if r.Direction == DirectionOut {
		word = "to"
	}
	return strings.Join(append(words, word, r.Peer()), " ") // without the description: it is no part of what the rule allows
}

// ParseSecurityRule parses a rule as String writes it. "from any" and "to any" may be left out. What follows a "#" is its
// description.
func ParseSecurityRule(s string) (r SecurityRule, err error) {
	bad := Errorf(ErrInvalid, "rule %q: expected in or out, a protocol, and optionally ports or an ICMP type, and from or to "+
		"with a prefix or a group, such as %q or %q", Clip(s), "in tcp 443 from 10.0.0.0/8", "in tcp 5432 from group app")
	text, note, _ := strings.Cut(s, "#")
	r.Description = strings.TrimSpace(note)
	words := strings.Fields(text)
	if len(words) < 2 {
		return r, bad
	}
	r.Direction, r.Protocol, words = Direction(words[0]), words[1], words[2:]
	link := "from"
	if r.Direction == DirectionOut {
		link = "to"
	}
	if len(words) > 0 && words[0] != link {
		if r.Protocol == "icmp" || r.Protocol == "icmp6" {
			r.ICMP = words[0]
		} else {
			r.Ports = words[0]
		}
		words = words[1:]
	}
	switch {
	case len(words) == 0 || len(words) == 2 && words[0] == link && words[1] == "any":
	case len(words) == 3 && words[0] == link && words[1] == "group":
		r.Group = words[2]
	case len(words) == 2 && words[0] == link:
		if r.Prefix, err = parsePeer(words[1]); err != nil {
			return r, bad
		}
	default:
		return r, bad
	}
	return r, r.check()
}

// parsePeer parses a prefix, or an address as the prefix of it alone.
func parsePeer(s string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(s); err == nil {
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	return netip.ParsePrefix(s)
}

// Peer returns the other end of the rule: a prefix, "group NAME" or "any".
func (r SecurityRule) Peer() string {
	switch {
	case r.Group != "":
		return "group " + r.Group
	case r.Prefix.IsValid():
		return r.Prefix.String()
	}
	return "any"
}

// Check returns ErrInvalid, which says what would be right, unless the group is usable. Its name may be a qualified one.
func (g SecurityGroup) Check() error {
	if err := CheckName("security group", ShortName(g.Name)); err != nil {
		return err
	}
	bad := func(format string, args ...any) error {
		return Errorf(ErrInvalid, "security group %q: "+format, append([]any{Clip(g.Name)}, args...)...)
	}
	if ShortName(g.Name) == OpenGroup {
		return bad("that is the built-in group, which allows everything and does not change: choose another name")
	}
	return g.CheckRules()
}

// CheckRules is Check without the name. Neither is about the parts of the rules: a group that is older than their bound goes on working,
// see CheckParts.
func (g SecurityGroup) CheckRules() error {
	bad := func(format string, args ...any) error {
		return Errorf(ErrInvalid, "security group %q: "+format, append([]any{Clip(g.Name)}, args...)...)
	}
	switch {
	case !line(g.Description):
		return bad("its description is not one line of at most %d bytes", maxDescription)
	case len(g.Rules) > MaxSecurityRules:
		return bad("it has %d rules: expected at most %d; put some into another group", len(g.Rules), MaxSecurityRules)
	}
	for i, r := range g.Rules {
		if err := r.check(); err != nil {
			return bad("rule %d (%s): %v", i+1, Clip(r.String()), err)
		}
		if slices.ContainsFunc(g.Rules[:i], r.alike) {
			return Errorf(ErrExists, "security group %q has the rule %q already", Clip(g.Name), r)
		}
	}
	return nil
}

// line reports whether s can be a description: one line of text that is not too long.
func line(s string) bool {
	return len(s) <= maxDescription && utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}

func (r SecurityRule) check() error {
	number, err := strconv.ParseUint(r.Protocol, 10, 8)
	_, named := protocolNumbers[r.Protocol]
	byNumber := err == nil && strconv.FormatUint(number, 10) == r.Protocol
	for name, n := range protocolNumbers {
		if byNumber && uint8(number) == n {
			return Errorf(ErrInvalid, "protocol %d has a name: expected %s", n, name)
		}
	}
	isICMP := r.Protocol == "icmp" || r.Protocol == "icmp6"
	switch {
	case r.Direction != DirectionIn && r.Direction != DirectionOut:
		return Errorf(ErrInvalid, "direction %q is unknown: expected in or out", Clip(string(r.Direction)))
	case !named && !byNumber && r.Protocol != "any":
		return Errorf(ErrInvalid, "protocol %q is unknown: expected any, tcp, udp, icmp, icmp6 or a number up to 255", Clip(r.Protocol))
	case r.Ports != "" && r.Protocol != "tcp" && r.Protocol != "udp":
		return Errorf(ErrInvalid, "protocol %s has no ports: expected them with tcp or udp only", r.Protocol)
	case r.ICMP != "" && !isICMP:
		return Errorf(ErrInvalid, "protocol %s has no ICMP type: expected it with icmp or icmp6 only", r.Protocol)
	case r.Group != "" && r.Prefix.IsValid():
		return Errorf(ErrInvalid, "both a prefix and a group: expected one of them")
	case r.Prefix.IsValid() && r.Prefix != r.Prefix.Masked():
		return Errorf(ErrInvalid, "%s has bits behind the prefix: expected %s", r.Prefix, r.Prefix.Masked())
	case r.Prefix.IsValid() && r.Prefix.Addr().Is4In6():
		return Errorf(ErrInvalid, "%s is an IPv4 address in the form of IPv6: write it as IPv4", r.Prefix)
	case r.Prefix.IsValid() && isICMP && r.Prefix.Addr().Is4() != (r.Protocol == "icmp"):
		return Errorf(ErrInvalid, "protocol %s does not reach %s: expected icmp with IPv4, and icmp6 with IPv6", r.Protocol, r.Prefix)
	case !line(r.Description):
		return Errorf(ErrInvalid, "its description is not one line of at most %d bytes", maxDescription)
	}
	if _, _, ok := parsePorts(r.Ports); r.Ports != "" && !ok {
		return Errorf(ErrInvalid, "ports %q: expected a port such as 443, or a range such as 8000-8100", Clip(r.Ports))
	}
	if _, _, ok := parseICMP(r.ICMP); r.ICMP != "" && !ok {
		return Errorf(ErrInvalid, "ICMP %q: expected a type such as 8, or type and code such as 3/4", Clip(r.ICMP))
	}
	return nil
}
