package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"

	"seedbed"
	"seedbed/feed"
	"seedbed/guestplane"
	"seedbed/internal/config"
	"seedbed/internal/mtls"
	"seedbed/internal/run"
	"seedbed/metadata"
	"seedbed/netcfg"
	"seedbed/netcfg/dns"
	"seedbed/netcfg/wireguard"
)

// serve runs the guest plane until ctx ends. The bridges and filters stay.
func serve(ctx context.Context, c config.Config, log *slog.Logger) error {
	guestplane.SaveMemory()
	network, err := netcfg.Open(log)
	if err != nil {
		return err
	}
	defer network.Close()
	remotes, certificate, err := controlHosts(c, log)
	if err != nil {
		return err
	}
	spool, err := feed.OpenSpool(feed.SpoolConfig{Socket: c.Feed.Socket, Remotes: remotes, Node: c.Node, Dir: c.Metadata.State, Log: log})
	if err != nil {
		return err
	}
	overlay := overlay(c, log) // in the directory of the spool
	directory := metadata.NewDirectory()
	for e := range spool.Posted() {
		directory.Posted(e)
	}
	guests := metadata.New(metadata.Config{
		Directory: directory, Neighbour: network.Neighbour, HasLink: network.HasLink,
		OnEvent: spool.Add, OnReport: spool.AddDurable, Log: log,
	})
	p := guestplane.New(guestplane.Config{
		Kernel: network, Host: network, Directory: directory, Guests: guests, Spool: spool, Port: c.Metadata.Port(),
		Connections: c.Metadata.TrackedConnections, Fragments: fragments(c.Metadata), Uplinks: c.Network.Uplinks, Overlay: overlay,
		Node: c.Node, Forwarder: forwarder(c.Network), Log: log,
		LeftOut: func(networks map[string]error) error { return netcfg.SaveLeftOut(c.Metadata.State, networks) },
	})
	client := feed.NewClient(feed.ClientConfig{
		Socket: c.Feed.Socket, Remotes: remotes, Node: c.Node, Dir: c.Metadata.State, Applier: p, Hold: p.Held, Log: log,
	})
	health, err := run.ListenLoopback(ctx, c.Metadata.Health)
	if err != nil {
		return err
	}
	defer health.Close()

	registry := run.NewRegistry()
	registry.MustRegister(guestplane.NewCollector(p, client, network, c.Metadata.State))
	group := run.NewGroup(log)
	group.Add("spool", spool.Run)
	group.Add("feed", client.Run)
	group.Add("bridges", p.Run)
	group.Add("upkeep", p.Upkeep)
	group.Add("health", func(ctx context.Context) error {
		return run.Health{Checks: checks(p, client, spool, c.Metadata.State, certificate), Registry: registry}.Serve(ctx, health)
	})
	group.Add("watchdog", run.Watchdog(log, p.Alive))
	log.Info("listening", "port", c.Metadata.Port(), "health", c.Metadata.Health)
	return group.Run(ctx)
}

// controlHosts returns the hosts that serve the feed, and the checks of the client certificate used
// with them. It returns no hosts if the feed comes from the local socket.
func controlHosts(c config.Config, log *slog.Logger) ([]feed.Remote, func(context.Context) []seedbed.Check, error) {
	if len(c.Feed.Servers) == 0 {
		return nil, func(context.Context) []seedbed.Check { return nil }, nil
	}
	identity, err := mtls.Open(mtls.Files{Name: "cluster.metadata", CA: c.Cluster.CA, Cert: c.Cluster.Metadata.Cert,
		Key: c.Cluster.Metadata.Key}, mtls.Metadata, c.Node, log)
	if err != nil {
		return nil, nil, err
	}
	var remotes []feed.Remote
	for _, addr := range c.Feed.Servers {
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, nil, fmt.Errorf("feed.servers: %w", err)
		}
		remotes = append(remotes, feed.Remote{Addr: addr, TLS: identity.Client(mtls.Control, "", host)})
	}
	return remotes, identity.Checks, nil
}

// checks returns the guest plane's health checks: those of the kernel's part, the feed, the spool,
// and the certificate.
func checks(p *guestplane.Plane, client *feed.Client, spool *feed.Spool, state string,
	certificate func(context.Context) []seedbed.Check) func(context.Context) []seedbed.Check {
	return func(ctx context.Context) []seedbed.Check {
		return slices.Concat(p.Checks(ctx), guestplane.FeedChecks(client.Status()),
			guestplane.SpoolChecks(spool.Stats(), state), certificate(ctx))
	}
}

// overlay returns how the frames of overlays cross the wire. If the node encrypts them, it makes the key once. Without one, overlays
// end at the node, and everything else is served.
func overlay(c config.Config, log *slog.Logger) netcfg.Overlay {
	from := c.Network.Overlay
	o := netcfg.Overlay{Port: from.Port, Group: from.Group, Daemon: from.EVPN}
	if !from.Encrypted() {
		return o
	}
	key, err := wireguard.Open(c.Metadata.State)
	if err != nil {
		log.Error("the node is to encrypt overlays and has no key: it takes no part in them", "err", err)
		key = wireguard.Missing(err)
	}
	o.Encryption = &key
	return o
}

// forwarder returns what asks the node's resolvers for guests.
func forwarder(c config.Network) *dns.Forwarder {
	var resolvers []netip.AddrPort
	for _, a := range c.Forwarders {
		resolvers = append(resolvers, netip.AddrPortFrom(a, 53))
	}
	return dns.NewForwarder(resolvers, dns.ResolvConf)
}

// fragments returns netcfg.Options.Fragments of a configuration.
func fragments(c config.Metadata) int {
	if c.FragmentRate == 0 {
		return netcfg.NoBound
	}
	return c.FragmentRate
}
