package main

import (
	"context"
	"log/slog"

	"seedbed"
	"seedbed/feed"
	"seedbed/internal/config"
	"seedbed/internal/run"
	"seedbed/metadata"
	"seedbed/netcfg"
)

// serve runs the guest plane until ctx ends, and leaves the network as it is.
func serve(ctx context.Context, c config.Config, log *slog.Logger) error {
	network, err := netcfg.Open(log)
	if err != nil {
		return err
	}
	defer network.Close()
	spool, err := feed.OpenSpool(feed.SpoolConfig{Socket: c.Feed.Socket, Node: c.Node, Dir: c.Metadata.State, Log: log})
	if err != nil {
		return err
	}
	directory := metadata.NewDirectory()
	guests := metadata.New(metadata.Config{
		Directory: directory, Neighbour: network.Neighbour,
		OnEvent: spool.Add, OnReport: spool.AddDurable, Log: log,
	})
	p := newPlane(network, directory, guests, spool, c.Metadata, log)
	client := feed.NewClient(feed.ClientConfig{
		Socket: c.Feed.Socket, Node: c.Node, Dir: c.Metadata.State, Applier: p, Log: log,
	})
	health, err := run.ListenLoopback(ctx, c.Metadata.Health)
	if err != nil {
		return err
	}
	defer health.Close()

	registry := run.NewRegistry()
	registry.MustRegister(newCollector(guests, client, spool))
	group := run.NewGroup(log)
	group.Add("spool", spool.Run)
	group.Add("feed", client.Run)
	group.Add("bridges", p.run)
	group.Add("health", func(ctx context.Context) error {
		return run.Health{Checks: checks(network, client), Registry: registry}.Serve(ctx, health)
	})
	group.Add("watchdog", run.Watchdog(log, p.alive))
	log.Info("listening", "guests", p.addr, "health", c.Metadata.Health)
	return group.Run(ctx)
}

// checks is the guest plane's health: the kernel's part, and the feed.
func checks(network *netcfg.Manager, client *feed.Client) func(context.Context) []seedbed.Check {
	return func(ctx context.Context) []seedbed.Check {
		all := network.Check(ctx)
		s := client.Status()
		check := seedbed.Check{Name: "feed", OK: s.Connected, Detail: s.Problem}
		if !s.Connected {
			check.Hint = "guests are served from the last feed; start seedbedd"
		}
		return append(all, check)
	}
}
