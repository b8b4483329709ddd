package dhcp

import (
	"bytes"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/insomniacslk/dhcp/dhcpv4"
	"pgregory.net/rapid"

	"seedbed"
)

var (
	mac1  = seedbed.MAC{0x52, 0x54, 0, 0, 0, 1}
	addr1 = netip.MustParseAddr("10.213.0.11")
	gw    = netip.MustParseAddr("10.213.0.1")
)

func testOffer() Offer {
	return Offer{Addr: addr1, Prefix: netip.MustParsePrefix("10.213.0.0/24"), Gateway: gw,
		DNS: []netip.Addr{netip.MustParseAddr("192.0.2.53"), netip.MustParseAddr("192.0.2.54")}, Hostname: "web-1", Lease: 10 * time.Minute}
}

func testServer() *Server {
	return &Server{Log: slog.New(slog.DiscardHandler), Lookup: func(m seedbed.MAC) (Offer, bool) { return testOffer(), m == mac1 }}
}

func always(seedbed.MAC) bool { return true }

func request(t testing.TB, typ dhcpv4.MessageType, mods ...dhcpv4.Modifier) *dhcpv4.DHCPv4 {
	t.Helper()
	m, err := dhcpv4.New(append([]dhcpv4.Modifier{dhcpv4.WithMessageType(typ), dhcpv4.WithHwAddr(mac1.HardwareAddr())}, mods...)...)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func option(o dhcpv4.Option) dhcpv4.Modifier { return dhcpv4.WithOption(o) }

func TestAnswer(t *testing.T) {
	t.Parallel()
	const (
		discover = dhcpv4.MessageTypeDiscover
		req      = dhcpv4.MessageTypeRequest
	)
	ours := option(dhcpv4.OptServerIdentifier(gw.AsSlice()))
	wants := func(a string) dhcpv4.Modifier { return option(dhcpv4.OptRequestedIPAddress(net.ParseIP(a))) }
	ciaddr := func(a string) dhcpv4.Modifier { return dhcpv4.WithClientIP(net.ParseIP(a)) }
	for _, tt := range []struct {
		name   string
		req    *dhcpv4.DHCPv4
		silent bool
		reply  dhcpv4.MessageType // None for an action without a reply
		to     string
		hw     seedbed.MAC
		lease  time.Duration
	}{
		{name: "discover", req: request(t, discover), reply: dhcpv4.MessageTypeOffer, to: "10.213.0.11", hw: mac1},
		{name: "discover, broadcast wanted", req: request(t, discover, dhcpv4.WithBroadcast(true)),
			reply: dhcpv4.MessageTypeOffer, to: "255.255.255.255", hw: broadcastMAC},
		{name: "discover with a wish", req: request(t, discover, wants("10.213.0.99")), reply: dhcpv4.MessageTypeOffer,
			to: "10.213.0.11", hw: mac1},
		{name: "selecting", req: request(t, req, ours, wants("10.213.0.11")), reply: dhcpv4.MessageTypeAck, to: "10.213.0.11",
			hw: mac1, lease: 10 * time.Minute},
		{name: "selecting another address", req: request(t, req, ours, wants("10.213.0.99")), reply: dhcpv4.MessageTypeNak,
			to: "255.255.255.255", hw: broadcastMAC},
		{name: "selecting another server", req: request(t, req, option(dhcpv4.OptServerIdentifier(net.IPv4(10, 213, 0, 9))),
			wants("10.213.0.11")), silent: true},
		{name: "rebooting", req: request(t, req, wants("10.213.0.11")), reply: dhcpv4.MessageTypeAck, to: "10.213.0.11",
			hw: mac1, lease: 10 * time.Minute},
		{name: "rebooting on another network", req: request(t, req, wants("192.168.1.5")), reply: dhcpv4.MessageTypeNak,
			to: "255.255.255.255", hw: broadcastMAC},
		{name: "renewing", req: request(t, req, ciaddr("10.213.0.11")), reply: dhcpv4.MessageTypeAck, to: "10.213.0.11",
			hw: mac1, lease: 10 * time.Minute},
		{name: "rebinding, broadcast wanted", req: request(t, req, ciaddr("10.213.0.11"), dhcpv4.WithBroadcast(true)),
			reply: dhcpv4.MessageTypeAck, to: "10.213.0.11", hw: mac1, lease: 10 * time.Minute},
		{name: "renewing another address", req: request(t, req, ciaddr("10.213.0.99")), reply: dhcpv4.MessageTypeNak,
			to: "255.255.255.255", hw: broadcastMAC},
		{name: "request without an address", req: request(t, req), silent: true},
		{name: "inform", req: request(t, dhcpv4.MessageTypeInform, ciaddr("10.213.0.11")), reply: dhcpv4.MessageTypeAck,
			to: "10.213.0.11", hw: mac1},
		{name: "inform with another address", req: request(t, dhcpv4.MessageTypeInform, ciaddr("10.213.0.99")), silent: true},
		{name: "release", req: request(t, dhcpv4.MessageTypeRelease, ciaddr("10.213.0.11"))},
		{name: "release of another address", req: request(t, dhcpv4.MessageTypeRelease, ciaddr("10.213.0.99")), silent: true},
		{name: "decline", req: request(t, dhcpv4.MessageTypeDecline, wants("10.213.0.11"))},
		{name: "an offer", req: request(t, dhcpv4.MessageTypeOffer), silent: true},
		{name: "a stranger", req: request(t, discover, dhcpv4.WithHwAddr(net.HardwareAddr{2, 0, 0, 0, 0, 9})), silent: true},
		{name: "no MAC", req: request(t, discover, dhcpv4.WithHwAddr(net.HardwareAddr{1, 2, 3})), silent: true},
		{name: "relayed", req: request(t, discover, dhcpv4.WithGatewayIP(net.IPv4(10, 0, 0, 1))), silent: true},
		{name: "a reply", req: request(t, discover, func(d *dhcpv4.DHCPv4) { d.OpCode = dhcpv4.OpcodeBootReply }), silent: true},
		{name: "BOOTP", req: request(t, dhcpv4.MessageTypeNone, dhcpv4.WithoutOption(dhcpv4.OptionDHCPMessageType)), silent: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a, err := testServer().answer(tt.req.ToBytes(), 1500, always)
			if tt.silent {
				if err == nil {
					t.Errorf("answered with %+v, want silence", a)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if a.lease != tt.lease {
				t.Errorf("lease of %v, want %v", a.lease, tt.lease)
			}
			if tt.reply == dhcpv4.MessageTypeNone {
				if a.reply != nil {
					t.Errorf("reply %v, want none", a.reply)
				}
				return
			}
			type sent struct{ Type, To, HW string }
			want := sent{tt.reply.String(), tt.to, tt.hw.String()}
			if d := cmp.Diff(want, sent{a.reply.MessageType().String(), a.to.String(), a.hw.String()}); d != "" {
				t.Errorf("reply (-want +got):\n%s", d)
			}
			if a.server != gw || a.reply.TransactionID != tt.req.TransactionID || a.reply.OpCode != dhcpv4.OpcodeBootReply {
				t.Errorf("from %s, reply %v", a.server, a.reply)
			}
			if l := len(a.reply.ToBytes()); l > 548 {
				t.Errorf("reply of %d bytes, want at most 548", l)
			}
		})
	}
}

// TestOptions: bytes as they are on the wire.
func TestOptions(t *testing.T) {
	t.Parallel()
	id := option(dhcpv4.OptClientIdentifier([]byte{1, 2, 3}))
	a, err := testServer().answer(request(t, dhcpv4.MessageTypeDiscover, id).ToBytes(), 1450, always)
	if err != nil {
		t.Fatal(err)
	}
	m, err := dhcpv4.FromBytes(a.reply.ToBytes())
	if err != nil {
		t.Fatal(err)
	}
	routes := []byte{32, 169, 254, 169, 254, 10, 213, 0, 1, 0, 10, 213, 0, 1}
	want := dhcpv4.Options{
		1: {255, 255, 255, 0}, 3: {10, 213, 0, 1}, 6: {192, 0, 2, 53, 192, 0, 2, 54}, 12: []byte("web-1"), 26: {0x05, 0xaa},
		51: {0, 0, 2, 88}, 53: {2}, 54: {10, 213, 0, 1}, 58: {0, 0, 1, 44}, 59: {0, 0, 2, 13}, 61: {1, 2, 3}, 121: routes, 249: routes,
	}
	if d := cmp.Diff(want, m.Options); d != "" {
		t.Errorf("options (-want +got):\n%s", d)
	}
	if got := m.YourIPAddr.String(); got != "10.213.0.11" {
		t.Errorf("yiaddr %s", got)
	}
	inform, err := testServer().answer(request(t, dhcpv4.MessageTypeInform, dhcpv4.WithClientIP(addr1.AsSlice())).ToBytes(), 1450, always)
	if err != nil {
		t.Fatal(err)
	}
	if r := inform.reply; r.Options.Has(dhcpv4.OptionIPAddressLeaseTime) || !r.YourIPAddr.IsUnspecified() {
		t.Errorf("an inform was granted a lease: %v", r)
	}
}

// full returns an offer with every option of a network.
func full() Offer {
	o := testOffer()
	o.Options = seedbed.NetworkOptions{
		Domain: "lan.example.org", Search: []string{"lan.example.org", "example.org"}, NTP: []netip.Addr{netip.MustParseAddr("10.213.0.5")},
		Routes:     []seedbed.NetworkRoute{{Prefix: netip.MustParsePrefix("10.214.0.0/16"), Via: netip.MustParseAddr("10.213.0.9")}},
		BootServer: netip.MustParseAddr("10.213.0.6"), BootFile: "pxelinux.0",
	}
	return o
}

func answered(t testing.TB, o Offer, mods ...dhcpv4.Modifier) *dhcpv4.DHCPv4 {
	t.Helper()
	s := testServer()
	s.Lookup = func(seedbed.MAC) (Offer, bool) { return o, true }
	a, err := s.answer(request(t, dhcpv4.MessageTypeDiscover, mods...).ToBytes(), 1500, always)
	if err != nil {
		t.Fatal(err)
	}
	return a.reply
}

func TestNetworkOptions(t *testing.T) {
	t.Parallel()
	m := answered(t, full())
	routes := fmt.Sprint(m.ClasslessStaticRoute())
	got := []any{m.DomainName(), m.DomainSearch().Labels, fmt.Sprint(m.NTPServers()), routes, m.BootFileName, m.ServerIPAddr.String(),
		m.BootFileNameOption(), m.TFTPServerName()}
	want := []any{"lan.example.org", []string{"lan.example.org", "example.org"}, "[10.213.0.5]",
		"[route to 169.254.169.254/32 via 10.213.0.1 route to 10.214.0.0/16 via 10.213.0.9 route to 0.0.0.0/0 via 10.213.0.1]",
		"pxelinux.0", "10.213.0.6", "pxelinux.0", "10.213.0.6"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	o := testOffer()
	o.Isolated = true
	m = answered(t, o)
	if got := fmt.Sprint(m.ClasslessStaticRoute()); got != "[route to 169.254.169.254/32 via 10.213.0.1]" || len(m.Router()) > 0 {
		t.Errorf("an isolated network has the routes %s and the router %v", got, m.Router())
	}
	o = testOffer()
	o.Options.BootFile = "http://10.213.0.6/boot.efi"
	if m = answered(t, o); m.BootFileName != o.Options.BootFile || !m.ServerIPAddr.IsUnspecified() || m.TFTPServerName() != "" {
		t.Errorf("the URL to boot from gives %q at %s, %q", m.BootFileName, m.ServerIPAddr, m.TFTPServerName())
	}
}

// An answer fits what its client accepts, without what the client can best do without.
func TestAnswerFits(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		o, n := full(), rapid.IntRange
		name := func(most int, label string) string { return strings.Repeat("a", n(1, most).Draw(t, label)) }
		o.Options.BootFile, o.Options.Domain, o.Hostname = name(127, "file"), name(60, "domain"), name(60, "name")
		o.Options.Search = []string{name(60, "search 1"), name(60, "search 2") + ".example.org"}
		for i := range n(0, 7).Draw(t, "routes") {
			o.Options.Routes = append(o.Options.Routes, seedbed.NetworkRoute{
				Prefix: netip.PrefixFrom(netip.AddrFrom4([4]byte{172, 16, 0, byte(i)}), 32), Via: gw})
		}
		for range n(0, 6).Draw(t, "resolvers") {
			o.DNS = append(o.DNS, gw)
		}
		mods := []dhcpv4.Modifier{option(dhcpv4.OptClientIdentifier(make([]byte, n(1, 60).Draw(t, "identifier"))))}
		most := 576
		if rapid.Bool().Draw(t, "says") {
			most = n(300, 2000).Draw(t, "most")
			mods = append(mods, option(dhcpv4.OptMaxMessageSize(uint16(most))))
		}
		tb := new(testing.T)
		m := answered(tb, o, mods...)
		size, most := 28+len(m.ToBytes()), min(max(most, 576), 1500)
		if size > most {
			t.Fatalf("%d bytes for a client that accepts %d", size, most)
		}
		if len(m.Options.Get(dhcpv4.OptionClasslessStaticRoute)) == 0 || len(m.DNS()) == 0 {
			t.Fatal("the answer has no routes or no resolvers")
		}
		if m.Options.Get(dhcpv4.OptionHostName) == nil && m.Options.Get(dhcpv4.OptionBootfileName) != nil {
			t.Fatal("the name of the host was left out before the name of the file")
		}
	})
}

// TestForeignRouter: the server has an identity of its own, and there may be no router.
func TestForeignRouter(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		gateway netip.Addr
		router  []byte
		routes  []byte
	}{
		"with a router":    {gw, []byte{10, 213, 0, 1}, []byte{32, 169, 254, 169, 254, 10, 213, 0, 1, 0, 10, 213, 0, 1}},
		"without a router": {netip.Addr{}, nil, []byte{32, 169, 254, 169, 254, 0, 0, 0, 0}},
	} {
		o := testOffer()
		o.Server, o.Gateway = seedbed.MetadataAddr, tt.gateway
		s := testServer()
		s.Lookup = func(seedbed.MAC) (Offer, bool) { return o, true }
		a, err := s.answer(request(t, dhcpv4.MessageTypeDiscover).ToBytes(), 1500, always)
		if err != nil {
			t.Fatal(err)
		}
		got := a.reply.Options
		want := dhcpv4.Options{54: {169, 254, 169, 254}, 3: tt.router, 121: tt.routes}
		for code, value := range want {
			if !bytes.Equal(got[code], value) {
				t.Errorf("%s: option %d is %v, want %v", name, code, got[code], value)
			}
		}
		if a.server != seedbed.MetadataAddr {
			t.Errorf("%s: sent from %s", name, a.server)
		}
		renewal := request(t, dhcpv4.MessageTypeRequest, option(dhcpv4.OptServerIdentifier(seedbed.MetadataAddr.AsSlice())),
			option(dhcpv4.OptRequestedIPAddress(addr1.AsSlice())))
		if a, err := s.answer(renewal.ToBytes(), 1500, always); err != nil || a.lease == 0 {
			t.Errorf("%s: the request is answered with %+v, %v", name, a, err)
		}
	}
}

func TestOfferThatCannotBe(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Offer){
		"no address":                 func(o *Offer) { o.Addr = netip.Addr{} },
		"IPv6":                       func(o *Offer) { o.Gateway = netip.IPv6Loopback() },
		"no prefix":                  func(o *Offer) { o.Prefix = netip.Prefix{} },
		"address outside the prefix": func(o *Offer) { o.Addr = netip.MustParseAddr("10.0.0.1") },
	} {
		s := testServer()
		o := testOffer()
		change(&o)
		s.Lookup = func(seedbed.MAC) (Offer, bool) { return o, true }
		if a, err := s.answer(request(t, dhcpv4.MessageTypeDiscover).ToBytes(), 1500, always); err == nil {
			t.Errorf("%s: %+v, want an error", name, a)
		}
	}
}

// TestMalformedRequestsCount: a client that is too fast is refused before its request is parsed. A
// decline is logged, so it shows whether the server has looked at it.
func TestMalformedRequestsCount(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		before int
		want   bool
	}{
		"within the burst": {requestBurst - 1, true},
		"after it":         {requestBurst, false},
	} {
		var log bytes.Buffer
		s := testServer()
		s.Log = slog.New(slog.NewTextHandler(&log, nil))
		l := loop{server: s, iface: "br0", mtu: func(string) (int, error) { return 1500, nil }, sessions: newSessions()}
		now := time.Unix(1000, 0)
		malformed := request(t, dhcpv4.MessageTypeDiscover).ToBytes()[:236] // without its options
		for range tt.before {
			l.handle(malformed, now)
		}
		l.handle(request(t, dhcpv4.MessageTypeDecline).ToBytes(), now)
		if got := strings.Contains(log.String(), "address is in use"); got != tt.want {
			t.Errorf("%s: the next request was read: %t, want %t", name, got, tt.want)
		}
	}
}

func FuzzAnswer(f *testing.F) {
	f.Add(request(f, dhcpv4.MessageTypeDiscover).ToBytes())
	f.Add(request(f, dhcpv4.MessageTypeRequest, dhcpv4.WithClientIP(addr1.AsSlice())).ToBytes())
	f.Add(request(f, dhcpv4.MessageTypeRequest, option(dhcpv4.OptRequestedIPAddress(addr1.AsSlice())), dhcpv4.WithBroadcast(true)).ToBytes())
	f.Add([]byte{1, 1, 6, 0})
	s := testServer()
	s.Lookup = func(seedbed.MAC) (Offer, bool) { return testOffer(), true }
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := s.answer(b, 1500, always)
		if err != nil || a.reply == nil {
			return
		}
		d := datagram(a.server, a.to, a.reply.ToBytes())
		if sum(0, d[:20]) != 0xffff {
			t.Error("wrong header checksum")
		}
		m, err := dhcpv4.FromBytes(d[28:])
		if err != nil {
			t.Fatalf("the reply cannot be parsed: %v", err)
		}
		if y := addrOf(m.YourIPAddr); y.IsValid() && y != addr1 {
			t.Errorf("the reply gives %s", y)
		}
		if len(d) > 1000 {
			t.Errorf("a reply of %d bytes", len(d))
		}
	})
}
