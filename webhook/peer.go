package webhook

import (
	"crypto/tls"
	"net"
	"net/netip"
	"slices"
	"strings"

	"seedbed"
	"seedbed/internal/header"

	"github.com/valyala/fasthttp"
)

// peer is where a request comes from.
type peer struct {
	addr netip.Addr
	// direct is true if no proxy forwarded it and no browser sent it.
	direct bool
}

// indirect are the headers of proxies, and that of browsers, which send what any web page tells
// them to.
var indirect = []string{"forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip", "origin"}

// peerOf returns where a request comes from. It uses X-Forwarded-For only from a trusted proxy, and
// takes the last address that is not itself that of a trusted proxy. The addresses before it come
// from the sender.
func peerOf(remote net.Addr, f header.Fields, trusted []netip.Prefix) peer {
	p := peer{direct: !slices.ContainsFunc(indirect, f.Has)}
	if at, ok := remote.(*net.TCPAddr); ok {
		p.addr = at.AddrPort().Addr().Unmap()
	}
	hops := strings.Split(f.Get("x-forwarded-for"), ",")
	for i := len(hops) - 1; i >= 0 && within(trusted, p.addr); i-- {
		a, err := netip.ParseAddr(strings.TrimSpace(hops[i]))
		if err != nil {
			break
		}
		p.addr = a.Unmap().WithZone("")
	}
	return p
}

func within(all []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(all, func(p netip.Prefix) bool { return p.Contains(a) })
}

// insecureTransport reports whether others on the path can read the credential of h's senders: the
// scheme sends the secret itself, and the connection is neither encrypted, nor local, nor from a
// trusted proxy that received it encrypted.
func insecureTransport(c *fasthttp.RequestCtx, h seedbed.Hook, trusted []netip.Prefix) bool {
	if h.Scheme != seedbed.SchemeGitLab && h.Scheme != seedbed.SchemeAlertmanager || c.IsTLS() {
		return false
	}
	at, err := netip.ParseAddrPort(c.RemoteAddr().String())
	return err != nil || !at.Addr().IsLoopback() && !within(trusted, at.Addr().Unmap())
}

// admits reports whether h accepts deliveries from that peer.
func (p peer) admits(h seedbed.Hook) bool {
	return len(h.CIDRs) == 0 || within(h.CIDRs, p.addr)
}

// local reports whether the sender is certainly on this host.
func (p peer) local() bool { return p.direct && p.addr.IsLoopback() }

// holds reports whether a verified certificate has one of the names.
func holds(state *tls.ConnectionState, names []string) bool {
	if state == nil || len(state.VerifiedChains) == 0 {
		return false
	}
	leaf := state.PeerCertificates[0]
	own := append([]string{leaf.Subject.CommonName}, leaf.DNSNames...)
	for _, u := range leaf.URIs {
		own = append(own, u.String())
	}
	return slices.ContainsFunc(own, func(s string) bool { return s != "" && slices.Contains(names, s) })
}
