// Package dhcp is a DHCPv4 server (RFC 2131) for one bridge whose guests are all known: each MAC
// has one address, which the caller provides, and unknown clients do not get an answer. It must run
// behind filters that verify a frame's source MAC and that a request's chaddr matches it.
package dhcp

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"seedbed"
	"seedbed/internal/ifbind"
)

// Offer is the configuration of one client.
type Offer struct {
	Addr netip.Addr
	// Prefix is the subnet of Addr.
	Prefix netip.Prefix
	// Gateway is the router. It may be the zero Addr if Server is given.
	Gateway netip.Addr
	// Server is the server's own identity (option 54) and the source of its answers. The zero Addr stands for Gateway.
	Server netip.Addr
	// DNS are at most 8 resolvers; none leaves option 6 out.
	DNS []netip.Addr
	// Hostname is one label; empty leaves option 12 out.
	Hostname string
	// Isolated leaves out the default route, as does a missing Gateway.
	Isolated bool
	// Options are those of the network. Its range and what it keeps out have no effect here.
	Options seedbed.NetworkOptions
	// Lease is how long the client may keep the address; zero means an hour.
	Lease time.Duration
}

// Server answers the DHCP clients of one interface.
type Server struct {
	// Lookup returns the offer for a MAC, and false for an unknown one. It must be quick.
	Lookup func(seedbed.MAC) (Offer, bool)
	// OnLease is called for each lease that was granted or renewed, with its end, and for each that
	// the client released, with the current time. It may be nil. It runs in Serve's own goroutine,
	// at most about once a second for one MAC.
	OnLease func(mac seedbed.MAC, addr netip.Addr, until time.Time)
	Log     *slog.Logger
}

// Serve answers on the interface until ctx ends, and then returns nil. It returns ErrUnavailable if
// the interface does not exist, or was removed or replaced while serving; it can then be called
// again. It needs CAP_NET_RAW and CAP_NET_BIND_SERVICE.
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
	l := loop{server: s, out: out, iface: iface, sessions: newSessions(), mtu: out.mtu}
	buf := make([]byte, 1500) // longer requests are truncated, and the parser then rejects them
	return ifbind.Loop{What: "serve DHCP", Iface: link, Conn: conn}.Run(ctx, func() error {
		n, _, err := conn.ReadFrom(buf)
		if err != nil {
			return fmt.Errorf("read DHCP request on %s: %w", iface, err)
		}
		l.handle(buf[:n], time.Now())
		return nil
	})
}

// loop is the one goroutine of a running server.
type loop struct {
	server   *Server
	out      *sender
	iface    string
	sessions *sessions
	// mtu returns the MTU of the interface.
	mtu func(iface string) (int, error)
}

func (l *loop) handle(packet []byte, now time.Time) {
	mtu, err := l.mtu(l.iface)
	if err != nil {
		l.server.Log.Debug("DHCP request not answered", "interface", l.iface, "err", err)
		return
	}
	a, err := l.server.answer(packet, mtu, func(mac seedbed.MAC) bool { return l.sessions.allow(mac, now) })
	if err != nil {
		l.server.Log.Debug("DHCP request ignored", "interface", l.iface, "err", err)
		return
	}
	if a.declined && l.sessions.complaint(a.mac, now) {
		l.server.Log.Warn("DHCP client says that its address is in use", "interface", l.iface, "mac", a.mac, "addr", a.addr)
	}
	if a.reply != nil {
		if err := l.out.send(a); err != nil {
			l.server.Log.Debug("DHCP answer was not sent", "interface", l.iface, "mac", a.mac, "err", err)
			return
		}
	}
	l.report(a, now)
}

// report calls OnLease, but not for every repetition.
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
