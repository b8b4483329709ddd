package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"

	"seedbed"
	"seedbed/feed"
	"seedbed/internal/config"
	"seedbed/metadata"
	"seedbed/netcfg"
)

// kernel is what the plane needs of package netcfg.
type kernel interface {
	Apply(ctx context.Context, s netcfg.State, o netcfg.Options) error
	Follow(ctx context.Context, bridges []string, fn func(bridge string, up bool)) error
	PortHolder(addr netip.AddrPort) (string, error)
}

// plane makes the kernel and the servers follow the feed: it is the feed's Applier.
type plane struct {
	network   kernel
	directory *metadata.Directory
	guests    *metadata.Server
	spool     *feed.Spool
	addr      netip.AddrPort // that metadata is served on, on each bridge
	port      uint16
	log       *slog.Logger

	// applying keeps an older state from being applied over a newer one.
	applying sync.Mutex
	mu       sync.Mutex
	state    feed.State // as last applied, and what the directory has

	changed chan struct{}
	asked   chan chan<- error // by alive
}

func newPlane(network kernel, directory *metadata.Directory, guests *metadata.Server, spool *feed.Spool, c config.Metadata, log *slog.Logger) *plane {
	return &plane{
		network: network, directory: directory, guests: guests, spool: spool, addr: c.Addr(), port: c.Port(), log: log,
		changed: make(chan struct{}, 1), asked: make(chan chan<- error),
	}
}

// Apply serves state: first the filters, so that no frame of a guest passes
// unproven, then the records. It returns once a guest that starts now is served.
func (p *plane) Apply(ctx context.Context, state feed.State) error {
	p.applying.Lock()
	defer p.applying.Unlock()
	if err := p.network.Apply(ctx, desired(state), p.options()); err != nil {
		return fmt.Errorf("network: %w", err)
	}
	if err := p.take(state); err != nil {
		return err
	}
	select {
	case p.changed <- struct{}{}:
	default:
	}
	return nil
}

func (p *plane) take(state feed.State) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.directory.Apply(metadata.State(state)); err != nil {
		return err
	}
	p.state = state
	return nil
}

func (p *plane) options() netcfg.Options { return netcfg.Options{MetadataPort: int(p.port)} }

// desired is what the host's network shall be for a state.
func desired(state feed.State) netcfg.State {
	bridges := bridgeNames(state)
	want := netcfg.State{Networks: state.Networks}
	for _, g := range state.Guests {
		for _, nic := range g.NICs {
			want.Ports = append(want.Ports, netcfg.Port{
				Tap: nic.ID.Tap(), MAC: nic.MAC, Addr: nic.Addr, Mark: nic.ID.Mark(), Bridge: bridges[nic.Network],
			})
		}
	}
	return want
}

// bridgeNames are the bridges by network.
func bridgeNames(state feed.State) map[string]string {
	bridges := map[string]string{}
	for _, n := range state.Networks {
		bridges[n.Name] = n.Bridge
	}
	return bridges
}

// run keeps one set of servers on each bridge until ctx ends. A bridge that
// someone deletes is made again; its servers start anew, because a listener is
// bound to the interface that it was made for.
func (p *plane) run(ctx context.Context) error {
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
			networks, names := p.networks()
			servers.assign(ctx, networks)
			if following == nil || !slices.Equal(following.names, names) {
				following.stop()
				following = p.follow(ctx, names, events)
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
		case answer := <-p.asked:
			answer <- p.check()
		}
	}
}

// restore applies the last state again.
func (p *plane) restore(ctx context.Context) error {
	p.applying.Lock()
	defer p.applying.Unlock()
	p.mu.Lock()
	state := p.state
	p.mu.Unlock()
	return p.network.Apply(ctx, desired(state), p.options())
}

// networks are those of the last state, with the names of their bridges, sorted.
func (p *plane) networks() ([]seedbed.Network, []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var names []string
	for _, n := range p.state.Networks {
		names = append(names, n.Bridge)
	}
	slices.Sort(names)
	return p.state.Networks, names
}
