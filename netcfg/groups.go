package netcfg

import (
	"bytes"
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
	// sum is what digest returns, once it was computed.
	sum string
}

func newGroups(all []seedbed.SecurityGroup, networks []seedbed.Network) groups {
	g := groups{rules: map[string][]seedbed.SecurityRule{}, numbers: map[string]uint32{},
		classes: map[string]uint32{}, members: map[uint32][]string{}, taken: map[uint32]bool{0: true},
		ports: map[uint32]bool{}}
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
	g.classes[key], g.members[n], g.sum = n, names, ""
	return n
}

// portClass is class for the groups of a port.
func (g *groups) portClass(names []string) uint32 {
	n := g.class(names)
	if n != 0 && !g.ports[n] {
		g.ports[n], g.sum = true, ""
	}
	return n
}

// of returns groups with the classes of some ports and peers alone, to which others can be added.
func (g *groups) of(ports []port, peers []peer) groups {
	out := *g
	out.classes, out.members, out.taken, out.sum = map[string]uint32{}, map[uint32][]string{}, map[uint32]bool{0: true}, ""
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

// sortedPeers sorts peers, and leaves out all but the first of those with the same address.
func sortedPeers(peers []peer) []peer {
	slices.SortStableFunc(peers, byMAC)
	return slices.CompactFunc(peers, func(a, b peer) bool { return a.mac == b.mac })
}

// others returns the peers without those that have the address of a port: it is the port's.
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

// inUse returns the known groups of restricted classes that ports have, sorted.
func (g *groups) inUse() []string {
	used := map[string]bool{}
	for class := range g.ports {
		for _, name := range g.members[class] {
			if _, ok := g.numbers[name]; ok && g.restricted(class) {
				used[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(used))
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

// digest identifies the rules that are in use and the classes that they are about.
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
	}
	for _, class := range slices.Sorted(maps.Keys(g.ports)) {
		fmt.Fprintf(&b, "class %d %s\n", class, g.members[class])
	}
	for _, class := range g.met() {
		fmt.Fprintf(&b, "met %d %s\n", class, g.members[class])
	}
	g.sum = "groups\n" + b.String()
	return g.sum
}

// prefixRules adds the elements of the set that says what the groups allow in one direction, in packets of the length
// of address: group . protocol . port . address at the other end.
func (g *groups) prefixRules(d seedbed.Direction, size int, add func(key, value string)) {
	for _, name := range g.inUse() {
		var boxes []box
		for _, r := range g.rules[name] {
			if r.Direction != d || r.Group != "" {
				continue
			}
			first, last := make([]byte, size), slices.Repeat([]byte{0xff}, size)
			if r.Prefix.IsValid() {
				if r.Prefix.Addr().BitLen() != 8*size {
					continue
				}
				first, last = r.Prefix.Masked().Addr().AsSlice(), seedbed.LastAddr(r.Prefix).AsSlice()
			}
			boxes = append(boxes, box{protocols(r), {string(first), string(last)}, targets(r)})
		}
		number := string(markValue(g.numbers[name]))
		for _, b := range disjoint(boxes) {
			key := func(end int) string { return number + pad(b[0][end]) + pad(b[2][end]) + b[1][end] }
			add(key(0), key(1))
		}
	}
}

// peerRules adds the elements of the set that says what the groups allow in one direction to members of others:
// group . class of the peer . protocol . port.
func (g *groups) peerRules(d seedbed.Direction, add func(key, value string)) {
	classes := g.met()
	for _, name := range g.inUse() {
		for _, class := range classes {
			var boxes []box
			for _, r := range g.rules[name] {
				if r.Direction == d && r.Group != "" && slices.Contains(g.members[class], r.Group) {
					boxes = append(boxes, box{protocols(r), targets(r), {}})
				}
			}
			numbers := string(markValue(g.numbers[name])) + string(markValue(class))
			for _, b := range disjoint(boxes) {
				key := func(end int) string { return numbers + pad(b[0][end]) + pad(b[1][end]) }
				add(key(0), key(1))
			}
		}
	}
}

func protocols(r seedbed.SecurityRule) interval {
	s := r.Protocols()
	return interval{string([]byte{byte(s.First)}), string([]byte{byte(s.Last)})}
}

func targets(r seedbed.SecurityRule) interval {
	s := r.Targets()
	return interval{string(be16(s.First)), string(be16(s.Last))}
}

// pad fills a part of a concatenated key up to whole registers of four bytes.
func pad(s string) string { return s + strings.Repeat("\x00", -len(s)&3) }

// box is a range of each of some dimensions, and so the set of points in it.
type box [3]interval

// interval is a range of big-endian numbers of equal length, both ends included. The empty number, of length 0, is the
// only one of its length.
type interval [2]string

// disjoint returns boxes that have the same points as the given ones together, and none in common: the kernel takes no
// element of a set that overlaps another.
func disjoint(boxes []box) []box { return split(boxes, 0) }

// split is disjoint for the dimensions from dim on; the intervals of the others are left empty.
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
