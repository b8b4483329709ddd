// Package ra advertises the node to the guests of one bridge as an IPv6 router (RFC 4861, RFC 8106), or only what is on their
// link. It must run behind filters that keep guests from advertising anything and that bound how often they ask.
package ra

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/mdlayher/ndp"
	"golang.org/x/time/rate"

	"seedbed"
)

// Link is what guests learn of their link.
type Link struct {
	// MAC is that of the bridge.
	MAC seedbed.MAC
	// MTU is that of the link; 0 leaves it out.
	MTU int
	// Router is whether the guests' default route goes to the node.
	Router bool
	// Prefix is the IPv6 subnet on the link; the zero Prefix if there is none, or if other routers advertise it. SLAAC makes
	// guests choose an address in it.
	Prefix netip.Prefix
	SLAAC  bool
	// Routes are prefixes to which the way is by the node, also where it has no default route for guests (RFC 4191).
	Routes []netip.Prefix
	// Former are prefixes of before, whose addresses guests cease to use.
	Former []netip.Prefix
	// Managed makes guests ask DHCPv6 for their addresses, and Other for other things alone.
	Managed, Other bool
	// Hosts are the addresses of the node's services, which guests reach without a router.
	Hosts []netip.Addr
	// DNS are resolvers, and Search the domains in which guests look up short names.
	DNS    []netip.Addr
	Search []string
}

// How long guests believe an advertisement, and how often they get one (RFC 4861 6.2.1). What they know stays while the daemon
// is restarted, and ends some time after the node is gone.
const (
	routerLifetime    = 9000 * time.Second // the most that is allowed
	preferredLifetime = 4 * time.Hour
	validLifetime     = 24 * time.Hour
	dnsLifetime       = 2 * maxInterval
	routeLifetime     = 3 * maxInterval // a peering may end
	minInterval       = 200 * time.Second
	maxInterval       = 600 * time.Second
	// The first three go out soon after each other, since one may be lost (MAX_INITIAL_RTR_ADVERTISEMENTS of RFC 4861 10).
	initialCount    = 3
	initialInterval = 16 * time.Second
	// retryPause is the time until an advertisement that could not be sent is tried again.
	retryPause = 10 * time.Second
	// groupPause is the least time between two advertisements to all guests (MIN_DELAY_BETWEEN_RAS of RFC 4861 10).
	groupPause = 3 * time.Second
)

// Answers to one guest are of a rate that no number of guests that start exceeds, and that costs little.
const (
	answerRate  = 500
	answerBurst = 1000
)

var (
	allNodes   = netip.MustParseAddr("ff02::1")
	allRouters = netip.MustParseAddr("ff02::2")
)

// Advertisement returns what guests are told of a link.
func (l Link) Advertisement() *ndp.RouterAdvertisement {
	m := &ndp.RouterAdvertisement{ManagedConfiguration: l.Managed, OtherConfiguration: l.Other}
	if l.Router {
		m.CurrentHopLimit, m.RouterLifetime = 64, routerLifetime
	}
	m.Options = append(m.Options, &ndp.LinkLayerAddress{Direction: ndp.Source, Addr: net.HardwareAddr(l.MAC[:])})
	if l.MTU != 0 {
		m.Options = append(m.Options, ndp.NewMTU(uint32(l.MTU)))
	}
	if l.Prefix.IsValid() {
		m.Options = append(m.Options, &ndp.PrefixInformation{PrefixLength: uint8(l.Prefix.Bits()), OnLink: true,
			AutonomousAddressConfiguration: l.SLAAC, ValidLifetime: validLifetime, PreferredLifetime: preferredLifetime,
			Prefix: l.Prefix.Masked().Addr()})
	}
	for _, p := range l.Routes {
		m.Options = append(m.Options, &ndp.RouteInformation{PrefixLength: uint8(p.Bits()), RouteLifetime: routeLifetime,
			Prefix: p.Masked().Addr()})
	}
	for _, p := range l.Former { // guests heed the lifetimes only of a prefix for addresses
		m.Options = append(m.Options, &ndp.PrefixInformation{PrefixLength: uint8(p.Bits()), OnLink: true,
			AutonomousAddressConfiguration: true, Prefix: p.Masked().Addr()})
	}
	for _, a := range l.Hosts {
		m.Options = append(m.Options, &ndp.PrefixInformation{PrefixLength: uint8(a.BitLen()), OnLink: true,
			ValidLifetime: validLifetime, PreferredLifetime: preferredLifetime, Prefix: a})
	}
	if len(l.DNS) > 0 {
		m.Options = append(m.Options, &ndp.RecursiveDNSServer{Lifetime: dnsLifetime, Servers: l.DNS})
	}
	if len(l.Search) > 0 {
		m.Options = append(m.Options, &ndp.DNSSearchList{Lifetime: dnsLifetime, DomainNames: l.Search})
	}
	return m
}

// Serve advertises the link on the interface until ctx ends, and then returns nil. It returns ErrUnavailable if the interface
// does not exist, or has no address of the metadata service; it can then be called again. If the interface is removed, it must be
// called again. It needs CAP_NET_RAW.
func (l Link) Serve(ctx context.Context, iface string, log *slog.Logger) error {
	ifi, err := net.InterfaceByName(iface)
	if err != nil {
		return seedbed.Errorf(seedbed.ErrUnavailable, "advertise on %s: %v", iface, err)
	}
	conn, err := listen(ctx, ifi)
	if err != nil {
		return seedbed.Errorf(seedbed.ErrUnavailable, "advertise on %s: %v", iface, err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	a := advertiser{conn: conn, message: l.Advertisement(), answers: rate.NewLimiter(answerRate, answerBurst), log: log}
	return a.run(ctx, iface)
}

// conn sends and receives messages on one interface.
type conn interface {
	ReadFrom() (ndp.Message, netip.Addr, error)
	WriteTo(m ndp.Message, to netip.Addr) error
	SetReadDeadline(time.Time) error
}

// advertiser is one run of Serve.
type advertiser struct {
	conn    conn
	message *ndp.RouterAdvertisement
	answers *rate.Limiter
	// last is when all guests got the last one, and next when they get the next.
	last, next time.Time
	log        *slog.Logger
}

func (a *advertiser) run(ctx context.Context, iface string) error {
	for first := 0; ; {
		if now := time.Now(); !now.Before(a.next) {
			a.last, a.next = now, now.Add(minInterval+rand.N(maxInterval-minInterval))
			if first+1 < initialCount {
				a.next = now.Add(initialInterval)
			}
			first++
			if err := a.conn.WriteTo(a.message, allNodes); err != nil { // such as on a bridge that no guest is on yet
				first--
				a.log.Debug("guests were not told of the router; trying again", "interface", iface, "err", err)
				a.next = now.Add(retryPause)
			}
		}
		a.conn.SetReadDeadline(a.next)
		if ctx.Err() != nil { // also if the deadline that ends the loop was just overwritten
			return nil
		}
		m, from, err := a.conn.ReadFrom()
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, os.ErrDeadlineExceeded):
			continue
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("advertise on %s: %w", iface, err)
		case err != nil:
			a.log.Debug("router solicitation not read", "interface", iface, "err", err)
			if !a.answers.Allow() { // an error that stays must not keep a processor busy
				return fmt.Errorf("advertise on %s: %w", iface, err)
			}
			continue
		}
		if _, asks := m.(*ndp.RouterSolicitation); asks {
			a.answer(from, iface)
		}
	}
}

// answer answers one solicitation: to the guest that asks or, if it has no address yet, soon to all.
func (a *advertiser) answer(from netip.Addr, iface string) {
	if from.IsUnspecified() {
		if soon := a.last.Add(groupPause); soon.Before(a.next) {
			a.next = soon
		}
		return
	}
	if !a.answers.Allow() {
		return
	}
	if err := a.conn.WriteTo(a.message, from); err != nil {
		a.log.Debug("advertisement was not sent", "interface", iface, "to", from, "err", err)
	}
}

// LinkOf returns what the guests of a network are told.
func LinkOf(n seedbed.Network) Link {
	l := Link{MAC: n.MAC, Hosts: []netip.Addr{seedbed.MetadataAddr6}, Managed: n.Prefix6.IsValid() && n.DHCP && !n.SLAAC,
		Other: n.Prefix6.IsValid() && n.DHCP && n.SLAAC}
	if n.Resolves6() {
		l.Hosts = append(l.Hosts, seedbed.ResolverAddr6)
	}
	if n.KeepsTime6() {
		l.Hosts = append(l.Hosts, seedbed.TimeAddr6)
	}
	if n.Prefix6.IsValid() {
		l.DNS = n.DNS6()
		l.Search = slices.Clone(n.Search)
		if d := n.GuestDomain(); d != "" && !slices.Contains(l.Search, d) && len(l.DNS) > 0 {
			l.Search = slices.Insert(l.Search, 0, d)
		}
	}
	if n.Kind != seedbed.NetworkBridged { // its own routers tell the rest
		l.MTU, l.Prefix, l.SLAAC, l.Router = n.MTU, n.Prefix6, n.SLAAC, n.Kind.Outside() && n.Prefix6.IsValid()
		if n.Prefix6.IsValid() {
			l.Routes = slices.Clone(n.PeerPrefixes)
			for _, r := range n.Routes {
				l.Routes = append(l.Routes, r.Prefix)
			}
			l.Routes = slices.DeleteFunc(l.Routes, func(p netip.Prefix) bool { return p.Addr().Is4() })
		}
	}
	return l
}
