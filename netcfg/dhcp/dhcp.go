// Package dhcp is a DHCPv4 server (RFC 2131) for one bridge whose guests are
// all known: each MAC has one address, given by the caller, and strangers get
// silence. It is meant to run behind filters that prove a frame's source MAC
// and tie a request's chaddr to it.
package dhcp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"time"

	"seedbed"
)

// MetadataAddr is the address that every client gets a route to.
var MetadataAddr = netip.AddrFrom4([4]byte{169, 254, 169, 254})

// Offer is what one client is given.
type Offer struct {
	Addr netip.Addr
	// Prefix is the subnet of Addr.
	Prefix netip.Prefix
	// Gateway is the router, and the server's own identity (option 54).
	Gateway netip.Addr
	// DNS are at most 8 resolvers; none leaves option 6 out.
	DNS []netip.Addr
	// Hostname is one label; empty leaves option 12 out.
	Hostname string
	// Lease is how long the client may keep the address; zero means an hour.
	Lease time.Duration
}

// Server answers the DHCP clients of one interface.
type Server struct {
	// Lookup gives the offer of a MAC, and false for one that is not known. It must be quick.
	Lookup func(seedbed.MAC) (Offer, bool)
	// OnLease is told of a lease that was given or renewed, with its end, and of one that the client
	// released, with the present time. It may be nil. It is called in Serve's own goroutine, for one MAC about once a second at most.
	OnLease func(mac seedbed.MAC, addr netip.Addr, until time.Time)
	Log     *slog.Logger
}

// checkInterval is how often the interface is looked at: for its MTU, and
// whether it is still the one that the sockets are bound to.
const checkInterval = 2 * time.Second

// Serve answers on the interface until ctx ends, which gives nil. It gives
// ErrUnavailable when the interface is not there, or was removed or replaced
// while serving; it can then be called again. It needs CAP_NET_RAW and CAP_NET_BIND_SERVICE.
func (s *Server) Serve(ctx context.Context, iface string) error {
	link, err := net.InterfaceByName(iface)
	if err != nil {
		return seedbed.Errorf(seedbed.ErrUnavailable, "serve DHCP on %s: %v", iface, err)
	}
	conn, err := listen(ctx, iface)
	if err != nil {
		return fmt.Errorf("serve DHCP on %s: %w", iface, err)
	}
	defer conn.Close()
	out, err := openSender(link.Index)
	if err != nil {
		return fmt.Errorf("serve DHCP on %s: %w", iface, err)
	}
	defer out.Close()
	stop := context.AfterFunc(ctx, func() { conn.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()

	l := loop{server: s, conn: conn, out: out, link: link, sessions: newSessions()}
	return l.run(ctx)
}

// loop is the one goroutine of a running server.
type loop struct {
	server   *Server
	conn     net.PacketConn
	out      *sender
	link     *net.Interface
	sessions *sessions
}

func (l *loop) run(ctx context.Context) error {
	buf := make([]byte, 1500) // longer requests are cut, and then refused by the parser
	next := time.Now()
	for {
		now := time.Now()
		if !now.Before(next) {
			if err := l.check(); err != nil {
				return err
			}
			next = now.Add(checkInterval)
			l.conn.SetReadDeadline(next)
		}
		if ctx.Err() != nil { // also when the deadline that ends us was just overwritten
			return nil
		}
		n, _, err := l.conn.ReadFrom(buf)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			continue
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return fmt.Errorf("read DHCP request on %s: %w", l.link.Name, err)
		}
		l.handle(buf[:n], time.Now())
	}
}

// check notices that the interface was replaced: the sockets would stay bound
// to the old one and hear nothing for ever.
func (l *loop) check() error {
	link, err := net.InterfaceByName(l.link.Name)
	if err != nil || link.Index != l.link.Index {
		return seedbed.Errorf(seedbed.ErrUnavailable, "serve DHCP on %s: the interface was removed or replaced", l.link.Name)
	}
	l.link = link
	return nil
}

func (l *loop) handle(packet []byte, now time.Time) {
	a, err := l.server.answer(packet, l.link.MTU)
	if err != nil {
		l.server.Log.Debug("DHCP request ignored", "interface", l.link.Name, "err", err)
		return
	}
	if !l.sessions.allow(a.mac, now) {
		l.server.Log.Debug("DHCP client is too fast", "interface", l.link.Name, "mac", a.mac)
		return
	}
	if a.declined && l.sessions.complaint(a.mac, now) {
		l.server.Log.Warn("DHCP client says that its address is in use", "interface", l.link.Name, "mac", a.mac, "addr", a.addr)
	}
	if a.reply != nil {
		if err := l.out.send(a); err != nil {
			l.server.Log.Debug("DHCP answer was not sent", "interface", l.link.Name, "mac", a.mac, "err", err)
			return
		}
	}
	l.report(a, now)
}

// report tells the owner of leases, but not of every repetition.
func (l *loop) report(a *action, now time.Time) {
	if l.server.OnLease == nil {
		return
	}
	switch {
	case a.lease > 0 && l.sessions.news(a.mac, a.addr, now, a.lease):
		l.server.OnLease(a.mac, a.addr, now.Add(a.lease))
	case a.released && l.sessions.end(a.mac):
		l.server.OnLease(a.mac, a.addr, now)
	}
}
