package seedbed

import (
	"net/netip"
	"slices"
	"strings"
	"unicode"
)

// NetworkACL is a rule of a network that PVC's client made: what the network's router accepts or drops. Those of a direction are in
// the order in which it asks them.
type NetworkACL struct {
	Direction Direction `json:"direction"`
	// Description is its name, which has no blanks. Rule is its text, of nftables.
	Description string `json:"description"`
	Rule        string `json:"rule"`
	// Accepts is what it accepts, without groups. Drop is set for one that drops everything instead.
	Accepts []SecurityRule `json:"accepts,omitempty"`
	Drop    bool           `json:"drop,omitempty"`
}

// Equal reports whether the ACLs are the same.
func (a NetworkACL) Equal(other NetworkACL) bool {
	return a.Direction == other.Direction && a.Description == other.Description && a.Rule == other.Rule &&
		slices.Equal(a.Accepts, other.Accepts) && a.Drop == other.Drop
}

// decides reports whether no ACL behind it is asked, and whether that is because it drops everything.
func (a NetworkACL) decides() (always, drops bool) {
	everything := SecurityRule{Direction: a.Direction, Protocol: "any"}
	return a.Drop || slices.ContainsFunc(a.Accepts, everything.alike), a.Drop
}

// accepts returns what the ACLs of one direction accept, and whether they drop everything else.
func (n Network) accepts(d Direction) (rules []SecurityRule, drops bool) {
	for _, a := range n.ACLs {
		if a.Direction != d {
			continue
		}
		for _, r := range a.Accepts {
			if !slices.ContainsFunc(rules, r.alike) {
				rules = append(rules, r)
			}
		}
		if always, drops := a.decides(); always {
			return rules, drops
		}
	}
	return rules, false
}

// The names of the groups that a network with ACLs has begin so; the network's name follows. No other group has such a name.
const aclGroup, restGroup = "acl:", "open:"

// NetworkOfGroup returns the network whose ACLs make the group with that name, which may be a qualified one, or empty.
func NetworkOfGroup(name string) string {
	for _, prefix := range []string{aclGroup, restGroup} {
		if network, ok := strings.CutPrefix(ShortName(name), prefix); ok {
			return Qualified(ProjectOf(name), network)
		}
	}
	return ""
}

// ACLGroups returns the security groups that the ACLs of the network make; see GroupsOf. Nobody else changes them. The first allows
// what they accept. The second, if they drop anything, allows what they are not about: packets in a direction without drop, and between
// hosts of the network.
func (n Network) ACLGroups() []SecurityGroup {
	if len(n.ACLs) == 0 {
		return nil
	}
	named := func(prefix, description string) SecurityGroup {
		return SecurityGroup{Name: Qualified(ProjectOf(n.Name), prefix+ShortName(n.Name)), Rules: []SecurityRule{},
			Description: description + " network " + ShortName(n.Name)}
	}
	acl, rest := named(aclGroup, "what is accepted by the ACLs of"), named(restGroup, "in place of open, for the ACLs of")
	dropped := false
	for _, d := range []Direction{DirectionIn, DirectionOut} {
		rules, drops := n.accepts(d)
		acl.Rules, dropped = append(acl.Rules, rules...), dropped || drops
		if !drops {
			rest.Rules = append(rest.Rules, SecurityRule{Direction: d, Protocol: "any"})
			continue
		}
		for _, p := range n.within(d) {
			rest.Rules = append(rest.Rules, SecurityRule{Direction: d, Protocol: "any", Prefix: p, Description: "within the network"})
		}
	}
	if !dropped {
		return []SecurityGroup{acl}
	}
	return []SecurityGroup{acl, rest}
}

// within returns the addresses at the other end of what no router passes on, and no ACL is about.
func (n Network) within(d Direction) (all []netip.Prefix) {
	for _, p := range []netip.Prefix{n.Prefix, n.Prefix6} {
		if p.IsValid() {
			all = append(all, p)
		}
	}
	if d == DirectionIn {
		return append(all, netip.MustParsePrefix("fe80::/10"), netip.MustParsePrefix("0.0.0.0/32"))
	}
	return append(all, netip.MustParsePrefix("fe80::/10"), netip.MustParsePrefix("224.0.0.0/4"),
		netip.MustParsePrefix("255.255.255.255/32"), netip.MustParsePrefix("ff00::/8"))
}

// GroupsOf returns the security groups whose rules decide on what a NIC in the network sends and receives that is in groups. ACLs are
// about NICs for which nobody chose groups: they close what the group "open" opens, and add to the group "default" of the network's
// project.
func (n Network) GroupsOf(groups []string) []string {
	if len(n.ACLs) == 0 {
		return groups
	}
	own := func(group string) string { return Qualified(ProjectOf(n.Name), group) }
	_, in := n.accepts(DirectionIn)
	_, out := n.accepts(DirectionOut)
	switch {
	case Open(groups) && (in || out):
		return []string{own(aclGroup + ShortName(n.Name)), own(restGroup + ShortName(n.Name))}
	case len(groups) == 1 && groups[0] == own(DefaultGroup):
		return []string{groups[0], own(aclGroup + ShortName(n.Name))}
	}
	return groups
}

// MaxACLRule is how many bytes the text of an ACL may have.
const MaxACLRule = maxDescription

// CheckACLs returns ErrInvalid, which says what would be right, unless the ACLs of the network are usable.
func (n Network) CheckACLs() error {
	if len(n.ACLs) > 0 && !n.Kind.Served() {
		return Errorf(ErrInvalid, "network %q is direct, and no node is between its guests and the wire: ACLs are for other kinds", Clip(n.Name))
	}
	for i, a := range n.ACLs {
		switch {
		case a.Direction != DirectionIn && a.Direction != DirectionOut:
			return Errorf(ErrInvalid, "ACL %q: direction %q is unknown: expected in or out", Clip(a.Description), Clip(string(a.Direction)))
		case a.Description == "" || strings.ContainsFunc(a.Description, unicode.IsSpace) || !line(a.Description):
			return Errorf(ErrInvalid, "ACL %q: its description is not one word of at most %d bytes", Clip(a.Description), maxDescription)
		case !line(a.Rule):
			return Errorf(ErrInvalid, "ACL %q: its rule is not one line of at most %d bytes", Clip(a.Description), maxDescription)
		case a.Drop && !n.Addressed():
			return Errorf(ErrInvalid, "ACL %q: network %q knows no addresses of its own, so that a rule which drops would also cut its guests off "+
				"from each other: give them security groups instead", Clip(a.Description), Clip(n.Name))
		case slices.ContainsFunc(n.ACLs[:i], func(o NetworkACL) bool { return o.Description == a.Description }):
			return Errorf(ErrExists, "network %q has an ACL %q already", Clip(n.Name), Clip(a.Description))
		}
	}
	if len(n.ACLs) > MaxSecurityRules {
		return Errorf(ErrInvalid, "network %q has %d ACLs: expected at most %d", Clip(n.Name), len(n.ACLs), MaxSecurityRules)
	}
	for _, g := range n.ACLGroups() {
		if err := g.CheckRules(); err != nil {
			return err
		}
	}
	return nil
}
