package netcfg

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"seedbed"
)

// plan is a State that was checked and sorted, so that equal states make equal plans.
type plan struct {
	networks []seedbed.Network              // by bridge name
	index    map[string]int32               // of each network, by its bridge
	addrs6   []func(seedbed.MAC) netip.Addr // the Addr6 of each network
	joined   map[string]bool                // the bridges of overlays that have others as peers
	guests
	known        []peer // by MAC address, and without those that have the MAC address of a port:
	peers        []peer
	groups       groups // security groups
	metadataPort uint16
	connections  uint32 // of one NIC
	fragments    uint32 // of one NIC, in a second; 0 is no bound
	installation string
	names        map[string]string // of this node's interfaces, by the names of uplinks
	// uplinks holds how the bridges of bridged networks reach these, by bridge, also of closed ones, and
	// cutOff why others do not at present.
	uplinks map[string]uplink
	cutOff  map[string]error
	// address is where other nodes reach this one, and receives are the addresses at which it gets the frames of overlays: the
	// first is also theirs where it sends some. nodes are the addresses of all nodes, also those in tunnels.
	address  netip.Addr
	receives []netip.Addr
	nodes    []netip.Addr
	overlay  Overlay
	// hosts are the addresses of all nodes as they were given. tunnels are those of the nodes that encrypt, by address, and inner
	// the addresses in those that this one has. tunnelled is whether this one is to have tunnels.
	// tunnelless is why it cannot, and tunnelFault why they are not as they should be.
	hosts                   []netip.Addr
	tunnels                 map[netip.Addr]seedbed.Tunnel
	inner                   map[netip.Addr]netip.Addr
	tunnelled               bool
	tunnelless, tunnelFault error
	// far is what remotes returned, and unreached how many peers are not in it. strayed is whether no interface has address.
	far       map[string][]remote
	unreached int
	strayed   bool
	// closed are managed bridges without a network that could not be removed.
	closed []string
	// misread are the networks that this version does not understand, by their bridges. None of them is among networks.
	misread map[string]misread
	// foreign holds the reason why the bridge of a network was not changed, by the network's name.
	foreign map[string]error
	// sum is the digest of the elements, once it was computed.
	sum string
}

func newPlan(s State, o Options) (*plan, error) {
	p := &plan{networks: kinds(s.Networks), metadataPort: 80, connections: DefaultConnections, fragments: DefaultFragments,
		installation: o.Installation, names: o.Uplinks, address: s.Address, overlay: o.Overlay, tunnels: s.Tunnels}
	p.tunnelled = p.encrypts() && p.address.IsValid() && slices.ContainsFunc(p.networks, overlaid)
	p.addNodes(s.Nodes)
	if o.MetadataPort != 0 {
		if o.MetadataPort < 1 || o.MetadataPort > 65535 {
			return nil, seedbed.Errorf(seedbed.ErrInvalid, "metadata port %d is not a TCP port: expected 1 to 65535", o.MetadataPort)
		}
		p.metadataPort = uint16(o.MetadataPort)
	}
	if o.Connections != 0 {
		if o.Connections < 1 || o.Connections > maxConnections {
			return nil, seedbed.Errorf(seedbed.ErrInvalid, "%d connections of one NIC: expected 1 to %d", o.Connections, maxConnections)
		}
		p.connections = uint32(o.Connections)
	}
	switch {
	case o.Fragments == NoBound:
		p.fragments = 0
	case o.Fragments < NoBound || o.Fragments > maxFragments:
		return nil, seedbed.Errorf(seedbed.ErrInvalid, "%d fragments a second of one NIC: expected 1 to %d, or %d for no bound",
			o.Fragments, maxFragments, NoBound)
	case o.Fragments != 0:
		p.fragments = uint32(o.Fragments)
	}
	if strings.ContainsFunc(o.Installation, func(r rune) bool { return r <= ' ' || r > '~' || r == '@' || r == ':' }) ||
		len(o.Installation) > 32 {
		return nil, seedbed.Errorf(seedbed.ErrInvalid,
			"installation %q is not a mark: expected at most 32 printable characters without blanks, ':' or '@'", o.Installation)
	}
	slices.SortFunc(p.networks, func(a, b seedbed.Network) int { return strings.Compare(a.Bridge, b.Bridge) })
	if err := p.checkNetworks(); err != nil {
		return nil, err
	}
	p.indexNetworks()
	p.groups = newGroups(s.Groups, p.networks)
	if s.Ports != nil {
		var err error
		if p.guests, err = newPorts(s.Ports, p, &p.groups); err != nil {
			return nil, err
		}
	}
	p.known = newPeers(s.Peers, p.networks, &p.groups)
	p.peers = others(p.known, p.ports)
	p.addFurther()
	return p, nil
}

// indexNetworks notes what is asked of the networks for each guest.
func (p *plan) indexNetworks() {
	p.index = indexOf(p.networks)
	p.joined = p.joinedOverlays()
	p.addrs6 = make([]func(seedbed.MAC) netip.Addr, len(p.networks))
	for i, n := range p.networks {
		p.addrs6[i] = addrs6(n)
	}
}

// addrs6 returns a function that is Addr6 of a network, for many NICs: it finds reservations by their MAC addresses.
func addrs6(n seedbed.Network) func(seedbed.MAC) netip.Addr {
	reserved := map[seedbed.MAC]netip.Addr{}
	for _, r := range n.Reserved6() {
		if _, twice := reserved[r.MAC]; !twice {
			reserved[r.MAC] = r.Addr
		}
	}
	n.Reservations = nil
	return func(m seedbed.MAC) netip.Addr {
		if a, ok := reserved[m]; ok && n.Prefix6.IsValid() {
			return a
		}
		return n.Addr6(m)
	}
}

// indexOf returns the index of each network by its bridge.
func indexOf(networks []seedbed.Network) map[string]int32 {
	index := map[string]int32{}
	for i, n := range networks {
		index[n.Bridge] = int32(i)
	}
	return index
}

// kinds returns a copy of the networks in which each has a kind. A control host of a release before 0.4.0 sends
// none.
func kinds(networks []seedbed.Network) []seedbed.Network {
	networks = slices.Clone(networks)
	for i := range networks {
		n := &networks[i]
		if n.Kind == "" {
			if n.Kind = seedbed.NetworkIsolated; n.NAT {
				n.Kind = seedbed.NetworkNAT
			}
		}
	}
	return networks
}

// misread is a network that this version does not understand, and why. A newer control host may have it.
type misread struct {
	name string
	err  error
}

// checkNetworks refuses networks, sorted by their bridges, that a node cannot have beside each other. It takes those away from the
// plan that this version does not understand: they are left out, and the others are served.
func (p *plan) checkNetworks() error {
	names := map[string]bool{}
	p.misread = map[string]misread{}
	var read, outside []seedbed.Network
	for i, n := range p.networks {
		if names[n.Name] {
			return seedbed.Errorf(seedbed.ErrInvalid, "network %s is given twice", n.Name)
		}
		names[n.Name] = true
		if i > 0 && p.networks[i-1].Bridge == n.Bridge {
			return seedbed.Errorf(seedbed.ErrInvalid, "networks %s and %s have the same bridge %s", p.networks[i-1].Name, n.Name, n.Bridge)
		}
		if err := n.Check(); err != nil {
			p.misread[n.Bridge] = misread{n.Name, seedbed.Errorf(seedbed.ErrConflict, "this version does not understand network %s: %v",
				n.Name, err)}
			continue
		}
		read = append(read, n)
		if n.ReachesOthers() {
			outside = append(outside, n)
		}
	}
	p.networks = read
	return cmp.Or(
		checkOverlaps(outside, func(n seedbed.Network) netip.Prefix { return n.Prefix }),
		checkOverlaps(outside, func(n seedbed.Network) netip.Prefix { return n.Prefix6 }))
}

// checkOverlaps refuses networks that reach outside with the same addresses. It sorts them by their prefixes: of prefixes that
// overlap, one holds the other and all that come between them.
func checkOverlaps(networks []seedbed.Network, prefix func(seedbed.Network) netip.Prefix) error {
	slices.SortFunc(networks, func(a, b seedbed.Network) int { return prefix(a).Compare(prefix(b)) })
	for i := 1; i < len(networks); i++ {
		n, o := networks[i-1], networks[i]
		if prefix(n).Overlaps(prefix(o)) {
			return seedbed.Errorf(seedbed.ErrInvalid,
				"networks %s (%s) and %s (%s) overlap, and both reach outside: answers from there could not be told apart; "+
					"give one another prefix, or make it isolated", n.Name, prefix(n), o.Name, prefix(o))
		}
	}
	return nil
}

// outside reports whether guests of any network reach other networks.
func (p *plan) outside() bool { return slices.ContainsFunc(p.networks, seedbed.Network.ReachesOthers) }

// peersOf returns those peers of a network that the plan has.
func (p *plan) peersOf(n seedbed.Network) (all []seedbed.Network) {
	if len(n.Peers) == 0 {
		return nil
	}
	for _, o := range p.networks {
		if slices.Contains(n.Peers, o.Name) && slices.Contains(o.Peers, n.Name) {
			all = append(all, o)
		}
	}
	return all
}

// overlaysOf returns the overlays among the peers of an overlay: the guests of both reach each other on all nodes. It returns
// none for another network.
func (p *plan) overlaysOf(n seedbed.Network) []seedbed.Network {
	if !overlaid(n) {
		return nil
	}
	return slices.DeleteFunc(p.peersOf(n), func(o seedbed.Network) bool { return !overlaid(o) })
}

func (p *plan) joinedOverlays() map[string]bool {
	joined := map[string]bool{}
	for _, n := range p.networks {
		if len(p.overlaysOf(n)) > 0 {
			joined[n.Bridge] = true
		}
	}
	return joined
}

// passes reports whether a port with an address in a network would pass for a node: it is that of one, in a network whose guests
// reach other hosts with their own addresses.
func (p *plan) passes(network int32, addr netip.Addr) bool {
	if kind := p.networks[network].Kind; kind != seedbed.NetworkRouted && kind != seedbed.NetworkBridged {
		return false
	}
	_, ok := slices.BinarySearchFunc(p.nodes, addr, netip.Addr.Compare)
	return ok
}

// addr6 returns the IPv6 address of a port that is not link-local; the zero Addr if its network has none.
func (p *plan) addr6(t *port) netip.Addr { return p.addrs6[t.network](t.mac) }

func unicast(m seedbed.MAC) bool { return m[0]&1 == 0 && m != seedbed.MAC{} }
