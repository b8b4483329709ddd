// Package netcfg configures the network of a node: the managed bridges with their IPv4 and IPv6
// addresses, and the nftables rules that prove which guest sent a frame. The caller passes the
// whole desired state; Apply compares it with the kernel and changes what differs.
//
// It uses rtnetlink, nftables, tc and sock_diag directly and does not start processes. Everything
// happens in the network namespace of the calling thread and needs CAP_NET_ADMIN. Managed bridges
// have the alias "seedbed:<network>@<installation>"; the tables are "bridge seedbed", "inet seedbed"
// and "arp seedbed". On interfaces that it does not make, it has floating addresses: those of IPv4 have the
// label "seedbed", and those of IPv6 the metric 99539949.
package netcfg

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"seedbed"
	"seedbed/netcfg/wireguard"
)

// State is the desired state of a node's network.
type State struct {
	// Networks are the managed bridges. Prefixes may overlap or be equal if at most one of these
	// networks has NAT. Guests' requests to the node stay on their bridge, and the node itself
	// reaches the network with NAT, or else the first.
	Networks []seedbed.Network
	// Ports are the guests' NICs; a port's interface need not exist yet. Nil means no ports.
	Ports iter.Seq[Port]
	// Peers are the guests of other nodes in networks that reach several. Nil means none.
	Peers iter.Seq[Peer]
	// Address is where other nodes send the frames of overlays. It is the zero Addr while it is not known; overlays then
	// end at this node. Nodes are the addresses of all nodes. Nobody else may send frames of overlays.
	Address netip.Addr
	Nodes   []netip.Addr
	// Tunnels are those of the nodes that encrypt the frames of overlays, by their addresses.
	Tunnels map[netip.Addr]seedbed.Tunnel
	// Groups are the security groups, in any order. One that is not valid allows nothing, and is logged.
	Groups []seedbed.SecurityGroup
}

// Port is one NIC of a guest: what its interface may send, and the mark that names it.
type Port struct {
	// Tap is the host-side interface name, at most 15 characters.
	Tap string
	// MAC is the only Ethernet source address that the port may use.
	MAC seedbed.MAC
	// Addr is the only IPv4 source address that the port may use, unless its network allows others. It is the zero
	// Addr in a network whose addresses come from elsewhere, and the port may then use any.
	Addr netip.Addr
	// Secondary are further source addresses that the port may use.
	Secondary []netip.Addr
	// Mark is set on its packets to the metadata address, where SO_MARK reads it. It is never 0.
	Mark uint32
	// Bridge is the bridge of a network of the same state.
	Bridge string
	// Groups are the security groups that it is in, by their names; see seedbed.Open. One that the state does not have
	// allows nothing.
	Groups []string
	// In and Out are how fast it may receive and send, if its network does not limit it to less; 0 is no limit.
	In, Out seedbed.BitRate
	// Forwards are the ports of the node that go to the guest, if its network reaches outside. Of two ports that have
	// forwards of the same port, the first by tap has it.
	Forwards []seedbed.Forward
	// Floating is the address by which other hosts reach the guest, and which they see, if its network lends such addresses.
	// Floating6 is the one of IPv6.
	Floating, Floating6 netip.Addr
}

// Peer is a NIC of a guest of another node, in a bridged network or an overlay. Rules of security groups that name one of
// its groups mean it as well. Who sends is told by the MAC and the uplink of the network, beyond which a node can prove
// nothing. In an overlay, only peers send frames from other nodes.
type Peer struct {
	MAC seedbed.MAC
	// Addr is its address, or the zero Addr, and Secondary are its further ones.
	Addr      netip.Addr
	Secondary []netip.Addr
	// Bridge is that of the network on this node.
	Bridge string
	Groups []string
	// Node is the address of its node, where frames of an overlay go to. Without one, they go nowhere.
	Node netip.Addr
}

// Diff is what changes in a state.
type Diff struct {
	// Gone are the taps of ports that go, and Ports those that come or are replaced.
	Gone  []string
	Ports []Port
	// GonePeers and Peers are the same of peers.
	GonePeers []seedbed.MAC
	Peers     []Peer
}

// NoBound as Options.Fragments takes all.
const NoBound = -1

// Options are settings for the whole node.
type Options struct {
	// MetadataPort is the TCP port that the metadata server listens on. If it is not 80 (0 means
	// 80), connections to 169.254.169.254:80 are redirected to that port.
	MetadataPort int
	// Connections is how many connections of one NIC the node tracks at a time: those through its
	// NAT, and those to the node. The first packet of a further one is dropped. Where security groups
	// restrict a NIC, it begins twice as many flows at once, and a sixteenth of them each second. 0 means
	// DefaultConnections.
	Connections int
	// Fragments is how many fragments a second the node takes of one NIC, of packets to the node,
	// through its NAT, and, with br_netfilter, to other guests. Further ones are dropped. 0 means
	// DefaultFragments, and NoBound takes all.
	Fragments int
	// Installation marks the bridges that Apply makes. A bridge that no longer has a network is
	// removed only by the installation that made it. It may be empty.
	Installation string
	// Uplinks are the interfaces of this node for the uplinks of bridged networks that have another name here.
	Uplinks map[string]string
	// Overlay is how the frames of overlays cross the wire between this node and the others.
	Overlay Overlay
}

// Overlay is how the frames of overlays cross the wire between a node and the others: as VXLAN over UDP, where each frame
// for all goes to each node that has a guest in the network.
type Overlay struct {
	// Encryption is the key of the node, and Port the UDP port, if it encrypts the frames, by WireGuard. It sends none to a
	// node that does not, and takes none from it.
	Encryption *wireguard.Identity
	Port       uint16
	// Group is the multicast group to which a frame for all goes instead.
	Group netip.Addr
	// Daemon is whether another program tells the kernel where the guests of other nodes are, such as one for EVPN.
	Daemon bool
}

// Manager changes and watches the network of one node. Its methods may be called from any
// goroutine; Apply and Cleanup wait for each other.
type Manager struct {
	log   *slog.Logger
	neigh *neighbours

	stats atomic.Pointer[Stats]

	mu sync.Mutex
	// wanted is the last state whose rules are in force. applied is what could be applied of it on
	// this node.
	wanted, applied *plan
	filters         filters
	// listening are the settings of the interfaces that take router advertisements; nil before the node is an IPv6 router.
	listening []string
	// leftFloating are the floating addresses that are left out, and why.
	leftFloating []seedbed.Check
	// told holds the problems and bridges that were already logged.
	told map[string]bool
	// shaped are the interfaces of guests whose rates are limited, by name; nil before the first Apply.
	shaped map[string]shape
	// unshaped is why some could not be limited.
	unshaped error
	// reached holds what was written of overlays, by bridge.
	reached map[string]reached
	// tunnels is what was written of the tunnels to other nodes.
	tunnels tunnels
}

// Open returns a Manager for the network namespace of the calling thread. It changes nothing.
func Open(log *slog.Logger) (*Manager, error) {
	n, err := openNeighbours()
	if err != nil {
		return nil, fmt.Errorf("open rtnetlink: %w", err)
	}
	return &Manager{log: log, neigh: n, told: map[string]bool{}, reached: map[string]reached{}}, nil
}

// Close releases the sockets. It does not change the network.
func (m *Manager) Close() error { return m.neigh.Close() }

// Apply makes the network of the node match s. It may be called again at any time: what is already
// correct is not changed, a bridge or rule that was removed is made again, and a call without a
// difference writes nothing. With many ports, the elements that an earlier process wrote are
// trusted by their digest in the kernel, so that a restart is quick; Verify checks them.
//
// The rules are in place before a bridge is up. A managed bridge whose network is not in s is
// removed if nothing is attached to it. Otherwise it stays, closed by the rules, and is logged.
//
// It returns ErrInvalid for an invalid state, before it changes anything. A network whose bridge
// name is taken by a foreign bridge, whose guests would take addresses from the node's own links, whose uplink the
// node does not have or cannot share, or which this version does not understand, is left out and its ports are closed,
// while the others are still applied. The error is then a *[LeftOut], which is ErrConflict. Change, Restore and Verify
// return it as well. A network whose bridge works, but does not reach other nodes or hosts at present, is not an error:
// Check says so.
func (m *Manager) Apply(ctx context.Context, s State, o Options) error {
	p, err := newPlan(s, o)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, err := range p.groups.wrong {
		m.tell("this version does not understand a security group: it allows nothing", err)
	}
	return m.take(p)
}

// Change applies the last state that Apply accepted, with a difference. It returns ErrInvalid and changes nothing if the
// resulting state is invalid, or if there is no last state.
func (m *Manager) Change(ctx context.Context, d Diff) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.wanted == nil {
		return seedbed.Errorf(seedbed.ErrInvalid, "no state was applied yet: apply one first")
	}
	p, err := m.wanted.with(d)
	if err != nil {
		return err
	}
	return m.take(p)
}

// tell logs an error that was not logged before. The caller holds m.mu.
func (m *Manager) tell(what string, err error) {
	if text := err.Error(); !m.told[text] {
		m.told[text] = true
		m.log.Error(what, "err", err)
	}
}

// take applies a plan. It keeps the plan as the last one if the rules are in force, even if the
// rest failed: applying the last plan again must not open a port that this plan closed. The caller
// holds m.mu.
func (m *Manager) take(p *plan) error {
	if err := p.groups.noRoom(); err != nil {
		m.tell("some security groups allow nothing", err)
	}
	before := m.applied
	err := m.apply(p, false)
	if m.applied != before {
		m.wanted = p
	}
	return err
}

// Restore applies the last state again whose rules Apply or Change put in force. That repairs what
// was changed since: bridges, addresses, sysctls, rules. Without such a state it does nothing.
func (m *Manager) Restore(ctx context.Context) error { return m.again(ctx, false) }

// Verify is like Restore, but also verifies every element in the kernel if nftables rules were
// changed since the last time, or if the elements were trusted by their digest (see Apply). With
// 100,000 ports that takes two seconds of one processor, during which Apply waits. The rules are in
// force throughout.
func (m *Manager) Verify(ctx context.Context) error { return m.again(ctx, true) }

func (m *Manager) again(ctx context.Context, thorough bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.wanted == nil {
		return nil
	}
	m.tunnels.routes = nil // to be listed
	if thorough {
		m.reached, m.shaped, m.tunnels = map[string]reached{}, nil, tunnels{}
		g, err := generation()
		if err != nil {
			return err
		}
		thorough = g != m.filters.generation || m.filters.believed
	}
	return m.apply(m.wanted, thorough)
}

// apply makes the node match wanted, and sets m.applied once the rules are in force. The caller
// holds m.mu.
func (m *Manager) apply(wanted *plan, thorough bool) error {
	rt, err := dialRoute()
	if err != nil {
		return err
	}
	defer rt.Close()
	rt.daemon = wanted.overlay.Daemon
	links, err := rt.links()
	if err != nil {
		return err
	}
	routes, err := rt.routesFor(wanted, links)
	if err != nil {
		return err
	}
	addrs, err := rt.ownAddrs(wanted)
	if err != nil {
		return err
	}
	var problems []error
	if err := m.ensureTunnels(rt, wanted, links, addrs); err != nil {
		problems = append(problems, err)
	}
	p, left := wanted.withoutForeign(links, routes, addrs)
	p, floating, err := m.floating(rt, p, links)
	if err != nil {
		return err
	}
	if err := m.takeFloating(rt, floating); err != nil {
		problems = append(problems, err)
	}
	if err := m.retire(rt, p, links); err != nil {
		problems = append(problems, err)
	}
	if err := m.applyRules(p, thorough); err != nil {
		return outcome(left, append(problems, err)) // a bridge must not be up without its rules
	}
	if err := m.hostSysctls(p); err != nil {
		problems = append(problems, err)
	}
	if err := m.openTunnels(rt, p, links, addrs); err != nil {
		problems = append(problems, err)
	}
	problems = append(problems, m.ensureBridges(rt, p, links, left)...)
	m.answerRules(rt, p, links)
	if err := m.addFloating(rt, floating); err != nil {
		problems = append(problems, err)
	}
	m.noteShapes(m.ensureShapes(rt, p, links, false))
	m.applied = p
	if len(problems) == 0 {
		m.stats.Store(&Stats{Ports: len(p.ports), Networks: len(p.networks), Applied: time.Now()})
	}
	return outcome(left, problems)
}

// Stats is a snapshot for metrics.
type Stats struct {
	// Ports and Networks count what is applied on this node.
	Ports, Networks int
	// Applied is when the network was last made to match the state, or found to match it; zero
	// before the first time.
	Applied time.Time
}

// Stats returns what is applied. It does not wait for Apply.
func (m *Manager) Stats() Stats {
	if s := m.stats.Load(); s != nil {
		return *s
	}
	return Stats{}
}
