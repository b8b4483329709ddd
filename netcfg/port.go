package netcfg

import (
	"bytes"
	"iter"
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
}

func (t *port) name() string {
	n := bytes.IndexByte(t.tap[:], 0)
	return string(t.tap[:n])
}

// tapAndMAC returns the key of the port in sets of both; a MAC is padded to whole registers.
func (t *port) tapAndMAC() string { return string(t.tap[:]) + string(t.mac[:]) + "\x00\x00" }

func byTap(a, b port) int { return bytes.Compare(a.tap[:], b.tap[:]) }

// newPorts checks and sorts the ports and their forwards, and adds their classes to groups.
func newPorts(ports iter.Seq[Port], networks []seedbed.Network, groups *groups) ([]port, []forward, error) {
	index := map[string]int32{}
	for i, n := range networks {
		index[n.Bridge] = int32(i)
	}
	var out []port
	var forwards []forward
	var err error
	ports(func(t Port) bool {
		at, ok := index[t.Bridge]
		if !ok {
			err = badPort(&t, "bridge %q belongs to no network of the state", t.Bridge)
		} else {
			err = checkPort(&t, networks[at])
		}
		if err == nil {
			one := port{tap: [16]byte(ifname(t.Tap)), mac: t.MAC, mark: t.Mark, network: at, class: groups.portClass(t.Groups)}
			if t.Addr.IsValid() {
				one.addr = t.Addr.As4()
			}
			out = append(out, one)
			forwards = append(forwards, newForwards(&t, &one, networks[at])...)
		}
		return err == nil
	})
	if err != nil {
		return nil, nil, err
	}
	slices.SortFunc(out, byTap)
	for i := 1; i < len(out); i++ {
		if out[i].tap == out[i-1].tap {
			return nil, nil, seedbed.Errorf(seedbed.ErrInvalid, "port %q: given twice", out[i].name())
		}
	}
	return out, sortedForwards(forwards), uniqueMembers(out)
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
	case n.Addressed() && (!n.Host(t.Addr) || t.Addr == n.Gateway):
		return badPort(t, "address %s is not a guest's address in %s", t.Addr, n.Prefix)
	case len(t.Groups) > seedbed.MaxSecurityGroups:
		return badPort(t, "%d security groups: expected at most %d", len(t.Groups), seedbed.MaxSecurityGroups)
	case t.Floating.IsValid() && !t.Floating.Is4():
		return badPort(t, "floating address %s is not an IPv4 address", t.Floating)
	case !n.Addressed() && t.Addr.IsValid():
		return badPort(t, "address %s: expected none in network %s, whose addresses come from elsewhere", t.Addr, n.Name)
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
	out.ports = nil
	for _, t := range p.ports {
		if t.network = moved[t.network]; t.network >= 0 {
			out.ports = append(out.ports, t)
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
	added, forwards, err := newPorts(slices.Values(d.Ports), p.networks, &out.groups)
	if err != nil {
		return nil, err
	}
	out.ports = merged(out.ports, added)
	out.peers = others(out.known, out.ports)
	out.forwards = slices.DeleteFunc(slices.Clone(p.forwards), func(f forward) bool { return leave[f.tap] })
	out.forwards = sortedForwards(append(out.forwards, forwards...))
	if slices.ContainsFunc(added, func(t port) bool { return t.class != 0 }) {
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
