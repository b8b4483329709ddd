package netcfg

import (
	"bytes"
	"cmp"
	"fmt"
	"hash/fnv"
	"iter"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"seedbed"
)

// groups is what a plan knows of security groups. Each group has a number, and so has each list of groups that some
// port is in, its class. Numbers are never 0, and depend on names alone unless two have the same hash, so that they
// outlive a change.
type groups struct {
	rules   map[string][]seedbed.SecurityRule // by group
	numbers map[string]uint32
	classes map[string]uint32   // by their groups, joined
	members map[uint32][]string // the groups of classes
	taken   map[uint32]bool     // numbers of classes
	ports   map[uint32]bool     // the classes that ports have, and not peers alone
	// wrong are groups that this program does not understand, and why; they allow nothing. A newer control host may have
	// them.
	wrong []error
	parts map[string]int // of the rules of those groups that were in use, which the copies of a plan share
	// sum is what digest returns, and used what inUse does, once they were computed.
	sum  string
	used []string
	// over are the groups in use that the node has no room for, see [fit].
	over []string
}

// MaxNodeParts is how many parts the rules have that are in force on a node. Each packet of a new flow is compared with all of
// them, so that more would slow down all guests of the node.
const MaxNodeParts = 4 * seedbed.MaxProjectParts

func newGroups(all []seedbed.SecurityGroup, networks []seedbed.Network) groups {
	g := groups{rules: map[string][]seedbed.SecurityRule{}, numbers: map[string]uint32{},
		classes: map[string]uint32{}, members: map[uint32][]string{}, taken: map[uint32]bool{0: true},
		ports: map[uint32]bool{}, parts: map[string]int{}}
	for _, group := range all {
		if err := group.Check(); err != nil {
			g.wrong = append(g.wrong, err)
			continue
		}
		g.rules[group.Name] = group.Rules
	}
	for _, n := range networks {
		for _, group := range n.ACLGroups() {
			if err := group.CheckRules(); err != nil {
				g.wrong = append(g.wrong, err)
				continue
			}
			g.rules[group.Name] = group.Rules
		}
	}
	taken := map[uint32]bool{0: true}
	for _, name := range slices.Sorted(maps.Keys(g.rules)) {
		g.numbers[name] = numbered(name, taken)
	}
	return g
}

func numbered(name string, taken map[uint32]bool) uint32 {
	h := fnv.New32a()
	h.Write([]byte(name))
	n := h.Sum32()
	for taken[n] {
		n++
	}
	taken[n] = true
	return n
}

// class returns the number of a list of groups; 0 for none. A class whose groups are all unknown allows nothing.
func (g *groups) class(names []string) uint32 {
	if len(names) == 0 {
		return 0
	}
	names = slices.Sorted(slices.Values(names))
	key := strings.Join(names, " ")
	if n, ok := g.classes[key]; ok {
		return n
	}
	n := numbered(key, g.taken)
	g.classes[key], g.members[n], g.sum, g.used = n, names, "", nil
	return n
}

// portClass is class for the groups of a port.
func (g *groups) portClass(names []string) uint32 {
	n := g.class(names)
	if n != 0 && !g.ports[n] {
		g.ports[n], g.sum, g.used = true, "", nil
	}
	return n
}

// of returns groups with the classes of some ports and peers alone, to which others can be added.
func (g *groups) of(ports []port, peers []peer) groups {
	out := *g
	out.classes, out.members, out.taken, out.sum = map[string]uint32{}, map[uint32][]string{}, map[uint32]bool{0: true}, ""
	out.used, out.over = nil, nil
	out.ports = map[uint32]bool{}
	add := func(class uint32) {
		if out.taken[class] {
			return
		}
		names := g.members[class]
		out.classes[strings.Join(names, " ")], out.members[class], out.taken[class] = class, names, true
	}
	for i := range ports {
		if class := ports[i].class; class != 0 {
			add(class)
			out.ports[class] = true
		}
	}
	for i := range peers {
		add(peers[i].class)
	}
	return out
}

// peer is the compact form of a Peer in a plan.
type peer struct {
	mac        seedbed.MAC
	class      uint32 // of its security groups; 0 for none
	bridge     string
	addr, node netip.Addr
	further    string // its secondary addresses, packed
}

func byMAC(a, b peer) int { return bytes.Compare(a.mac[:], b.mac[:]) }

// newPeers returns those peers that matter: all in an overlay, and the members of groups in a bridged network, in the order
// of their MACs. It adds their classes to groups.
func newPeers(peers iter.Seq[Peer], networks []seedbed.Network, groups *groups) (out []peer) {
	if peers == nil {
		return nil
	}
	wide, overlay := map[string]bool{}, map[string]bool{}
	for _, n := range networks {
		wide[n.Bridge], overlay[n.Bridge] = n.Wide(), n.VNI != 0
	}
	for p := range peers {
		grouped := len(p.Groups) > 0 && len(p.Groups) <= seedbed.MaxSecurityGroups
		if !wide[p.Bridge] || !unicast(p.MAC) || !grouped && !overlay[p.Bridge] {
			continue
		}
		one := peer{mac: p.MAC, bridge: p.Bridge, addr: p.Addr, further: packed(p.Secondary), node: p.Node}
		if grouped {
			one.class = groups.class(p.Groups)
		}
		out = append(out, one)
	}
	return sortedPeers(out)
}

// sortedPeers sorts peers, and leaves out all but the first of those with the same MAC address.
func sortedPeers(peers []peer) []peer {
	slices.SortStableFunc(peers, byMAC)
	return slices.CompactFunc(peers, func(a, b peer) bool { return a.mac == b.mac })
}

// others returns the peers without those that have the MAC address of a port: it is the port's.
func others(peers []peer, ports []port) []peer {
	if len(peers) == 0 {
		return nil
	}
	own := map[seedbed.MAC]bool{}
	for i := range ports {
		if _, ok := slices.BinarySearchFunc(peers, peer{mac: ports[i].mac}, byMAC); ok {
			own[ports[i].mac] = true
		}
	}
	if len(own) == 0 {
		return peers
	}
	return slices.DeleteFunc(slices.Clone(peers), func(p peer) bool { return own[p.mac] })
}

// slot returns the number of the i-th known group of a class; 0 for none.
func (g *groups) slot(class uint32, i int) uint32 {
	for _, name := range g.members[class] {
		n, ok := g.numbers[name]
		if !ok {
			continue
		}
		if i == 0 {
			return n
		}
		i--
	}
	return 0
}

// restricted reports whether the rules of a class decide on what its ports send and receive.
func (g *groups) restricted(class uint32) bool { return class != 0 && !seedbed.Open(g.members[class]) }

// inUse returns the known groups of restricted classes that ports have, sorted, but for those that the node has no room for.
// Those allow nothing.
func (g *groups) inUse() []string {
	if g.used != nil {
		return g.used
	}
	used := map[string]bool{}
	for class := range g.ports {
		for _, name := range g.members[class] {
			if _, ok := g.numbers[name]; ok && g.restricted(class) {
				used[name] = true
			}
		}
	}
	g.used = slices.AppendSeq(make([]string, 0, len(used)), maps.Keys(used))
	slices.Sort(g.used)
	if len(used) > MaxNodeParts/seedbed.MaxRuleParts { // as many fit, whatever the rules are that are not older than the bound
		for _, name := range g.used {
			if _, known := g.parts[name]; !known {
				g.parts[name] = seedbed.RuleParts(g.rules[name])
			}
		}
		g.used, g.over = fit(g.used, g.parts, MaxNodeParts)
	}
	return g.used
}

// fit divides sorted groups into those whose rules have room in so many parts, and those over that. Room is given to the projects
// that need least, so that no project takes that of another by many rules of its own. Both are sorted.
func fit(groups []string, parts map[string]int, room int) (in, over []string) {
	all, ofProject := 0, map[string]int{}
	for _, name := range groups {
		all += parts[name]
		ofProject[seedbed.ProjectOf(name)] += parts[name]
	}
	if all <= room {
		return groups, nil
	}
	in = make([]string, 0, len(groups))
	for _, name := range slices.SortedFunc(slices.Values(groups), func(a, b string) int {
		p, q := seedbed.ProjectOf(a), seedbed.ProjectOf(b)
		return cmp.Or(cmp.Compare(ofProject[p], ofProject[q]), cmp.Compare(p, q), cmp.Compare(a, b))
	}) {
		if parts[name] > room {
			over = append(over, name)
			continue
		}
		room -= parts[name]
		in = append(in, name)
	}
	slices.Sort(in)
	slices.Sort(over)
	return in, over
}

// noRoom returns why the rules of some groups are not in force; nil if all are.
func (g *groups) noRoom() error {
	g.inUse()
	if len(g.over) == 0 {
		return nil
	}
	named := g.over[:min(len(g.over), 5)]
	more := ""
	if n := len(g.over) - len(named); n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	return fmt.Errorf("the rules of all security groups of this node's guests have more than %d parts; "+
		"these allow nothing: %s%s", MaxNodeParts, strings.Join(named, ", "), more)
}

// met returns the classes that a rule in use may mean: those with a group that such a rule names. They are sorted.
func (g *groups) met() []uint32 {
	named := map[string]bool{}
	for _, name := range g.inUse() {
		for _, r := range g.rules[name] {
			named[r.Group] = r.Group != ""
		}
	}
	var met []uint32
	for class, names := range g.members {
		if slices.ContainsFunc(names, func(name string) bool { return named[name] }) {
			met = append(met, class)
		}
	}
	slices.Sort(met)
	return met
}

// digest identifies the rules that are in use, the classes that they are about, and the numbers of the groups of both.
func (g *groups) digest() string {
	if g.sum != "" {
		return g.sum
	}
	var b strings.Builder
	for _, name := range g.inUse() {
		fmt.Fprintf(&b, "group %s %d\n", name, g.numbers[name])
		for _, r := range g.rules[name] {
			fmt.Fprintln(&b, r.ID())
		}
		for _, named := range seedbed.NamedGroups(g.rules[name]) {
			fmt.Fprintf(&b, "names %s %d\n", named, g.numbers[named])
		}
	}
	for _, class := range slices.Sorted(maps.Keys(g.ports)) {
		fmt.Fprintf(&b, "class %d %s\n", class, g.members[class])
	}
	for _, class := range g.met() {
		fmt.Fprintf(&b, "met %d %s", class, g.members[class])
		for _, name := range g.members[class] { // no port may be in one
			fmt.Fprintf(&b, " %d", g.numbers[name])
		}
		b.WriteByte('\n')
	}
	g.sum = "groups\n" + b.String()
	return g.sum
}

// prefixRules adds the elements of the set that says what the groups allow in one direction, in packets of the length
// of address: group . protocol . port . address at the other end.
func (g *groups) prefixRules(d seedbed.Direction, size int, add func(key, value string)) {
	for _, name := range g.inUse() {
		number := string(markValue(g.numbers[name]))
		for _, p := range seedbed.PrefixParts(g.rules[name], d, 8*size) {
			add(number+allowed(p.Protocols.First, p.Targets.First)+string(p.First.AsSlice()),
				number+allowed(p.Protocols.Last, p.Targets.Last)+string(p.Last.AsSlice()))
		}
	}
}

// peerRules adds the elements of the set that says what the groups allow in one direction to members of others:
// group . group of the peer . protocol . port.
func (g *groups) peerRules(d seedbed.Direction, add func(key, value string)) {
	for _, name := range g.inUse() {
		for _, named := range seedbed.NamedGroups(g.rules[name]) {
			number, known := g.numbers[named]
			if !known {
				continue
			}
			numbers := string(markValue(g.numbers[name])) + string(markValue(number))
			for _, p := range seedbed.GroupParts(g.rules[name], d, named) {
				add(numbers+allowed(p.Protocols.First, p.Targets.First), numbers+allowed(p.Protocols.Last, p.Targets.Last))
			}
		}
	}
}

// slotName is the set with the i-th group of each port, and peerSlotName the one with the i-th group of each class.
func slotName(i int) string     { return "group" + string(rune('1'+i)) }
func peerSlotName(i int) string { return "peer-" + slotName(i) }

// peerGroups adds the i-th known group of each class that a rule in use may mean.
func (g *groups) peerGroups(i int, add func(key, value string)) {
	for _, class := range g.met() {
		if n := g.slot(class, i); n != 0 {
			add(string(markValue(class)), string(markValue(n)))
		}
	}
}

// allowed is the part of a key that holds a protocol and a port.
func allowed(protocol, port uint16) string {
	return pad(string([]byte{byte(protocol)})) + pad(string(be16(port)))
}

// pad fills a part of a concatenated key up to whole registers of four bytes.
func pad(s string) string { return s + strings.Repeat("\x00", -len(s)&3) }
