package reach

import (
	"cmp"
	"context"
	"net/netip"
	"slices"

	"seedbed"
)

// owner is what Seedbed has at an address outside of the networks of guests. The zero owner is some other host.
type owner struct {
	// node is the node that has the address. It is empty for a floating address of no instance that the caller sees.
	node string
	// called is "floating address" or "forward", with the text of it, if node gives the packet to a guest.
	called string
	// guest is the instance to which it gives the packet, nic the index of its NIC, and port the port there. has is whether
	// there is one that the caller sees.
	guest seedbed.Instance
	nic   int
	port  uint16
	has   bool
}

// owner returns what is at the address of a packet. A forward at an address takes precedence over a floating address, and that
// over a forward at all addresses.
func (w World) owner(ctx context.Context, p Packet) (o owner, err error) {
	if i := slices.IndexFunc(w.Nodes, func(n seedbed.Node) bool { return n.Report.Address == p.To }); i >= 0 {
		o.node = w.Nodes[i].Name
	}
	forward := func(at netip.Addr) int {
		return slices.IndexFunc(w.Forwards, func(f seedbed.ForwardTo) bool {
			l := f.Listen
			return l.Protocol == p.Protocol && l.First <= p.Port && p.Port <= l.Last && l.Addr == at && (o.node == "" || o.node == f.Node)
		})
	}
	i := forward(p.To)
	if i < 0 && slices.ContainsFunc(w.Networks, func(n seedbed.Network) bool { return n.Lends(p.To) }) {
		o.called, o.node, o.port = "floating address "+p.To.String(), "", p.Port
		instance, nic, err := w.Floating(ctx, p.To)
		if err != nil || instance == "" {
			return o, err
		}
		if o.guest, o.has, err = w.Instance(ctx, instance); o.has {
			o.node, o.nic = o.guest.Node, seedbed.NICAt(o.guest.NICs, nic)
		}
		return o, err
	}
	if i < 0 && o.node != "" {
		anywhere := netip.Addr{}
		if p.To.Is6() {
			anywhere = netip.IPv6Unspecified()
		}
		i = forward(anywhere)
	}
	if i < 0 {
		return o, nil
	}
	f := w.Forwards[i]
	o.called, o.node, o.port = "forward "+f.Listen.String(), f.Node, f.Port+p.Port-f.Listen.First
	o.guest, o.has, err = w.Instance(ctx, f.Instance)
	o.nic = seedbed.NICAt(o.guest.NICs, f.NIC)
	return o, err
}

// direct adds the hops of a packet of a direct network, of which its own node sees nothing.
func (w World) direct(ctx context.Context, t *trace, p Packet, n seedbed.Network) error {
	at := "network " + n.Name
	switch {
	case p.To == seedbed.MetadataAddr || p.To == seedbed.MetadataAddr6 || p.To == seedbed.MetadataAddr6LinkLocal:
		t.stop(at, "it is direct: no node serves its guests, which have their metadata by CD-ROM")
	case p.To.Is4() && !n.Gateway.IsValid() && n.Addressed() && !n.Prefix.Contains(p.To):
		t.stop(at, "it has no gateway, so guests have no route there")
	default:
		t.pass(at, "it is direct: the packet leaves by uplink %s, and no node checks it", n.Uplink)
		at, err := w.owner(ctx, p)
		if err != nil {
			return err
		}
		w.arrives(t, p, p.From.NICs[p.NIC].Addr, at)
	}
	return nil
}

// outside adds the hops of a packet that leaves the network, to the guest that has it in the end if there is one.
func (w World) outside(ctx context.Context, t *trace, p Packet, n seedbed.Network) error {
	node := "node " + p.From.Node
	at, err := w.owner(ctx, p)
	if err != nil {
		return err
	}
	// The node has an address in these, and a route to their bridges. Over IPv6, it has one in a bridged network as well, but other
	// routes of the node take precedence there: it may be connected to that network.
	other := slices.IndexFunc(w.Networks, func(o seedbed.Network) bool {
		return o.Name != n.Name && !o.Kind.OnWire() && (o.Prefix.Contains(p.To) || o.Prefix6.Contains(p.To))
	})
	wired := slices.ContainsFunc(w.Networks, func(o seedbed.Network) bool {
		return o.Name != n.Name && o.Kind == seedbed.NetworkBridged && o.Prefix6.Contains(p.To)
	})
	if wired && other < 0 && n.Kind.Outside() && !n.Kind.OnWire() {
		t.pass(node, "this address is one of a bridged network: it leaves if the node has a route of its own there, and is dropped otherwise")
	}
	vxlan := p.Protocol == "udp" && p.Port == seedbed.VXLANPort
	nic := p.From.NICs[p.NIC]
	source := nic.Addr
	if p.To.Is6() {
		source = n.Addr6(nic.MAC)
	}
	switch {
	case n.Kind == seedbed.NetworkIsolated:
		t.stop("network "+n.Name, "an isolated network reaches no other than its peers")
		return nil
	case n.Kind == seedbed.NetworkBridged && p.To.Is6():
		t.pass("network "+n.Name, "it goes out by uplink %s to the router that advertises itself there", n.Uplink)
	case n.Kind == seedbed.NetworkBridged && !n.Gateway.IsValid() && n.Addressed():
		t.stop("network "+n.Name, "it has no gateway, so guests have no route there")
		return nil
	case n.Kind == seedbed.NetworkBridged:
		t.pass("network "+n.Name, "it goes out by uplink %s to %s", n.Uplink, cmp.Or(text(n.Gateway), "the router that its DHCP server names"))
	case other >= 0:
		t.stop(node, "guests of two networks do not reach each other unless these are peers, and this address is one of another network")
		return nil
	case at.node == p.From.Node && at.has:
		source = gateway(w.networkOf(at), p.To) // the guest gets it from there
	case at.node == p.From.Node:
		t.own(p, n)
		return nil
	case vxlan && n.Kind == seedbed.NetworkNAT:
		t.stop(node, "at this port, nodes get the frames of overlays, so it drops what guests behind NAT send there")
		return nil
	case vxlan && at.node != "" && at.called == "":
		t.stop(node, "this is an address of another node, which gets the frames of overlays at this port: it drops what guests send there")
		return nil
	case n.Kind == seedbed.NetworkRouted:
		t.pass(node, "it leaves with its own address; the routers around the node must know the way back")
	case nic.FloatingOf(p.To).IsValid():
		source = *nic.FloatingOf(p.To)
		t.pass(node, "it leaves with its floating address %s", source)
	default:
		source = w.address(p.From.Node, p.To)
		t.pass(node, "it leaves with an address of the node (NAT)")
	}
	w.arrives(t, p, source, at)
	return nil
}

// own adds the hop of a packet to an address of the node that sends it.
func (t *trace) own(p Packet, n seedbed.Network) {
	node := "node " + p.From.Node
	switch {
	case p.Protocol == "icmp":
		t.pass(node, "this is its own address, and it answers")
	case p.Port == 53 && slices.Contains(n.DNS, p.To):
		t.pass(node, "this is its own address, and a DNS server of the network")
	default:
		t.stop(node, "this is its own address, which is closed to guests but for ping and forwards, and you see no forward of this port")
	}
}

// arrives adds the hops at the other end of a packet that comes from an address, which is not valid if it is not known.
func (w World) arrives(t *trace, p Packet, from netip.Addr, at owner) {
	switch {
	case at.called == "" && at.node != "":
		t.pass("another node", "this is its address: what listens there answers")
	case at.called == "":
	case !at.has || at.nic < 0:
		t.stop(at.called, "no instance that you see has it")
	default:
		nic := at.guest.NICs[at.nic]
		if p.Port = at.port; p.To.Is6() {
			p.To = w.networkOf(at).Addr6(nic.MAC)
		} else {
			p.To = nic.Addr
		}
		t.pass(at.called, "it goes to NIC %d of %s on node %s, %s", nic.Index, at.guest.Name, at.node, p.target())
		t.groups(w, at.guest, at.nic, end{seedbed.DirectionIn, p, from, nil})
		t.running(at.guest)
	}
}

// address returns the address of a node of the version of IP of a packet, if it is known.
func (w World) address(node string, to netip.Addr) (a netip.Addr) {
	for _, n := range w.Nodes {
		if n.Name == node && n.Report.Address.Is4() == to.Is4() {
			a = n.Report.Address
		}
	}
	return a
}

// networkOf returns the network of the NIC to which a packet goes; the zero one if there is none.
func (w World) networkOf(at owner) (network seedbed.Network) {
	for _, n := range w.Networks {
		if at.nic >= 0 && n.Name == at.guest.NICs[at.nic].Network {
			network = n
		}
	}
	return network
}

// gateway returns the address of the node in a network, of the version of IP of a packet.
func gateway(n seedbed.Network, to netip.Addr) netip.Addr {
	if to.Is6() {
		return n.Gateway6()
	}
	return n.Gateway
}

func text(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return "its router " + a.String()
}
