// Package netcfg makes a host's network what Seedbed needs it to be: the
// managed bridges with their addresses, and the nftables rules by which the
// kernel proves which guest sent a frame. The caller hands over the whole
// desired state; Apply compares it with the kernel and changes what differs.
//
// It speaks rtnetlink, nftables and sock_diag itself and starts no process.
// Everything happens in the network namespace of the calling thread and needs
// CAP_NET_ADMIN. Bridges of ours carry the alias "seedbed:<network>"; the
// tables are "bridge seedbed" and "inet seedbed".
package netcfg

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"

	"seedbed"
)

// MetadataAddr is where guests find their metadata. Every managed bridge has it as a /32.
var MetadataAddr = netip.AddrFrom4([4]byte{169, 254, 169, 254})

// State is everything that the host's network shall be.
type State struct {
	// Networks are the managed bridges. Their prefixes must not overlap.
	Networks []seedbed.Network
	// Ports are the guests' NICs; a port's interface need not exist yet.
	Ports []Port
}

// Port is one NIC of a guest: what its interface may send, and the mark that names it.
type Port struct {
	// Tap is the host-side interface name, at most 15 characters.
	Tap string
	// MAC is the only Ethernet source address that the port may use.
	MAC seedbed.MAC
	// Addr is the only IPv4 source address that it may use.
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
}

// Manager changes and watches the network of one host. Its methods may be
// called from any goroutine; Apply and Cleanup wait for each other.
type Manager struct {
	log   *slog.Logger
	neigh *neighbours

	mu sync.Mutex
	// applied is the last state that Apply was given, for Check.
	applied *plan
	// left are the bridges without a network that were already reported.
	left map[string]bool
}

// Open makes a Manager in the network namespace of the calling thread. It
// changes nothing.
func Open(log *slog.Logger) (*Manager, error) {
	n, err := openNeighbours()
	if err != nil {
		return nil, fmt.Errorf("open rtnetlink: %w", err)
	}
	return &Manager{log: log, neigh: n, left: map[string]bool{}}, nil
}

// Close releases the sockets. It leaves the network as it is.
func (m *Manager) Close() error { return m.neigh.Close() }

// Apply makes the host's network what s says. It may be called again at any
// time: what is right already is left alone, a bridge or rule that someone
// removed is made again, and a call without a difference writes nothing.
//
// The rules are in place before a bridge is up. A bridge of ours whose network is not in s is
// removed when nothing is attached to it; otherwise it stays, closed by the rules, and is logged.
//
// It gives ErrInvalid for a state that cannot be right, before anything is
// changed, and ErrConflict for a network whose bridge name belongs to somebody
// else; the other networks are applied all the same.
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

	rt, err := dialRoute()
	if err != nil {
		return err
	}
	defer rt.Close()
	links, err := rt.links()
	if err != nil {
		return err
	}
	var problems []error
	if err := m.retire(rt, p, links); err != nil {
		problems = append(problems, err)
	}
	problems = append(problems, p.dropForeign(links)...)
	if err := m.applyRules(p); err != nil {
		return errors.Join(append(problems, err)...) // no bridge goes up without its rules
	}
	if err := hostSysctls(p); err != nil {
		problems = append(problems, err)
	}
	for _, n := range p.networks {
		if err := m.ensureBridge(rt, n, p, links); err != nil {
			problems = append(problems, fmt.Errorf("network %s: %w", n.Name, err))
		}
	}
	m.applied = p
	return errors.Join(problems...)
}
