package guestplane

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"sync"

	"seedbed"
	"seedbed/feed"
	"seedbed/metadata"
	"seedbed/netcfg"
	"seedbed/netcfg/dns"
)

// Kernel applies desired state to the node's network.
type Kernel interface {
	Apply(ctx context.Context, s netcfg.State, o netcfg.Options) error
	Change(ctx context.Context, d netcfg.Diff) error
	Restore(ctx context.Context) error
	Verify(ctx context.Context) error
}

// Host is what the servers need to know about the node.
type Host interface {
	Follow(ctx context.Context, bridges, uplinks []string, fn func(bridge string, up bool)) error
	PortHolder(addr netip.AddrPort) (string, error)
	HasIPv6(bridge string) bool
	Check(ctx context.Context) []seedbed.Check
	Floating() ([]seedbed.AddressProbe, error)
}

// Plane makes the kernel and the servers follow the feed. It is the feed's Applier.
type Plane struct {
	kernel    Kernel
	host      Host
	directory *metadata.Directory
	guests    *metadata.Server
	spool     *feed.Spool
	port      uint16 // that metadata is served on, at each of its addresses
	log       *slog.Logger
	// connections and fragments are bounds of each NIC; see Config.
	connections, fragments int
	uplinks                map[string]string
	overlay                netcfg.Overlay
	node                   string
	forwarder              *dns.Forwarder
	tellLeftOut            func(map[string]error) error

	// applying keeps an older state from being applied over a newer one.
	applying sync.Mutex
	// whole is true if the kernel and the directory may have different states, so that the next
	// state must be applied as a whole. Guarded by applying.
	whole bool

	// settling keeps an older result of the kernel from replacing a newer one.
	settling sync.Mutex

	mu      sync.Mutex
	state   seedbed.GuestPlaneState // as last applied, and what the directory has
	leftOut map[string]error        // why networks are left out, by name
	noted   bool                    // leftOut was told
	awaited map[arrival]bool        // new NICs without a bridge; see Held
	// prefixes are the IPv6 prefixes that each network had, by its name, the last one last.
	prefixes map[string][]netip.Prefix

	names    names
	floating floating
	queries  dns.Counts // of the resolvers

	changed chan struct{}
	probes  chan chan<- error // by Alive
}

// Config is what a plane works on.
type Config struct {
	// Kernel and Host are the node's network; a netcfg.Manager is both.
	Kernel Kernel
	Host   Host
	// Directory holds the guests that Guests serves.
	Directory *metadata.Directory
	Guests    *metadata.Server
	// Spool takes the events of the DHCP servers.
	Spool *feed.Spool
	// Port is the TCP port that metadata is served on, at each of its addresses.
	Port uint16
	// Connections is how many connections of one NIC the node tracks; see netcfg.Options.
	Connections int
	// Fragments is how many fragments a second the node takes of one NIC; see netcfg.Options.
	Fragments int
	// Uplinks are the interfaces of this node for uplinks of another name; see netcfg.Options.
	Uplinks map[string]string
	// Overlay is how the frames of overlays cross the wire; see netcfg.Options.
	Overlay netcfg.Overlay
	// Node is the name of this node.
	Node string
	// Forwarder asks the resolvers of the node what guests want to know of other networks.
	Forwarder *dns.Forwarder
	// LeftOut is told which networks the node leaves out, by name, and why; nil if nothing is.
	LeftOut func(map[string]error) error
	Log     *slog.Logger
}

// New returns a plane that has not applied anything yet.
func New(c Config) *Plane {
	return &Plane{
		kernel: c.Kernel, host: c.Host, directory: c.Directory, guests: c.Guests, spool: c.Spool, log: c.Log, whole: true,
		port: c.Port, connections: c.Connections, fragments: c.Fragments, uplinks: c.Uplinks, overlay: c.Overlay,
		forwarder: c.Forwarder, node: c.Node, tellLeftOut: c.LeftOut,
		floating: floating{asked: map[lent]bool{}, used: map[lent]seedbed.AddressUse{}},
		awaited:  map[arrival]bool{}, prefixes: map[string][]netip.Prefix{},
		changed: make(chan struct{}, 1), probes: make(chan chan<- error),
	}
}

// Apply serves state: first the filters, so that unverified frames of a guest never pass, then the
// records. Once it returns, a guest that starts is served, unless its network is left out.
func (p *Plane) Apply(ctx context.Context, state seedbed.GuestPlaneState) error {
	p.applying.Lock()
	defer p.applying.Unlock()
	before := p.lastState()
	small := !p.whole && state.Since == before.Revision && reflect.DeepEqual(state.Networks, before.Networks) &&
		reflect.DeepEqual(state.Groups, before.Groups) && maps.Equal(state.Nodes, before.Nodes) &&
		maps.Equal(state.Tunnels, before.Tunnels) &&
		slices.Equal(state.TokenKey, before.TokenKey)
	p.whole = true // until both have the new state
	var err error
	if small {
		diff := changes(before, state)
		err = p.settle(func() error { return p.kernel.Change(ctx, diff) })
	} else {
		err = p.settle(func() error { return p.kernel.Apply(ctx, p.desired(state), p.options(state)) })
	}
	if err != nil {
		return fmt.Errorf("network: %w", err)
	}
	if err := p.directory.Apply(state); err != nil {
		return err
	}
	if small {
		p.names.change(before, state)
	} else {
		p.names.replace(state)
	}
	p.whole = false
	p.await(before, state)
	p.setState(state)
	if !small {
		p.forgetPrefixes(state.Networks)
		returnMemory() // of the temporary forms of records and filters
	}
	return nil
}

func (p *Plane) lastState() seedbed.GuestPlaneState {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state
}

func (p *Plane) setState(state seedbed.GuestPlaneState) {
	state.Changed, state.ChangedPeers = nil, nil // only needed for this call
	p.mu.Lock()
	p.state = state
	p.mu.Unlock()
	p.signal()
}

// signal makes Run check the state again.
func (p *Plane) signal() {
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// Run keeps one set of servers on each bridge until ctx ends. A deleted bridge is made again and
// its servers are restarted, because a listener is bound to the interface that it was made for.
func (p *Plane) Run(ctx context.Context) error {
	servers := newBridges(p.serveNetwork, ifindex, p.log)
	defer servers.stop()
	repair := repair{restore: p.restore, failed: func(err error) {
		p.log.Error("a bridge went away and cannot be made again now; trying again", "err", err)
	}}
	var following *follower
	defer func() { following.stop() }()
	events := make(chan linkEvent)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-p.changed:
			networks, names, uplinks := p.networks()
			servers.assign(ctx, networks)
			if following == nil || !slices.Equal(following.names, names) || !slices.Equal(following.uplinks, uplinks) {
				following.stop()
				following = p.follow(ctx, names, uplinks, events)
			}
		case e := <-events:
			if e.up {
				servers.arrived(ctx, e.bridge)
				continue
			}
			servers.left(ctx, e.bridge)
			repair.try(ctx)
		case <-repair.again:
			repair.try(ctx)
		case answer := <-p.probes:
			answer <- p.check()
		}
	}
}

// networks returns the networks of the last state that are not left out, and the sorted names of
// the bridges of all networks, and of this node's uplinks. These are watched, because a foreign bridge
// of such a name may go away, and an uplink come.
func (p *Plane) networks() (networks []seedbed.Network, names, uplinks []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, n := range p.state.Networks {
		if n.Kind.Served() {
			names = append(names, n.Bridge)
		}
		for _, name := range []string{n.Uplink, n.FloatingUplink} {
			if name != "" {
				uplinks = append(uplinks, cmp.Or(p.uplinks[name], name))
			}
		}
		if p.leftOut[n.Name] == nil && n.Kind.Served() {
			networks = append(networks, n)
		}
	}
	slices.Sort(names)
	slices.Sort(uplinks)
	return networks, names, slices.Compact(uplinks)
}
