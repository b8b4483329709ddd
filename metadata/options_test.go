package metadata

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"testing"

	"seedbed"
)

// TestOptions: what an instance's options allow, by method, path and token.
func TestOptions(t *testing.T) {
	t.Parallel()
	const leaf, report = "/latest/meta-data/instance-id", reportPrefix + "report-token-of-a"
	for _, tt := range []struct {
		name            string
		options         seedbed.MetadataOptions
		method, path    string
		token, noToken  int // the status with a good token, and with none
		rejected, spent int64
	}{
		{"default", seedbed.MetadataOptions{}, "GET", leaf, 200, 200, 0, 1},
		{"optional", seedbed.MetadataOptions{Tokens: seedbed.TokensOptional}, "HEAD", leaf, 200, 200, 0, 1},
		{"required", seedbed.MetadataOptions{Tokens: seedbed.TokensRequired}, "GET", leaf, 200, 401, 1, 0},
		{"required, HEAD", seedbed.MetadataOptions{Tokens: seedbed.TokensRequired}, "HEAD", leaf, 200, 401, 1, 0},
		{"required, nothing there", seedbed.MetadataOptions{Tokens: seedbed.TokensRequired}, "GET", "/x", 404, 401, 1, 0},
		{"required, versions", seedbed.MetadataOptions{Tokens: seedbed.TokensRequired}, "GET", "/", 200, 401, 1, 0},
		{"required, openstack", seedbed.MetadataOptions{Tokens: seedbed.TokensRequired}, "GET",
			"/openstack/latest/meta_data.json", 200, 401, 1, 0},
		{"required, nocloud", seedbed.MetadataOptions{Tokens: seedbed.TokensRequired}, "GET", "/nocloud/meta-data", 200, 401, 1, 0},
		{"required, password", seedbed.MetadataOptions{Tokens: seedbed.TokensRequired}, "POST", "/openstack/latest/password", 400, 401, 1, 0},
		{"required, report", seedbed.MetadataOptions{Tokens: seedbed.TokensRequired}, "POST", report, 200, 200, 0, 0},
		{"disabled", seedbed.MetadataOptions{Endpoint: seedbed.MetadataDisabled}, "GET", leaf, 403, 403, 0, 0},
		{"disabled, versions", seedbed.MetadataOptions{Endpoint: seedbed.MetadataDisabled}, "GET", "/", 403, 403, 0, 0},
		{"disabled, token", seedbed.MetadataOptions{Endpoint: seedbed.MetadataDisabled}, "PUT", tokenPath, 403, 403, 0, 0},
		{"disabled, report", seedbed.MetadataOptions{Endpoint: seedbed.MetadataDisabled}, "POST", report, 403, 403, 0, 0},
		{"disabled, nocloud", seedbed.MetadataOptions{Endpoint: seedbed.MetadataDisabled}, "GET", "/nocloud/user-data", 403, 403, 0, 0},
		{"disabled, other method", seedbed.MetadataOptions{Endpoint: seedbed.MetadataDisabled}, "DELETE", leaf, 403, 403, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, nil)
			l.apply(stateOf(nil, guestA()))
			c := l.client(addrA)
			token := l.want(c, 200, "PUT", tokenPath, ttlHeader, "60").body
			g := guestA()
			g.Options = tt.options
			l.apply(stateOf(nil, g))
			l.want(c, tt.token, tt.method, tt.path, tokenHeader, token, ttlHeader, "60")
			r := l.want(c, tt.noToken, tt.method, tt.path, ttlHeader, "60")
			if tt.noToken == http.StatusForbidden || tt.noToken == http.StatusUnauthorized {
				if tt.method != "HEAD" && r.body != string(page(tt.noToken)) {
					t.Errorf("body %q", r.body)
				}
			}
			st := l.srv.Stats()
			if st.NoTokenRejected != tt.rejected || st.NoToken != tt.spent {
				t.Errorf("%d without a token were rejected and %d not, want %d and %d", st.NoTokenRejected, st.NoToken, tt.rejected, tt.spent)
			}
		})
	}
}

// TestForwarded: no PUT that a proxy has passed on is served, wherever it goes; what is in the
// header changes nothing for other methods.
func TestForwarded(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	l.apply(stateOf(nil, guestA(), guestB()))
	c := l.client(addrA)
	for _, path := range []string{tokenPath, "/2009-04-04/api/token", "/latest/user-data", "/openstack/latest/password", "/"} {
		l.want(c, 403, "PUT", path, ttlHeader, "60", forwardedHeader, addrB.String())
	}
	for _, h := range []string{forwardedHeader, "x-forwarded-for", "X-Real-Ip", "Forwarded", "X-Neutron-Network-Id", "X-Instance-Id"} {
		if got := l.want(c, 200, "GET", "/latest/meta-data/mac", h, addrB.String()).body; got != macA.String() {
			t.Errorf("%s: %q", h, got)
		}
	}
}

// TestHopLimitOption: the answer to a PUT has the time to live that the options say, over IPv4 and
// IPv6.
func TestHopLimitOption(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, network, addr string
		limit, want         int
	}{
		{"default", "tcp4", "127.0.0.1:0", 0, 1}, {"three", "tcp4", "127.0.0.1:0", 3, 3}, {"most", "tcp4", "127.0.0.1:0",
			seedbed.MaxHopLimit, 64},
		{"IPv6", "tcp6", "[::1]:0", 2, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var inner atomic.Pointer[net.TCPConn]
			l := newLab(t, func(c *Config) {
				c.Identify = func(conn net.Conn) (Facts, error) {
					inner.Store(conn.(*net.TCPConn))
					peer := netip.MustParseAddrPort(conn.RemoteAddr().String()).Addr()
					if peer.Is4() {
						peer = addrA
					}
					return Facts{Bridge: "seedbed0", Mark: 101, Peer: peer, MAC: macA}, nil
				}
			})
			g := guestA()
			g.Options.HopLimit = tt.limit
			l.apply(stateOf(nil, g))
			ln, err := net.Listen(tt.network, tt.addr)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- l.srv.Serve(ctx, ln) }()
			t.Cleanup(func() {
				cancel()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
			tr := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, tt.network, ln.Addr().String())
			}}
			t.Cleanup(tr.CloseIdleConnections)
			c := &http.Client{Transport: tr}
			l.want(c, 200, "GET", "/latest/meta-data/mac")
			for _, ask := range []struct{ method, path string }{{"PUT", tokenPath}, {"GET", "/latest/meta-data/mac"}} {
				l.want(c, 200, ask.method, ask.path, ttlHeader, "60")
				if got, err := hops(inner.Load()); err != nil || got != tt.want {
					t.Errorf("after %s: time to live %d, %v, want %d", ask.method, got, err, tt.want)
				}
			}
		})
	}
}
