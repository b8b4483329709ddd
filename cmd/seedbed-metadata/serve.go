package main

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"seedbed"
	"seedbed/metadata"
	"seedbed/netcfg/dhcp"
)

// leaseTime is how long a guest keeps its address without asking again. The
// address is the instance's for life; a short lease only makes changes of the
// other options arrive.
const leaseTime = time.Hour

// serveNetwork serves metadata and DHCP on the bridge of a network until ctx
// ends; a server that fails, as on a port that is taken, is tried again every second.
func (p *plane) serveNetwork(ctx context.Context, network seedbed.Network) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		if network.DHCP {
			p.persist(ctx, "DHCP", network.Bridge, func(ctx context.Context) error { return p.serveDHCP(ctx, network) })
		}
	}()
	p.persist(ctx, "metadata", network.Bridge, func(ctx context.Context) error {
		ln, err := metadata.Listen(ctx, network.Bridge, p.addr)
		if err != nil {
			return p.explain(err)
		}
		return p.guests.Serve(ctx, ln)
	})
	<-done
}

// persist runs one server again and again until ctx ends, and logs each new problem once.
func (p *plane) persist(ctx context.Context, what, bridge string, serve func(context.Context) error) {
	var last string
	for ctx.Err() == nil {
		err := serve(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			err = errors.New("it ended by itself")
		}
		if err.Error() != last {
			last = err.Error()
			p.log.Error("server does not run; trying again", "server", what, "bridge", bridge, "err", err)
		}
		wait(ctx, time.Second)
	}
}

// explain adds who has the port to an error of listening.
func (p *plane) explain(err error) error {
	holder, lookErr := p.network.PortHolder(p.addr)
	if lookErr != nil || holder == "" {
		return err
	}
	return seedbed.Errorf(seedbed.ErrUnavailable, "%s is held by %s: stop it, or set metadata.listen to redirect", p.addr, holder)
}

// serveDHCP answers DHCP on the bridge of a network.
func (p *plane) serveDHCP(ctx context.Context, network seedbed.Network) error {
	server := dhcp.Server{
		Lookup: func(mac seedbed.MAC) (dhcp.Offer, bool) {
			guest, nic, ok := p.directory.Find(network.Bridge, mac)
			if !ok {
				return dhcp.Offer{}, false
			}
			return dhcp.Offer{
				Addr: nic.Addr, Prefix: network.Prefix, Gateway: network.Gateway, DNS: network.DNS,
				Hostname: guest.Name, Lease: leaseTime,
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
