package netcfg

import (
	"bytes"
	"cmp"
	"iter"
	"net/netip"
	"slices"

	"seedbed"
)

// port is the compact form of a Port in a plan. A node may have a hundred thousand, and two plans
// are in memory at a time.
type port struct {
	tap     [16]byte // padded with zeros, as the kernel compares it
	mac     seedbed.MAC
	addr    [4]byte // zero if it may use any
	mark    uint32
	network int32  // index into the plan's networks
	class   uint32 // of its security groups; 0 for none
	in, out uint32 // its rates in bytes a second; 0 for no limit
}

func (t *port) name() string { return tapName(t.tap) }

func tapName(tap [16]byte) string { return string(tap[:bytes.IndexByte(tap[:], 0)]) }

// guests is what a plan has of the ports: these by tap, their forwards, and their further addresses by tap and address.
type guests struct {
	ports       []port
	forwards    []forward
	secondaries []secondary
}

// tapAndMAC returns the key of the port in sets of both; a MAC is padded to whole registers.
func (t *port) tapAndMAC() string { return string(t.tap[:]) + string(t.mac[:]) + "\x00\x00" }

func byTap(a, b port) int { return bytes.Compare(a.tap[:], b.tap[:]) }

// newPorts checks and sorts the ports and what they have, and adds their classes to groups. It leaves out those in networks that this
// version does not understand.
func newPorts(ports iter.Seq[Port], p *plan, groups *groups) (g guests, err error) {
	networks := p.networks
	ports(func(t Port) bool {
		if _, left := p.misread[t.Bridge]; left {
			return true
		}
		at, ok := p.index[t.Bridge]
		if !ok {
			err = badPort(&t, "bridge %q belongs to no network of the state", t.Bridge)
		} else {
			err = checkPort(&t, networks[at])
		}
		if err == nil {
			one := port{tap: [16]byte(ifname(t.Tap)), mac: t.MAC, mark: t.Mark, network: at,
				class: groups.portClass(networks[at].GroupsOf(t.Groups)),
				in:    least(t.In, networks[at].BandwidthIn), out: least(t.Out, networks[at].BandwidthOut)}
			if t.Addr.IsValid() {
				one.addr = t.Addr.As4()
			}
			g.ports = append(g.ports, one)
			g.forwards = append(g.forwards, newForwards(&t, &one, networks[at])...)
			g.secondaries = append(g.secondaries, newSecondaries(&t, &one, networks[at])...)
		}
		return err == nil
	})
	if err != nil {
		return guests{}, err
	}
	slices.SortFunc(g.ports, byTap)
	for i := 1; i < len(g.ports); i++ {
		if g.ports[i].tap == g.ports[i-1].tap {
			return guests{}, seedbed.Errorf(seedbed.ErrInvalid, "port %q: given twice", g.ports[i].name())
		}
	}
	g.forwards = sortedForwards(g.forwards)
	return g, uniqueMembers(g.ports)
}

// uniqueMembers returns ErrInvalid if two ports with security groups have the same MAC, by which rules know a member.
func uniqueMembers(ports []port) error {
	seen := map[seedbed.MAC]int{}
	for i, t := range ports {
		if t.class == 0 {
			continue
		}
		if j, ok := seen[t.mac]; ok {
			return seedbed.Errorf(seedbed.ErrInvalid, "ports %q and %q: both have the MAC %s", ports[j].name(), t.name(), t.mac)
		}
		seen[t.mac] = i
	}
	return nil
}

func badPort(t *Port, format string, args ...any) error {
	return seedbed.Errorf(seedbed.ErrInvalid, "port %q: "+format, append([]any{t.Tap}, args...)...)
}

func checkPort(t *Port, n seedbed.Network) error {
	switch {
	case !seedbed.ValidInterface(t.Tap):
		return badPort(t, "not an interface name: expected 1 to 15 characters without blanks, '/' or ':'")
	case !unicast(t.MAC):
		return badPort(t, "MAC %s is not a unicast address", t.MAC)
	case t.Mark == 0:
		return badPort(t, "mark 0 is reserved")
	case n.Prefix.IsValid() && (!n.Host(t.Addr) || t.Addr == n.Gateway):
		return badPort(t, "address %s is not a guest's address in %s", t.Addr, n.Prefix)
	case len(t.Groups) > seedbed.MaxSecurityGroups:
		return badPort(t, "%d security groups: expected at most %d", len(t.Groups), seedbed.MaxSecurityGroups)
	case seedbed.CheckBandwidth(t.In, t.Out) != nil:
		return badPort(t, "%v", seedbed.CheckBandwidth(t.In, t.Out))
	case slices.ContainsFunc(t.Secondary, func(a netip.Addr) bool { return !a.Is6() && (!n.Host(a) || a == n.Gateway) }):
		return badPort(t, "secondary addresses %v: expected those of guests in %s", t.Secondary, n.Prefix)
	case slices.Contains(t.Secondary, n.NodeAddr6()):
		return badPort(t, "secondary address %s is the node's", n.NodeAddr6())
	case !n.Prefix.IsValid() && t.Addr.IsValid():
		return badPort(t, "address %s: expected none in network %s, %s", t.Addr, n.Name, n.Without4())
	}
	return nil
}

// only returns the plan with the networks that keep selects, and their ports.
func (p *plan) only(keep func(seedbed.Network) bool) *plan {
	out := *p
	out.networks, out.sum, out.far = nil, "", nil
	bridges := map[string]bool{}
	moved := make([]int32, len(p.networks))
	for i, n := range p.networks {
		moved[i] = -1
		if keep(n) {
			moved[i] = int32(len(out.networks))
			out.networks = append(out.networks, n)
			bridges[n.Bridge] = true
		}
	}
	if len(out.networks) == len(p.networks) {
		return &out
	}
	out.indexNetworks()
	out.ports, out.secondaries = nil, nil
	for _, t := range p.ports {
		if t.network = moved[t.network]; t.network >= 0 {
			out.ports = append(out.ports, t)
		}
	}
	for _, s := range p.secondaries {
		if s.network = moved[s.network]; s.network >= 0 {
			out.secondaries = append(out.secondaries, s)
		}
	}
	out.forwards = slices.DeleteFunc(slices.Clone(p.forwards), func(f forward) bool { return !bridges[f.bridge] })
	out.known = slices.DeleteFunc(slices.Clone(p.known), func(q peer) bool { return !bridges[q.bridge] })
	out.peers = others(out.known, out.ports)
	return &out
}

// with returns the plan with a difference.
func (p *plan) with(d Diff) (*plan, error) {
	leave := make(map[[16]byte]bool, len(d.Gone)+len(d.Ports))
	for _, tap := range d.Gone {
		leave[[16]byte(ifname(tap))] = true
	}
	for _, t := range d.Ports {
		leave[[16]byte(ifname(t.Tap))] = true
	}
	out := *p
	out.sum, out.far, out.ports = "", nil, make([]port, 0, len(p.ports)+len(d.Ports))
	for _, t := range p.ports {
		if !leave[t.tap] {
			out.ports = append(out.ports, t)
		}
	}
	out.known = p.knownWithout(d)
	out.groups = p.groups.of(out.ports, out.known)
	if len(d.Peers) > 0 {
		out.known = sortedPeers(append(newPeers(slices.Values(d.Peers), p.networks, &out.groups), out.known...))
	}
	added, err := newPorts(slices.Values(d.Ports), p, &out.groups)
	if err != nil {
		return nil, err
	}
	out.ports = merged(out.ports, added.ports)
	out.peers = others(out.known, out.ports)
	out.forwards = slices.DeleteFunc(slices.Clone(p.forwards), func(f forward) bool { return leave[f.tap] })
	out.forwards = sortedForwards(append(out.forwards, added.forwards...))
	out.secondaries = slices.DeleteFunc(slices.Clone(p.secondaries), func(s secondary) bool { return leave[s.tap] || s.far() })
	out.secondaries = append(out.secondaries, added.secondaries...)
	out.addFurther()
	if slices.ContainsFunc(added.ports, func(t port) bool { return t.class != 0 }) {
		return &out, uniqueMembers(out.ports)
	}
	return &out, nil
}

// knownWithout returns the known peers without those that a difference replaces or removes.
func (p *plan) knownWithout(d Diff) []peer {
	leave := make(map[seedbed.MAC]bool, len(d.GonePeers)+len(d.Peers))
	for _, mac := range d.GonePeers {
		leave[mac] = true
	}
	for _, q := range d.Peers {
		leave[q.MAC] = true
	}
	if len(leave) == 0 {
		return p.known
	}
	return slices.DeleteFunc(slices.Clone(p.known), func(q peer) bool { return leave[q.mac] })
}

// merged returns both lists of ports in the order of their taps. The first has room for both.
func merged(ports, added []port) []port {
	i, j := len(ports)-1, len(added)-1
	ports = ports[:len(ports)+len(added)]
	for at := len(ports) - 1; j >= 0; at-- {
		if i >= 0 && byTap(ports[i], added[j]) > 0 {
			ports[at], i = ports[i], i-1
		} else {
			ports[at], j = added[j], j-1
		}
	}
	return ports
}

// secondary is a further address of a port or, without a tap, of a peer.
type secondary struct {
	tap     [16]byte
	addr    netip.Addr
	network int32 // index into the plan's networks
}

// newSecondaries returns the further addresses of a port in a network, which was checked. Those of an IPv6 prefix that the network
// no longer has, or does not have yet, are left out: the port is told of the other change next.
func newSecondaries(t *Port, p *port, n seedbed.Network) (all []secondary) {
	for _, a := range t.Secondary {
		if a != t.Addr && (a.Is4() || n.Prefix6.Contains(a)) {
			all = append(all, secondary{tap: p.tap, addr: a, network: p.network})
		}
	}
	return all
}

// far reports whether it is a peer's.
func (s secondary) far() bool { return s.tap == [16]byte{} }

// addFurther adds the further addresses of peers, and sorts all.
func (p *plan) addFurther() {
	for _, q := range p.peers {
		i, ok := p.index[q.bridge]
		for _, a := range unpacked(q.further) {
			if ok {
				p.secondaries = append(p.secondaries, secondary{addr: a, network: i})
			}
		}
	}
	slices.SortFunc(p.secondaries, bySecondary)
	p.secondaries = slices.Compact(p.secondaries)
}

func bySecondary(a, b secondary) int {
	return cmp.Or(bytes.Compare(a.tap[:], b.tap[:]), cmp.Compare(a.network, b.network), a.addr.Compare(b.addr))
}

// packed returns addresses as a string of 16 bytes for each, which can be compared.
func packed(addrs []netip.Addr) string {
	var b []byte
	for _, a := range addrs {
		one := a.As16()
		b = append(b, one[:]...)
	}
	return string(b)
}

// unpacked is the opposite of packed.
func unpacked(s string) (addrs []netip.Addr) {
	for ; len(s) >= 16; s = s[16:] {
		addrs = append(addrs, netip.AddrFrom16([16]byte([]byte(s[:16]))).Unmap())
	}
	return addrs
}
