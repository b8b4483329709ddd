// Package reach says which way a packet of a guest takes, and what stops it, from the records of the installation. It asks
// nobody: what a node has really applied, seedbed doctor says.
package reach

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"seedbed"
)

// World is what a trace is made from.
type World struct {
	Networks []seedbed.Network
	Groups   []seedbed.SecurityGroup
	Nodes    []seedbed.Node
	// Forwards are those to the instances that the caller may see.
	Forwards []seedbed.ForwardTo
	// Holder returns the instance that has an address in a network, and the place of its NIC. It returns false if there is
	// none that the caller may see.
	Holder func(ctx context.Context, network string, a netip.Addr) (i seedbed.Instance, nic int, ok bool, err error)
	// Floating returns the full name of the instance that has a floating address, and the index of its NIC. It returns no name
	// if the caller may not see who has it.
	Floating func(ctx context.Context, a netip.Addr) (instance string, nic int, err error)
	// Instance returns the instance with a full name. It returns false if there is none that the caller may see.
	Instance func(ctx context.Context, name string) (i seedbed.Instance, ok bool, err error)
	// Learns reports whether the caller may learn of a network with a qualified name that is a peer of that of an instance.
	Learns func(network string) bool
	Inside bool // the caller may see the nodes, whose reports name interfaces, and networks of other projects
}

// Packet is what is traced.
type Packet struct {
	From seedbed.Instance
	NIC  int
	// To, Protocol and Port are those of seedbed.Trace.
	To       netip.Addr
	Protocol string
	Port     uint16
}

// Check returns ErrInvalid unless the packet can be traced.
func (p Packet) Check() error {
	ports := p.Protocol == "tcp" || p.Protocol == "udp"
	switch {
	case p.NIC < 0 || p.NIC >= len(p.From.NICs):
		return seedbed.Errorf(seedbed.ErrInvalid, "instance %s has no NIC %d: expected 0 to %d", p.From.Name, p.NIC, len(p.From.NICs)-1)
	case p.To.Is4In6() || p.To.Zone() != "" || p.To.IsMulticast() || p.To.IsLoopback() || p.To.IsUnspecified() ||
		p.To == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return seedbed.Errorf(seedbed.ErrInvalid, "to %s is not the address of another host", p.To)
	case !ports && p.Protocol != "icmp":
		return seedbed.Errorf(seedbed.ErrInvalid, "protocol %q: expected tcp, udp or icmp", seedbed.Clip(p.Protocol))
	case ports && p.Port == 0:
		return seedbed.Errorf(seedbed.ErrInvalid, "port is missing: expected 1 to 65535 for %s", p.Protocol)
	case !ports && p.Port != 0:
		return seedbed.Errorf(seedbed.ErrInvalid, "port %d: expected none for icmp", p.Port)
	}
	return nil
}

// Needs returns traces of what every guest needs by its first NIC: DHCP, metadata and names.
func (w World) Needs(ctx context.Context, i seedbed.Instance, nic int) ([]seedbed.Trace, error) {
	t, n, err := w.begin(Packet{From: i, NIC: nic, Protocol: "udp", Port: 67})
	if err != nil {
		return nil, err
	}
	switch {
	case n.Kind == seedbed.NetworkDirect && n.Addressed():
		t.stop("network "+n.Name, "it has no DHCP: guests have their addresses by CD-ROM")
	case n.Bare():
		t.stop("network "+n.Name, "it has no prefix, so no node answers DHCP: another guest may, or configure the guest")
	case !n.Addressed():
		t.pass("network "+n.Name, "its addresses come from elsewhere: another DHCP server answers")
	case !n.DHCP:
		t.stop("network "+n.Name, "it has no DHCP: turn it on (seedbed network set %s --dhcp), or configure the guest", n.Name)
	default:
		t.pass("node "+i.Node, "its DHCP server answers, whatever the security groups are")
	}
	all := []seedbed.Trace{t.Trace}
	metadata, resolvers := seedbed.MetadataAddr, n.DNS
	switch {
	case n.Only6():
		metadata, resolvers = seedbed.MetadataAddr6, n.DNS6()
	case n.Bare():
		metadata = seedbed.MetadataAddr6 // a link-local address is enough for it
	}
	packets := []Packet{{From: i, NIC: nic, To: metadata, Protocol: "tcp", Port: 80}}
	if len(resolvers) > 0 {
		packets = append(packets, Packet{From: i, NIC: nic, To: resolvers[0], Protocol: "udp", Port: 53})
	}
	for _, p := range packets {
		one, err := w.Trace(ctx, p)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

// Trace returns the way of a packet. It goes on behind a hop that stops the packet, as far as is known.
func (w World) Trace(ctx context.Context, p Packet) (seedbed.Trace, error) {
	if err := p.Check(); err != nil {
		return seedbed.Trace{}, err
	}
	t, n, err := w.begin(p)
	if err != nil {
		return seedbed.Trace{}, err
	}
	if !n.Kind.Served() {
		return t.Trace, w.direct(ctx, &t, p, n)
	}
	if p.To.Is4() && n.Only6() {
		t.stop("network "+n.Name, "its guests have IPv6 addresses alone")
		return t.Trace, nil
	}
	if t.service(p, n) {
		return t.Trace, nil
	}
	if n.Bare() {
		t.groups(w, p.From, p.NIC, end{seedbed.DirectionOut, p, p.To, nil})
		t.pass("network "+n.Name, "it has no prefix: which of its guests has this address is not known")
		return t.Trace, nil
	}
	if p.To.Is6() && !n.Prefix6.IsValid() && n.Addressed() {
		t.stop("network "+n.Name, "it has no IPv6 prefix: give it one (seedbed network set %s --prefix6 PREFIX)", n.Name)
		return t.Trace, nil
	}
	if n.Addressed() && (n.Prefix.Contains(p.To) || n.Prefix6.Contains(p.To)) {
		return t.Trace, w.within(ctx, &t, p, n)
	}
	for _, name := range n.Peers {
		i := slices.IndexFunc(w.Networks, func(o seedbed.Network) bool { return o.Name == name })
		if i >= 0 && (w.Networks[i].Prefix.Contains(p.To) || w.Networks[i].Prefix6.Contains(p.To)) {
			return t.Trace, w.toPeer(ctx, &t, p, n, w.Networks[i])
		}
	}
	t.groups(w, p.From, p.NIC, end{seedbed.DirectionOut, p, p.To, nil})
	return t.Trace, w.outside(ctx, &t, p, n)
}

// toPeer adds the hops to an address of a peer of the network. Rules of security groups that name groups do not mean NICs there.
func (w World) toPeer(ctx context.Context, t *trace, p Packet, n, peer seedbed.Network) error {
	t.groups(w, p.From, p.NIC, end{seedbed.DirectionOut, p, p.To, nil})
	name, at := "network "+peer.Name, fmt.Sprintf("peering of %s with %s", n.Name, peer.Name)
	if !w.Learns(peer.Name) {
		name, at = "a network of another project", "peering of "+n.Name
	}
	if p.To == peer.Gateway || p.To == peer.Gateway6() {
		if p.Protocol != "icmp" {
			t.stop("node "+p.From.Node, "the gateway of %s is the node, which is closed to guests but for ping there", name)
			return nil
		}
		t.pass("node "+p.From.Node, "it answers as the gateway of %s", name)
		return nil
	}
	t.pass(at, "the node is the router between both")
	to, nic, ok, err := w.Holder(ctx, peer.Name, p.To)
	switch {
	case err != nil:
		return err
	case !ok:
		t.stop(name, "no instance that you see has this address")
		return nil
	case to.Node != p.From.Node && (n.VNI == 0 || peer.VNI == 0):
		t.stop(name, "%s is on node %s, and guests reach those of a peer on other nodes only if both networks are overlays", to.Name, to.Node)
	default:
		if to.Node != p.From.Node {
			t.pass("node "+p.From.Node, "it sends by the overlay of the peer to node %s", to.Node)
		}
		t.pass(name, "NIC %d of %s on node %s has this address", to.NICs[nic].Index, to.Name, to.Node)
	}
	from := p.From.NICs[p.NIC]
	if p.To.Is6() {
		from.Addr = n.Addr6(from.MAC)
	}
	t.leftOut(w, to, peer.Name)
	t.groups(w, to, nic, end{seedbed.DirectionIn, p, from.Addr, nil})
	t.running(to)
	return nil
}

// trace is a Trace that is being made.
type trace struct{ seedbed.Trace }

func (t *trace) pass(at, format string, args ...any) {
	t.Hops = append(t.Hops, seedbed.Hop{At: at, Passes: true, Detail: fmt.Sprintf(format, args...)})
}

func (t *trace) stop(at, format string, args ...any) {
	t.Hops = append(t.Hops, seedbed.Hop{At: at, Detail: fmt.Sprintf(format, args...)})
	t.Reaches = false
}

// target says what the packet is sent to at its address.
func (p Packet) target() string {
	if p.Protocol == "icmp" {
		return "a ping"
	}
	return fmt.Sprintf("%s port %d", p.Protocol, p.Port)
}

// begin returns a trace that has left the instance, and its network.
func (w World) begin(p Packet) (t trace, n seedbed.Network, err error) {
	t.NIC, t.To, t.Protocol, t.Port, t.Reaches = p.From.NICs[p.NIC].Index, p.To, p.Protocol, p.Port, true
	nic := p.From.NICs[p.NIC]
	i := slices.IndexFunc(w.Networks, func(n seedbed.Network) bool { return n.Name == nic.Network })
	if i < 0 {
		return t, n, seedbed.Errorf(seedbed.ErrConflict, "network %s of instance %s does not exist any more", nic.Network, p.From.Name)
	}
	t.running(p.From)
	addr := "an address from elsewhere"
	switch v6 := w.Networks[i].Addr6(nic.MAC); {
	case v6.IsValid() && (p.To.Is6() || !nic.Addr.IsValid()):
		addr = v6.String()
	case nic.Addr.IsValid():
		addr = nic.Addr.String()
	}
	t.pass(fmt.Sprintf("NIC %d of %s", t.NIC, p.From.Name), "%s in network %s, on node %s", addr, nic.Network, p.From.Node)
	t.leftOut(w, p.From, nic.Network)
	return t, w.Networks[i], nil
}

// leftOut adds a hop that stops the packet if the node of an instance does not have a network.
func (t *trace) leftOut(w World, i seedbed.Instance, network string) {
	for _, n := range w.Nodes {
		if why := n.Report.LeftOut[network]; why != "" && n.Name == i.Node {
			if !w.Inside {
				why = "an operator of the installation sees why (seedbed node show " + i.Node + ")"
			}
			t.stop("node "+i.Node, "it leaves out network %s, and closes the ports of its guests there: %s", network, why)
		}
	}
}

func (t *trace) running(i seedbed.Instance) {
	if i.State != seedbed.InstanceRunning {
		t.stop("instance "+i.Name, "it is %s", i.State)
	}
}

// service adds the last hop of a packet to what the node offers, or of one to the node itself. It returns false for any
// other.
func (t *trace) service(p Packet, n seedbed.Network) bool {
	node := "node " + p.From.Node
	is := func(protocol string, port uint16) bool { return p.Protocol == protocol && p.Port == port }
	dns := is("udp", 53) || is("tcp", 53)
	metadata := p.To == seedbed.MetadataAddr || p.To == seedbed.MetadataAddr6 || p.To == seedbed.MetadataAddr6LinkLocal
	resolver := p.To == seedbed.ResolverAddr && n.Resolves() || p.To == seedbed.ResolverAddr6 && n.Resolves6()
	clock := p.To == seedbed.TimeAddr && n.KeepsTime() || p.To == seedbed.TimeAddr6 && n.KeepsTime6()
	answers := func(what string) { t.pass(node, "%s answers, whatever the security groups are", what) }
	switch {
	case metadata && is("tcp", 80) && p.From.Metadata.Endpoint == seedbed.MetadataDisabled:
		t.stop(node, "the metadata service is disabled for %s (seedbed vm metadata-options %[1]s --endpoint enabled)", p.From.Name)
	case metadata && is("tcp", 80):
		answers("the metadata service")
	case resolver && dns:
		answers("the resolver")
	case clock && is("udp", 123):
		answers("the time server of the node")
	case metadata:
		t.stop(node, "at this address, only port 80 answers")
	case resolver:
		t.stop(node, "at this address, only port 53 answers")
	case clock:
		t.stop(node, "at this address, only port 123 answers")
	case p.To.Is6() && p.To.IsLinkLocalUnicast():
		t.stop(node, "guests choose their link-local addresses, so it is not known whose this is")
	case p.To.IsLinkLocalUnicast():
		t.stop(node, "network %s offers nothing there; --dns %s and --ntp %s of seedbed network set do", n.Name,
			seedbed.ResolverAddr, seedbed.TimeAddr)
	default:
		return false
	}
	return true
}

// within adds the hops to another address of the network.
func (w World) within(ctx context.Context, t *trace, p Packet, n seedbed.Network) error {
	out := end{seedbed.DirectionOut, p, p.To, nil}
	if (p.To == n.Gateway || p.To == n.Gateway6()) && n.Kind != seedbed.NetworkBridged {
		t.groups(w, p.From, p.NIC, out)
		switch {
		case p.Protocol == "icmp":
			t.pass("node "+p.From.Node, "it answers as the gateway")
		case p.Port == 53 && p.To.Is4() && (n.ResolvesAtGateway() || slices.Contains(n.DNS, n.Gateway)):
			t.pass("node "+p.From.Node, "the resolver at the gateway answers")
		default:
			t.stop("node "+p.From.Node, "the gateway is the node, which is closed to guests but for ping, DHCP, metadata and DNS")
		}
		return nil
	}
	to, nic, ok, err := w.Holder(ctx, n.Name, p.To)
	if err != nil {
		return err
	}
	if ok {
		out.groups = to.NICs[nic].Groups
	}
	t.groups(w, p.From, p.NIC, out)
	switch {
	case !ok && n.Kind == seedbed.NetworkBridged:
		t.pass("network "+n.Name, "no instance that you see has this address; a host on the wire may")
		return nil
	case !ok:
		t.stop("network "+n.Name, "no instance that you see has this address")
		return nil
	case to.Node != p.From.Node && !n.Wide():
		t.stop("network "+n.Name, "%s is on node %s, and the network ends at its node: only an overlay or a bridged one reaches others",
			to.Name, to.Node)
	default:
		t.pass("network "+n.Name, "NIC %d of %s on node %s has this address", to.NICs[nic].Index, to.Name, to.Node)
	}
	from := p.From.NICs[p.NIC]
	if p.To.Is6() {
		from.Addr = n.Addr6(from.MAC)
	}
	t.leftOut(w, to, n.Name)
	t.groups(w, to, nic, end{seedbed.DirectionIn, p, from.Addr, from.Groups})
	t.running(to)
	return nil
}

// end is what the security groups at one end of the way see.
type end struct {
	direction seedbed.Direction
	Packet
	other  netip.Addr // not valid if it is not known
	groups []string   // of the NIC at the other end, in the same network
}

// groups adds the hop of the security groups of a NIC.
func (t *trace) groups(w World, i seedbed.Instance, nic int, e end) {
	at := "security groups of " + i.Name
	names := i.NICs[nic].Groups
	if at := slices.IndexFunc(w.Networks, func(n seedbed.Network) bool { return n.Name == i.NICs[nic].Network }); at >= 0 {
		names = w.Networks[at].GroupsOf(names)
	}
	if seedbed.Open(names) {
		t.pass(at, "open allows everything")
		return
	}
	for _, g := range w.Groups {
		if !slices.Contains(names, g.Name) {
			continue
		}
		for _, r := range g.Rules {
			if e.allowed(r) {
				t.pass(at, "%s: %s", seedbed.ShortName(g.Name), r)
				return
			}
		}
	}
	protocol, _, target := e.compared()
	if e.Protocol == "icmp" {
		target >>= 8 // without the code
	}
	short := make([]string, len(names))
	for j, name := range names {
		short[j] = seedbed.ShortName(name)
	}
	if network := seedbed.NetworkOfGroup(names[0]); network != "" {
		t.stop(at, "no rule of %s allows it, which the ACLs of network %s make: add one, with \"pvc network acl add\"",
			strings.Join(short, " and "), seedbed.ShortName(network))
		return
	}
	t.stop(at, "no rule of %s allows it: seedbed security-group allow %s %s %s %d", strings.Join(short, ", "), short[0],
		e.direction, protocol, target)
}

// compared returns what rules compare of the packet: its protocol by name and number, and its port or, of an echo request, type and
// code.
func (e end) compared() (protocol string, number, target uint16) {
	switch {
	case e.Protocol == "icmp" && e.To.Is6():
		return "icmp6", 58, 128 << 8
	case e.Protocol == "icmp":
		return "icmp", 1, 8 << 8
	}
	return e.Protocol, map[string]uint16{"tcp": 6, "udp": 17}[e.Protocol], e.Port
}

// allowed reports whether a rule allows the packet.
func (e end) allowed(r seedbed.SecurityRule) bool {
	_, number, target := e.compared()
	within := func(s seedbed.Span, v uint16) bool { return s.First <= v && v <= s.Last }
	switch {
	case r.Direction != e.direction || !within(r.Protocols(), number) || !within(r.Targets(), target):
		return false
	case r.Group != "":
		return slices.Contains(e.groups, r.Group)
	}
	if !e.other.IsValid() && r.Prefix.IsValid() {
		return r.Prefix.Bits() == 0 && r.Prefix.Addr().Is4() == e.To.Is4()
	}
	return !r.Prefix.IsValid() || r.Prefix.Contains(e.other)
}
