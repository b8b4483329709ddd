package ra

import (
	"context"
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/mdlayher/ndp"
	"golang.org/x/time/rate"

	"seedbed"
)

var prefix = netip.MustParsePrefix("fd12:3456:789a:1::/64")

func lan() seedbed.Network {
	return seedbed.Network{Name: "lan", Kind: seedbed.NetworkNAT, NAT: true, MAC: seedbed.MAC{0x52, 0x54, 0, 0xb0, 0, 1}, DHCP: true,
		Prefix: netip.MustParsePrefix("10.80.0.0/24"), Gateway: netip.MustParseAddr("10.80.0.1"),
		DNS:            []netip.Addr{seedbed.ResolverAddr, netip.MustParseAddr("192.0.2.53"), netip.MustParseAddr("2001:db8::53")},
		NetworkOptions: seedbed.NetworkOptions{Prefix6: prefix, Search: []string{"example.org"}}}
}

func TestLinkOf(t *testing.T) {
	t.Parallel()
	metadata, resolver := seedbed.MetadataAddr6, seedbed.ResolverAddr6
	whole := Link{MAC: lan().MAC, Router: true, Prefix: prefix, Managed: true, Hosts: []netip.Addr{metadata, resolver},
		DNS: []netip.Addr{resolver, netip.MustParseAddr("2001:db8::53")}, Search: []string{"lan.internal", "example.org"}}
	for name, tt := range map[string]struct {
		network func(n *seedbed.Network)
		link    func(l *Link)
	}{
		"nat":      {func(*seedbed.Network) {}, func(*Link) {}},
		"isolated": {func(n *seedbed.Network) { n.Kind, n.NAT = seedbed.NetworkIsolated, false }, func(l *Link) { l.Router = false }},
		"peers of an isolated one": {func(n *seedbed.Network) {
			n.Kind, n.NAT, n.Peers = seedbed.NetworkIsolated, false, []string{"db"}
			n.PeerPrefixes = []netip.Prefix{netip.MustParsePrefix("10.9.0.0/24"), netip.MustParsePrefix("fd12:3456:789a:2::/64")}
		}, func(l *Link) {
			l.Router, l.Routes = false, []netip.Prefix{netip.MustParsePrefix("fd12:3456:789a:2::/64")}
		}},
		"routes": {func(n *seedbed.Network) {
			n.Routes = []seedbed.NetworkRoute{{Prefix: netip.MustParsePrefix("10.20.0.0/16"), Via: netip.MustParseAddr("10.9.0.2")},
				{Prefix: netip.MustParsePrefix("2001:db8:5::/48"), Via: n.Gateway6()}}
		}, func(l *Link) { l.Routes = []netip.Prefix{netip.MustParsePrefix("2001:db8:5::/48")} }},
		"time": {func(n *seedbed.Network) { n.NTP = []netip.Addr{seedbed.TimeAddr} },
			func(l *Link) { l.Hosts = append(l.Hosts, seedbed.TimeAddr6) }},
		"slaac":   {func(n *seedbed.Network) { n.SLAAC = true }, func(l *Link) { l.SLAAC, l.Managed, l.Other = true, false, true }},
		"no DHCP": {func(n *seedbed.Network) { n.DHCP = false }, func(l *Link) { l.Managed = false }},
		"bridged": {func(n *seedbed.Network) { n.Kind, n.NAT, n.MTU = seedbed.NetworkBridged, false, 9000 },
			func(l *Link) { l.Router, l.Prefix = false, netip.Prefix{} }},
		"no IPv6 prefix": {func(n *seedbed.Network) { n.Prefix6, n.MTU = netip.Prefix{}, 1400 },
			func(l *Link) { *l = Link{MAC: lan().MAC, MTU: 1400, Hosts: []netip.Addr{metadata}} }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n, want := lan(), whole
			tt.network(&n)
			want.Hosts, want.DNS, want.Search = slices.Clone(want.Hosts), slices.Clone(want.DNS), slices.Clone(want.Search)
			tt.link(&want)
			if d := cmp.Diff(want, LinkOf(n), cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})); d != "" {
				t.Errorf("link (-want +got):\n%s", d)
			}
		})
	}
}

// TestAdvertisement: what is on the wire parses to what was meant.
func TestAdvertisement(t *testing.T) {
	t.Parallel()
	l := LinkOf(lan())
	l.MTU = 1450
	b, err := ndp.MarshalMessage(l.Advertisement())
	if err != nil {
		t.Fatal(err)
	}
	m, err := ndp.ParseMessage(b)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(l.Advertisement(), m, cmpopts.EquateComparable(netip.Addr{})); d != "" {
		t.Errorf("advertisement (-want +got):\n%s", d)
	}
	a := m.(*ndp.RouterAdvertisement)
	if a.RouterLifetime != 9000*time.Second || !a.ManagedConfiguration || a.CurrentHopLimit != 64 {
		t.Errorf("it is %+v, want a router for 9000 s, whose clients ask DHCPv6", a)
	}
	for _, o := range a.Options {
		if p, ok := o.(*ndp.PrefixInformation); ok && (!p.OnLink || p.AutonomousAddressConfiguration) {
			t.Errorf("prefix %s/%d: on the link %t, for addresses %t, want only the first", p.Prefix, p.PrefixLength, p.OnLink,
				p.AutonomousAddressConfiguration)
		}
	}
}

// wire is a conn on which a test asks.
type wire struct {
	asks     chan netip.Addr
	deadline time.Time
	start    time.Time

	mu   sync.Mutex
	fail int // how many are not sent
	log  []sent
}

type sent struct {
	After time.Duration
	To    string
}

func (w *wire) SetReadDeadline(t time.Time) error {
	w.deadline = t
	return nil
}

func (w *wire) ReadFrom() (ndp.Message, netip.Addr, error) {
	select {
	case from := <-w.asks:
		return &ndp.RouterSolicitation{}, from, nil
	case <-time.After(time.Until(w.deadline)):
		return nil, netip.Addr{}, os.ErrDeadlineExceeded
	}
}

func (w *wire) WriteTo(_ ndp.Message, to netip.Addr) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fail > 0 {
		w.fail--
		return os.ErrInvalid
	}
	w.log = append(w.log, sent{time.Since(w.start), to.String()})
	return nil
}

// sent returns what was sent until now.
func (w *wire) sent() []sent {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.log)
}

// TestAnswers: a guest is answered at once, one without an address by an advertisement to all, of which there is one in three
// seconds, and all are told again within ten minutes.
func TestAnswers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w := &wire{asks: make(chan netip.Addr), start: time.Now()}
		a := advertiser{conn: w, message: LinkOf(lan()).Advertisement(), answers: rate.NewLimiter(1, 2), log: slog.New(slog.DiscardHandler)}
		ended := make(chan error, 1)
		go func() { ended <- a.run(ctx, "lan") }()
		synctest.Wait()
		guest := netip.MustParseAddr("fe80::1")
		for range 5 { // two are allowed
			w.asks <- guest
		}
		time.Sleep(time.Second)
		for range 5 {
			w.asks <- netip.IPv6Unspecified()
		}
		time.Sleep(4 * time.Second)
		want := []sent{{0, "ff02::1"}, {0, "fe80::1"}, {0, "fe80::1"}, {groupPause, "ff02::1"}}
		if d := cmp.Diff(want, w.sent()); d != "" {
			t.Errorf("sent (-want +got):\n%s", d)
		}
		time.Sleep(maxInterval)
		all := w.sent()
		if last := all[len(all)-1]; len(all) < 5 || last.To != "ff02::1" || last.After < minInterval {
			t.Errorf("later it sent %v, want one more to all after %s to %s", all[4:], minInterval, maxInterval)
		}
		cancel()
		w.asks <- guest
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestNobodyThere: what cannot be sent, such as on a bridge without a guest, is tried again, and guests that ask are answered.
func TestNobodyThere(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w := &wire{asks: make(chan netip.Addr), start: time.Now(), fail: 3}
		a := advertiser{conn: w, message: LinkOf(lan()).Advertisement(), answers: rate.NewLimiter(1, 2), log: slog.New(slog.DiscardHandler)}
		ended := make(chan error, 1)
		go func() { ended <- a.run(ctx, "lan") }()
		time.Sleep(time.Minute)
		w.asks <- netip.MustParseAddr("fe80::1")
		if d := cmp.Diff([]sent{{3 * retryPause, "ff02::1"}, {3*retryPause + initialInterval, "ff02::1"},
			{time.Minute, "fe80::1"}}, w.sent()); d != "" {
			t.Errorf("sent (-want +got):\n%s", d)
		}
		cancel()
		w.asks <- netip.MustParseAddr("fe80::1")
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// FuzzSolicitation: whatever a guest sends parses or does not.
func FuzzSolicitation(f *testing.F) {
	f.Add([]byte{133, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0x52, 0x54, 0, 0, 0, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := ndp.ParseMessage(b)
		if err != nil {
			return
		}
		if _, asks := m.(*ndp.RouterSolicitation); asks != (b[0] == 133) {
			t.Errorf("type %d: is a solicitation: %t", b[0], asks)
		}
	})
}
