package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"seedbed"
	"seedbed/feed"
	"seedbed/guestplane"
	"seedbed/metadata"
	"seedbed/netcfg"
	"seedbed/netcfg/dns"
)

const (
	// idleTaps is how many guests a node has of which none asks for anything.
	idleTaps = 1000
	// idleAfter is when they are all attached and served, and the filters of an earlier process were verified, which happens once. idleFor
	// is how long the guest plane is then watched: it looks twice whether others changed its network.
	idleAfter = 70 * time.Second
	idleFor   = time.Minute
)

// idle says how many percent of a processor the guest plane of a node takes whose guests ask for nothing.
func idle(ctx context.Context, out io.Writer) error {
	if err := remount(); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "seedbed-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	quiet := slog.New(slog.DiscardHandler)
	m, err := netcfg.Open(quiet)
	if err != nil {
		return err
	}
	defer m.Close()
	spool, err := feed.OpenSpool(feed.SpoolConfig{Socket: filepath.Join(dir, "feed.sock"), Node: "node1", Dir: dir, Log: quiet})
	if err != nil {
		return err
	}
	directory := metadata.NewDirectory()
	p := guestplane.New(guestplane.Config{
		Kernel: m, Host: m, Directory: directory, Spool: spool, Port: 80, Log: quiet, Forwarder: dns.NewForwarder(nil, dns.ResolvConf),
		Guests: metadata.New(metadata.Config{Directory: directory, Neighbour: m.Neighbour, HasLink: m.HasLink, Log: quiet}),
	})
	running, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 2)
	for _, run := range []func(context.Context) error{p.Run, p.Upkeep} {
		go func() { ended <- run(running) }()
	}
	if err := p.Apply(ctx, idleState()); err != nil {
		return err
	}
	var links strings.Builder
	for i := range idleTaps {
		tap := member(2 + i).Tap
		fmt.Fprintf(&links, "tuntap add dev %[1]s mode tap\nlink set %[1]s master %[2]s up\n", tap, lan.Bridge)
	}
	cmd := exec.CommandContext(ctx, "ip", "-batch", "-")
	cmd.Stdin = strings.NewReader(links.String())
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("make taps: %w: %s", err, said)
	}
	time.Sleep(idleAfter)
	before, err := processorTime()
	if err != nil {
		return err
	}
	time.Sleep(idleFor)
	after, err := processorTime()
	if err != nil {
		return err
	}
	stop()
	for range cap(ended) {
		if err := <-ended; err != nil {
			return err
		}
	}
	_, err = fmt.Fprintln(out, 100*(after-before).Seconds()/idleFor.Seconds())
	return err
}

// idleState is what the guest plane of the node serves.
func idleState() seedbed.GuestPlaneState {
	guests := map[seedbed.InstanceID]seedbed.Guest{}
	for i := range idleTaps {
		port := member(2 + i)
		id := seedbed.InstanceID(fmt.Sprintf("ec2a0b1c-2d3e-4f56-8789-%012x", i))
		guests[id] = seedbed.Guest{ID: id, Name: fmt.Sprintf("web-%d", i), Node: "node1", NICs: []seedbed.GuestNIC{{
			ID: seedbed.NICID(2 + i), MAC: port.MAC, Network: lan.Name, Addr: port.Addr, Groups: port.Groups}}}
	}
	network := lan
	network.DHCP = true
	return seedbed.GuestPlaneState{
		Networks: []seedbed.Network{network}, Groups: []seedbed.SecurityGroup{app, db}, TokenKey: make([]byte, 32),
		Revision: 1, InSync: true, Since: -1,
		Guests: maps.All(guests),
		Guest:  func(id seedbed.InstanceID) (seedbed.Guest, bool) { g, ok := guests[id]; return g, ok },
		Blob:   func(string) ([]byte, bool) { return nil, false },
	}
}

// processorTime returns the processor time that this process has used.
func processorTime() (time.Duration, error) {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0, err
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
}
