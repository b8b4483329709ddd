package guestplane

import (
	"context"
	"errors"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"seedbed"
	"seedbed/internal/sleep"
	"seedbed/metadata"
	"seedbed/netcfg"
	"seedbed/netcfg/dhcp"
)

// leaseTime is the lifetime of a DHCP lease. The instance keeps its address for life; a short lease
// only makes changes of the other options arrive.
const leaseTime = time.Hour

// ipv6Wait is the interval at which a bridge is checked for IPv6.
const ipv6Wait = 5 * time.Second

// serveNetwork serves metadata and DHCP on the bridge of a network, the interface with that index,
// until ctx ends. A server that fails, for example because its port is taken, is restarted every
// second.
func (p *Plane) serveNetwork(ctx context.Context, network seedbed.Network, index int) {
	var servers sync.WaitGroup
	defer servers.Wait()
	if network.DHCP {
		servers.Go(func() {
			p.persist(ctx, "DHCP", network.Bridge, func(ctx context.Context) error { return p.serveDHCP(ctx, network) })
		})
	}
	for _, addr := range p.addrs(index) {
		servers.Go(func() {
			if addr.Addr().Is6() && !p.awaitIPv6(ctx, network.Bridge) {
				return
			}
			p.persist(ctx, "metadata", network.Bridge, func(ctx context.Context) error { return p.serveMetadata(ctx, network.Bridge, addr) })
		})
	}
}

// addrs returns the addresses at which metadata is served on the interface with that index. The
// zone is the index, because package net caches the names of interfaces for a minute.
func (p *Plane) addrs(index int) []netip.AddrPort {
	return []netip.AddrPort{
		netip.AddrPortFrom(netcfg.MetadataAddr, p.port),
		netip.AddrPortFrom(netcfg.MetadataAddr6, p.port),
		netip.AddrPortFrom(netcfg.MetadataAddr6LinkLocal.WithZone(strconv.Itoa(index)), p.port),
	}
}

// awaitIPv6 waits until the bridge has IPv6. It returns false if ctx ends first.
func (p *Plane) awaitIPv6(ctx context.Context, bridge string) bool {
	for ctx.Err() == nil {
		if p.host.HasIPv6(bridge) {
			return true
		}
		sleep.For(ctx, ipv6Wait)
	}
	return false
}

func (p *Plane) serveMetadata(ctx context.Context, bridge string, addr netip.AddrPort) error {
	ln, err := metadata.Listen(ctx, bridge, addr)
	if err != nil {
		return p.explain(addr, err)
	}
	return p.guests.Serve(ctx, ln)
}

// persist runs one server until ctx ends. It restarts the server whenever it fails, and logs each
// new problem once.
func (p *Plane) persist(ctx context.Context, what, bridge string, serve func(context.Context) error) {
	var last string
	for ctx.Err() == nil {
		err := serve(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			err = errors.New("it ended unexpectedly")
		}
		if err.Error() != last {
			last = err.Error()
			p.log.Error("server does not run; trying again", "server", what, "bridge", bridge, "err", err)
		}
		sleep.For(ctx, time.Second)
	}
}

// explain adds the holder of the port to an error of listening.
func (p *Plane) explain(addr netip.AddrPort, err error) error {
	holder, lookErr := p.host.PortHolder(addr)
	if lookErr != nil || holder == "" {
		return err
	}
	return seedbed.Errorf(seedbed.ErrUnavailable, "%s is held by %s: stop it, or set metadata.listen to redirect", addr, holder)
}

// serveDHCP answers DHCP on the bridge of a network.
func (p *Plane) serveDHCP(ctx context.Context, network seedbed.Network) error {
	server := dhcp.Server{
		Lookup: func(mac seedbed.MAC) (dhcp.Offer, bool) {
			guest, nic, ok := p.directory.Find(network.Bridge, mac)
			if !ok {
				return dhcp.Offer{}, false
			}
			var server netip.Addr
			if network.Kind == seedbed.NetworkBridged { // its gateway is another host
				server = netcfg.MetadataAddr
			}
			return dhcp.Offer{
				Server: server, Addr: nic.Addr, Prefix: network.Prefix, Gateway: network.Gateway, DNS: network.DNS,
				Hostname: guest.Name, Lease: leaseTime,
				Isolated: network.Kind == seedbed.NetworkIsolated, Options: network.NetworkOptions,
			}, true
		},
		OnLease: func(mac seedbed.MAC, addr netip.Addr, until time.Time) {
			if guest, _, ok := p.directory.Find(network.Bridge, mac); ok {
				p.spool.Add(seedbed.GuestEvent{
					Instance: guest.ID, Kind: seedbed.GuestLease, At: time.Now(), MAC: mac, Addr: addr, Until: until,
				})
			}
		},
		Log: p.log,
	}
	return server.Serve(ctx, network.Bridge)
}
