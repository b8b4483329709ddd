package guestplane

import (
	"context"
	"log/slog"
	"net"
	"reflect"

	"seedbed"
)

// bridges are the managed bridges that are up, each with a goroutine that serves it while a network
// has it.
type bridges struct {
	serve func(context.Context, seedbed.Network, int) // on the interface with that index, until its context ends
	index func(bridge string) (int, error)
	log   *slog.Logger

	networks map[string]seedbed.Network // by bridge
	up       map[string]int             // the interface's index by bridge
	running  map[string]*service
}

// service serves one bridge. Its sockets are bound to the interface that the bridge was at its
// start, not to its name.
type service struct {
	network seedbed.Network
	index   int
	cancel  context.CancelFunc
	done    chan struct{}
}

func newBridges(serve func(context.Context, seedbed.Network, int), index func(string) (int, error), log *slog.Logger) *bridges {
	return &bridges{serve: serve, index: index, log: log, up: map[string]int{}, running: map[string]*service{}}
}

// ifindex returns the index of an interface.
func ifindex(name string) (int, error) {
	i, err := net.InterfaceByName(name)
	if err != nil {
		return 0, err
	}
	return i.Index, nil
}

// assign sets the networks to serve.
func (b *bridges) assign(ctx context.Context, networks []seedbed.Network) {
	b.networks = map[string]seedbed.Network{}
	for _, n := range networks {
		b.networks[n.Bridge] = n
	}
	b.match(ctx)
}

// arrived records that a bridge is up. It may be another interface than before.
func (b *bridges) arrived(ctx context.Context, bridge string) {
	index, err := b.index(bridge)
	if err != nil {
		// It is most likely gone again, and the next event reports that. Index 0 is never valid, so
		// the servers restart with the next interface.
		b.log.Warn("look up a bridge", "bridge", bridge, "err", err)
	}
	b.up[bridge] = index
	b.match(ctx)
}

// left records that a bridge is gone or down.
func (b *bridges) left(ctx context.Context, bridge string) {
	delete(b.up, bridge)
	b.match(ctx)
}

// match stops the services of interfaces and networks that are gone, waits for them, and starts
// missing ones.
func (b *bridges) match(ctx context.Context) {
	b.end(func(bridge string, s *service) bool {
		index, up := b.up[bridge]
		return !up || index != s.index || !reflect.DeepEqual(b.networks[bridge], s.network)
	})
	for bridge, index := range b.up {
		if n, ok := b.networks[bridge]; ok && b.running[bridge] == nil {
			b.running[bridge] = b.start(ctx, n, index)
		}
	}
}

func (b *bridges) start(ctx context.Context, n seedbed.Network, index int) *service {
	ctx, cancel := context.WithCancel(ctx)
	s := &service{n, index, cancel, make(chan struct{})}
	go func() {
		defer close(s.done)
		b.serve(ctx, n, index)
	}()
	return s
}

// end stops the services that which selects. It stops them in parallel, because a guest can keep
// each of them busy for a while.
func (b *bridges) end(which func(string, *service) bool) {
	var ending []*service
	for bridge, s := range b.running {
		if which(bridge, s) {
			s.cancel()
			ending = append(ending, s)
			delete(b.running, bridge)
		}
	}
	for _, s := range ending {
		<-s.done
	}
}

// stop stops all services.
func (b *bridges) stop() { b.end(func(string, *service) bool { return true }) }
