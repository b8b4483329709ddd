package guestplane

import (
	"crypto/sha256"
	"encoding/hex"
	"iter"
	"maps"
	"net/netip"
	"slices"

	"seedbed"
	"seedbed/netcfg"
)

// desired returns the desired state of the node's network.
func (p *Plane) desired(state seedbed.GuestPlaneState) netcfg.State {
	bridges := bridgeNames(state)
	return netcfg.State{Networks: servedNetworks(state), Groups: state.Groups, Address: state.Nodes[p.node],
		Nodes: slices.Collect(maps.Values(state.Nodes)), Tunnels: tunnels(state), Ports: func(yield func(netcfg.Port) bool) {
			for _, g := range state.Guests {
				for _, nic := range g.NICs {
					if !bridges.direct[nic.Network] && !yield(port(g, nic, bridges)) {
						return
					}
				}
			}
		}, Peers: func(yield func(netcfg.Peer) bool) {
			for g := range peers(state) {
				for _, nic := range g.NICs {
					if !yield(peer(g.Node, nic, bridges, state.Nodes)) {
						return
					}
				}
			}
		}}
}

// tunnels returns the tunnels of nodes by their addresses. An address that two nodes have has none: the key of one must not stand for
// the other. The store tells of no such nodes.
func tunnels(state seedbed.GuestPlaneState) map[netip.Addr]seedbed.Tunnel {
	all, have := map[netip.Addr]seedbed.Tunnel{}, map[netip.Addr]int{}
	for _, addr := range state.Nodes {
		have[addr]++
	}
	for name, t := range state.Tunnels {
		if addr := state.Nodes[name]; addr.IsValid() && have[addr] == 1 {
			all[addr] = t
		}
	}
	return all
}

// changes returns what after changes of the node's network. What it says is new must be relative to before.
func changes(before, after seedbed.GuestPlaneState) (d netcfg.Diff) {
	bridges := bridgeNames(after)
	for _, id := range after.Changed {
		if g, ok := before.Guest(id); ok {
			for _, nic := range g.NICs {
				d.Gone = append(d.Gone, nic.ID.Tap())
			}
		}
		if g, ok := after.Guest(id); ok {
			for _, nic := range g.NICs {
				if !bridges.direct[nic.Network] {
					d.Ports = append(d.Ports, port(g, nic, bridges))
				}
			}
		}
	}
	for _, id := range touched(after) {
		if g, ok := peerOf(before, id); ok {
			for _, nic := range g.NICs {
				d.GonePeers = append(d.GonePeers, nic.MAC)
			}
		}
		if g, ok := peerOf(after, id); ok {
			for _, nic := range g.NICs {
				d.Peers = append(d.Peers, peer(g.Node, nic, bridges, after.Nodes))
			}
		}
	}
	return d
}

// peers returns the guests of other nodes: the peers of a state that are not its guests as well.
func peers(state seedbed.GuestPlaneState) iter.Seq[seedbed.Guest] {
	return func(yield func(seedbed.Guest) bool) {
		if state.Peers == nil {
			return
		}
		for id, g := range state.Peers {
			if _, own := state.Guest(id); !own && !yield(g) {
				return
			}
		}
	}
}

// peerOf returns one of those that peers returns.
func peerOf(state seedbed.GuestPlaneState, id seedbed.InstanceID) (g seedbed.Guest, ok bool) {
	if state.Peer == nil {
		return g, false
	}
	if _, own := state.Guest(id); own {
		return g, false
	}
	return state.Peer(id)
}

// touched returns what may have changed in a state as a peer, or become one.
func touched(after seedbed.GuestPlaneState) []seedbed.InstanceID {
	all := slices.Concat(after.Changed, after.ChangedPeers)
	slices.Sort(all)
	return slices.Compact(all)
}

func peer(node string, nic seedbed.GuestNIC, bridges bridgesOf, nodes map[string]netip.Addr) netcfg.Peer {
	return netcfg.Peer{MAC: nic.MAC, Addr: nic.Addr, Secondary: nic.Secondary, Bridge: bridges.names[nic.Network],
		Groups: nic.Groups, Node: nodes[node]}
}

// port returns a NIC of a guest. What one node only may have of the guest is not that of a node at which it arrives.
func port(g seedbed.Guest, nic seedbed.GuestNIC, bridges bridgesOf) netcfg.Port {
	if g.Arriving {
		nic.Forwards, nic.Floating, nic.Floating6 = nil, netip.Addr{}, netip.Addr{}
	}
	return netcfg.Port{Tap: nic.ID.Tap(), MAC: nic.MAC, Addr: nic.Addr, Secondary: nic.Secondary, Mark: nic.ID.Mark(),
		Bridge: bridges.names[nic.Network], Groups: nic.Groups, In: nic.BandwidthIn, Out: nic.BandwidthOut,
		Forwards: nic.Forwards, Floating: nic.Floating, Floating6: nic.Floating6}
}

// bridgesOf has the bridges by network, and the networks without one: nothing of their guests is this node's to keep.
type bridgesOf struct {
	names  map[string]string
	direct map[string]bool
}

func bridgeNames(state seedbed.GuestPlaneState) bridgesOf {
	all := bridgesOf{map[string]string{}, map[string]bool{}}
	for _, n := range state.Networks {
		if n.Kind.Served() {
			all.names[n.Name] = n.Bridge
		} else {
			all.direct[n.Name] = true
		}
	}
	return all
}

// servedNetworks returns the networks that have a bridge.
func servedNetworks(state seedbed.GuestPlaneState) []seedbed.Network {
	served := func(n seedbed.Network) bool { return n.Kind.Served() }
	if !slices.ContainsFunc(state.Networks, func(n seedbed.Network) bool { return !served(n) }) {
		return state.Networks
	}
	return slices.DeleteFunc(slices.Clone(state.Networks), func(n seedbed.Network) bool { return !served(n) })
}

func (p *Plane) options(state seedbed.GuestPlaneState) netcfg.Options {
	return netcfg.Options{MetadataPort: int(p.port), Connections: p.connections, Fragments: p.fragments,
		Installation: installation(state.TokenKey), Uplinks: p.uplinks, Overlay: p.overlay}
}

// installation returns the mark of the installation on its bridges. The token key is the only thing
// in the feed that belongs to one installation and never changes. Eight digits of its hash reveal
// nothing about it.
func installation(tokenKey []byte) string {
	if len(tokenKey) == 0 {
		return ""
	}
	sum := sha256.Sum256(append([]byte("seedbed installation\n"), tokenKey...))
	return hex.EncodeToString(sum[:4])
}
