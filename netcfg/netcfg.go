// Package netcfg makes a host's network what Seedbed needs it to be: the
// managed bridges with their IPv4 and IPv6 addresses, and the nftables rules by which the
// kernel proves which guest sent a frame. The caller hands over the whole
// desired state; Apply compares it with the kernel and changes what differs.
//
// It speaks rtnetlink, nftables and sock_diag itself and starts no process.
// Everything happens in the network namespace of the calling thread and needs
// CAP_NET_ADMIN. Bridges of ours carry the alias "seedbed:<network>@<installation>";
// the tables are "bridge seedbed" and "inet seedbed".
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
)

// MetadataAddr is where guests find their metadata over IPv4. Every managed bridge has it as a /32.
var MetadataAddr = netip.AddrFrom4([4]byte{169, 254, 169, 254})

// State is everything that the host's network shall be.
type State struct {
	// Networks are the managed bridges. Prefixes may overlap, or be equal, where at
	// most one of such networks has NAT: what guests ask of the host stays on their
	// bridge, and the host itself reaches the network with NAT, or the first.
	Networks []seedbed.Network
	// Ports are the guests' NICs; a port's interface need not exist yet. Nil means no ports.
	Ports iter.Seq[Port]
}

// Port is one NIC of a guest: what its interface may send, and the mark that names it.
type Port struct {
	// Tap is the host-side interface name, at most 15 characters.
	Tap string
	// MAC is the only Ethernet source address that the port may use.
	MAC seedbed.MAC
	// Addr is the only IPv4 source address that it may use, unless its network allows others.
	Addr netip.Addr
	// Mark is put on its packets to the metadata address, and read there with SO_MARK; never 0.
	Mark uint32
	// Bridge is the bridge of a network of the same state.
	Bridge string
}

// Options are what the operator chose for the whole host.
type Options struct {
	// MetadataPort is the TCP port that the metadata server listens on. With any other than 80 (0
	// means 80), connections to 169.254.169.254:80 are sent to 169.254.169.254 at that port.
	MetadataPort int
	// Installation marks the bridges that are made, so that one that has no network
	// any more is removed only by the installation that made it. It may be empty.
	Installation string
}

// Manager changes and watches the network of one host. Its methods may be
// called from any goroutine; Apply and Cleanup wait for each other.
type Manager struct {
	log   *slog.Logger
	neigh *neighbours

	stats atomic.Pointer[Stats]

	mu sync.Mutex
	// wanted is the last state whose rules are in force, and applied what that was on this host.
	wanted, applied *plan
	filters         filters
	// told are the problems and the bridges that were logged already.
	told map[string]bool
}

// Open makes a Manager in the network namespace of the calling thread. It
// changes nothing.
func Open(log *slog.Logger) (*Manager, error) {
	n, err := openNeighbours()
	if err != nil {
		return nil, fmt.Errorf("open rtnetlink: %w", err)
	}
	return &Manager{log: log, neigh: n, told: map[string]bool{}}, nil
}

// Close releases the sockets. It does not change the network.
func (m *Manager) Close() error { return m.neigh.Close() }

// Apply makes the host's network what s says. It may be called again at any
// time: what is right already is not touched, a bridge or rule that someone
// removed is made again, and a call without a difference writes nothing. With
// many ports the elements that an earlier process wrote are taken for what
// their digest in the kernel says, so that a restart is quick; Verify looks.
//
// The rules are in place before a bridge is up. A bridge of ours whose network is not in s is
// removed when nothing is attached to it; otherwise it stays, closed by the rules, and is logged.
//
// It gives ErrInvalid for a state that cannot be right, before anything is
// changed. A network whose bridge name is taken by another bridge is left out, and
// the others are still applied: that is a *[LeftOut], which is ErrConflict,
// and the ports of such a network are closed. Change, Restore and Verify give it as well.
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
	return m.take(p)
}

// Change applies the last state, that Apply took, without the ports of the
// taps in gone, and with those in ports, new or changed. It gives ErrInvalid
// and changes nothing where the outcome cannot be right, or there is no such state.
func (m *Manager) Change(ctx context.Context, gone []string, ports []Port) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.wanted == nil {
		return seedbed.Errorf(seedbed.ErrInvalid, "no state was applied yet: apply one first")
	}
	p, err := m.wanted.with(gone, ports)
	if err != nil {
		return err
	}
	return m.take(p)
}

// take applies a plan, and keeps it if its rules are in force, although some of
// the rest may not be: what is applied again later must not open a port that
// the plan closed. m.mu is held.
func (m *Manager) take(p *plan) error {
	before := m.applied
	err := m.apply(p, false)
	if m.applied != before {
		m.wanted = p
	}
	return err
}

// Restore applies the last state again whose rules Apply or Change put in
// force, and so repairs what was changed since: bridges, addresses,
// switches, rules. Without one it does nothing.
func (m *Manager) Restore(ctx context.Context) error { return m.again(ctx, false) }

// Verify is Restore and, when anybody has changed nftables rules since the
// last time, or the elements were believed by their digest (see Apply), makes
// sure of every element in the kernel. With 100,000 ports that takes two seconds
// of one processor, during which Apply waits; the rules are in force throughout.
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
	if thorough {
		g, err := generation()
		if err != nil {
			return err
		}
		thorough = g != m.filters.generation || m.filters.believed
	}
	return m.apply(m.wanted, thorough)
}

// apply makes the host what wanted says, and m.applied another plan once the
// rules are in force; m.mu is held.
func (m *Manager) apply(wanted *plan, thorough bool) error {
	rt, err := dialRoute()
	if err != nil {
		return err
	}
	defer rt.Close()
	links, err := rt.links()
	if err != nil {
		return err
	}
	p, left := wanted.withoutForeign(links)
	var problems []error
	if err := m.retire(rt, p, links); err != nil {
		problems = append(problems, err)
	}
	if err := m.applyRules(p, thorough); err != nil {
		return outcome(left, append(problems, err)) // no bridge goes up without its rules
	}
	if err := m.hostSysctls(p); err != nil {
		problems = append(problems, err)
	}
	for _, n := range p.networks {
		if err := m.ensureBridge(rt, n, p, links); err != nil {
			problems = append(problems, fmt.Errorf("network %s: %w", n.Name, err))
		}
	}
	m.applied = p
	if len(problems) == 0 {
		m.stats.Store(&Stats{Ports: len(p.ports), Networks: len(p.networks), Applied: time.Now()})
	}
	return outcome(left, problems)
}
