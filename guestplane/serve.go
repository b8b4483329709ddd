package guestplane

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"seedbed"
	"seedbed/internal/sleep"
	"seedbed/metadata"
	"seedbed/netcfg/clock"
	"seedbed/netcfg/dhcp"
	"seedbed/netcfg/dhcp6"
	"seedbed/netcfg/dns"
	"seedbed/netcfg/ra"
)

// leaseTime is the lifetime of a DHCP lease. The instance keeps its address for life; a short lease
// only makes changes of the other options arrive.
const leaseTime = time.Hour

// ipv6Wait is the interval at which a bridge without IPv6 is checked for it. That it is switched on is a change of a sysctl, of which
// the kernel tells nobody. A bridge that has it is not checked again.
const ipv6Wait = 5 * time.Second

// serveNetwork serves metadata, DHCP, DNS and the time, and advertises the node, on the bridge of a network, the interface with that index,
// until ctx ends. A server that fails, for example because its port is taken, is restarted every
// second.
func (p *Plane) serveNetwork(ctx context.Context, network seedbed.Network, index int) {
	var servers sync.WaitGroup
	defer servers.Wait()
	if network.DHCP && network.Prefix.IsValid() {
		servers.Go(func() {
			p.persist(ctx, "DHCP", network.Bridge, func(ctx context.Context) error { return p.serveDHCP(ctx, network) })
		})
	}
	servers.Go(func() { p.serve6(ctx, network) })
	if network.Resolves() {
		resolver := p.resolver(network)
		for _, addr := range resolverAddrs(network) {
			servers.Go(func() {
				p.persistAt(ctx, addr, "DNS", network.Bridge, func(ctx context.Context) error {
					if err := resolver.Serve(ctx, network.Bridge, addr); err != nil {
						return p.explain(addr, err, dnsHint)
					}
					return nil
				})
			})
		}
	}
	if network.KeepsTime() {
		for _, addr := range timeAddrs(network) {
			servers.Go(func() {
				p.persistAt(ctx, addr, "time", network.Bridge, func(ctx context.Context) error {
					return clock.Serve(ctx, network.Bridge, addr.Addr())
				})
			})
		}
	}
	for _, addr := range p.addrs(index) {
		servers.Go(func() {
			p.persistAt(ctx, addr, "metadata", network.Bridge, func(ctx context.Context) error {
				return p.serveMetadata(ctx, network.Bridge, addr)
			})
		})
	}
}

// serve6 advertises the node on the bridge of a network, and answers DHCPv6 there, once the bridge has IPv6.
func (p *Plane) serve6(ctx context.Context, n seedbed.Network) {
	if !p.awaitIPv6(ctx, n.Bridge) {
		return
	}
	var servers sync.WaitGroup
	defer servers.Wait()
	link := ra.LinkOf(n)
	link.Former = p.formerPrefixes(n)
	servers.Go(func() {
		p.persist(ctx, "router advertisements", n.Bridge, func(ctx context.Context) error { return link.Serve(ctx, n.Bridge, p.log) })
	})
	if !n.DHCP || !n.Prefix6.IsValid() {
		return
	}
	server := dhcp6.Server{MAC: n.MAC, Lookup: func(mark uint32) (dhcp6.Offer, bool) {
		_, nic, ok := p.directory.FindMark(n.Bridge, mark)
		o := dhcp6.Offer{Addr: n.Addr6(nic.MAC), Prefix: n.Prefix6, DNS: link.DNS, Search: link.Search, NTP: n.NTP6(), Lease: leaseTime}
		if !n.BootServer.IsValid() {
			o.BootURL = n.BootFile
		}
		return o, ok
	}, Log: p.log}
	p.persist(ctx, "DHCPv6", n.Bridge, func(ctx context.Context) error { return server.Serve(ctx, n.Bridge) })
}

// maxFormer bounds the prefixes of before that a network's guests are told of.
const maxFormer = 4

// formerPrefixes returns the IPv6 prefixes that a network had before, as far as this process knows, and notes the present one.
func (p *Plane) formerPrefixes(n seedbed.Network) []netip.Prefix {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.prefixes[n.Name]
	if n.Prefix6.IsValid() && n.Kind != seedbed.NetworkBridged {
		all = append(slices.DeleteFunc(all, func(o netip.Prefix) bool { return o == n.Prefix6 }), n.Prefix6)
		all = all[max(0, len(all)-maxFormer-1):]
		p.prefixes[n.Name] = all
	}
	return slices.DeleteFunc(slices.Clone(all), func(o netip.Prefix) bool { return o == n.Prefix6 })
}

// forgetPrefixes forgets the prefixes of networks that are no more: one that is made under the same name is another.
func (p *Plane) forgetPrefixes(networks []seedbed.Network) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.prefixes, func(name string, _ []netip.Prefix) bool {
		return !slices.ContainsFunc(networks, func(n seedbed.Network) bool { return n.Name == name })
	})
}

// resolver returns the resolver of a network's guests. Those of an isolated one learn nothing of other networks.
func (p *Plane) resolver(n seedbed.Network) *dns.Server {
	c := dns.Config{Zone: p.zone(n), Counts: &p.queries, Others: p.others(n)}
	if n.Kind != seedbed.NetworkIsolated {
		c.Forwarder = p.forwarder
	}
	return dns.New(c)
}

// others returns dns.Config.Others for the guests of a network: the zones of the network's peers and, unless a guest may ask with the
// address of another, of its other networks. Another project does not choose the domains that they ask for, so its networks have
// those that follow from their names.
func (p *Plane) others(n seedbed.Network) func(netip.Addr) []dns.Zone {
	certain := !n.Allow.Addresses && n.Identity != seedbed.IdentityMAC
	return func(a netip.Addr) (others []dns.Zone) {
		of := n.Peers
		if certain {
			of = slices.Concat(p.names.networksOf(n.Name, a), of)
		}
		if len(of) == 0 {
			return nil
		}
		for _, o := range p.lastState().Networks {
			if !slices.Contains(of, o.Name) || !o.Resolves() {
				continue
			}
			if project := seedbed.ProjectOf(o.Name); project != seedbed.ProjectOf(n.Name) && project != seedbed.DefaultProject {
				o.Domain = ""
			}
			others = append(others, p.zone(o))
		}
		return others
	}
}

func (p *Plane) zone(n seedbed.Network) dns.Zone {
	return dns.Zone{Domain: n.GuestDomain(), Prefixes: []netip.Prefix{n.Prefix, n.Prefix6},
		Gateways: []netip.Addr{n.Gateway, n.Gateway6()}, Names: zoneOf{&p.names, n.Name},
		SharedPrefix: n.Kind == seedbed.NetworkBridged, SharedDomain: n.Kind == seedbed.NetworkBridged && n.Domain != ""}
}

// resolverAddrs returns the addresses at which a node resolves names for a network.
func resolverAddrs(n seedbed.Network) []netip.AddrPort {
	all := []netip.AddrPort{netip.AddrPortFrom(seedbed.ResolverAddr, 53)}
	if n.Resolves6() {
		all = append(all, netip.AddrPortFrom(seedbed.ResolverAddr6, 53))
	}
	if n.ResolvesAtGateway() {
		all = append(all, netip.AddrPortFrom(n.Gateway, 53))
	}
	return all
}

// timeAddrs returns the addresses at which a node tells the guests of a network the time.
func timeAddrs(n seedbed.Network) []netip.AddrPort {
	all := []netip.AddrPort{netip.AddrPortFrom(seedbed.TimeAddr, clock.Server.Port())}
	if n.KeepsTime6() {
		all = append(all, netip.AddrPortFrom(seedbed.TimeAddr6, clock.Server.Port()))
	}
	return all
}

// addrs returns the addresses at which metadata is served on the interface with that index. The
// zone is the index, because package net caches the names of interfaces for a minute.
func (p *Plane) addrs(index int) []netip.AddrPort {
	return []netip.AddrPort{
		netip.AddrPortFrom(seedbed.MetadataAddr, p.port),
		netip.AddrPortFrom(seedbed.MetadataAddr6, p.port),
		netip.AddrPortFrom(seedbed.MetadataAddr6LinkLocal.WithZone(strconv.Itoa(index)), p.port),
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
		return p.explain(addr, err, redirectHint)
	}
	return p.guests.Serve(ctx, ln)
}

// persistAt is persist for a server at an address, from when the bridge can have it.
func (p *Plane) persistAt(ctx context.Context, addr netip.AddrPort, what, bridge string, serve func(context.Context) error) {
	if addr.Addr().Is4() || p.awaitIPv6(ctx, bridge) {
		p.persist(ctx, what, bridge, serve)
	}
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

// redirectHint says what to do about another program at the port of the metadata service.
const redirectHint = "stop it, or set metadata.listen to redirect"

// dnsHint is the same for the node's resolver.
const dnsHint = "stop it, or give the network other DNS (seedbed network set NAME --dns ADDRESS)"

// explain adds the holder of the port to an error of listening, and what to do about it.
func (p *Plane) explain(addr netip.AddrPort, err error, hint string) error {
	holder, lookErr := p.host.PortHolder(addr)
	if lookErr != nil || holder == "" {
		return err
	}
	return seedbed.Errorf(seedbed.ErrUnavailable, "%s is held by %s: %s", addr, holder, hint)
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
				server = seedbed.MetadataAddr
			}
			options := network.NetworkOptions
			options.Domain = network.GuestDomain()
			if !network.Kind.Outside() { // the default route is the way there otherwise
				options.Routes = slices.Concat(options.Routes, network.RoutesToPeers())
			}
			return dhcp.Offer{
				Server: server, Addr: nic.Addr, Prefix: network.Prefix, Gateway: network.Gateway, DNS: network.DNS4(),
				Hostname: guest.Name, Lease: leaseTime,
				Isolated: network.Kind == seedbed.NetworkIsolated, Options: options,
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
