package dhcp6

import (
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/insomniacslk/dhcp/iana"

	"seedbed"
)

const mark1 = 101

var (
	prefix   = netip.MustParsePrefix("fd12:3456:789a:1::/64")
	addr1    = netip.MustParseAddr("fd12:3456:789a:1:5054:ff:fe00:1")
	clientID = &dhcpv6.DUIDLL{HWType: iana.HWTypeEthernet, LinkLayerAddr: net.HardwareAddr{0x52, 0x54, 0, 0, 0, 1}}
)

func testServer() *Server {
	return &Server{MAC: seedbed.MAC{0x52, 0x54, 0, 0xb0, 0, 1}, Log: slog.New(slog.DiscardHandler), Lookup: func(mark uint32) (Offer, bool) {
		return Offer{Addr: addr1, Prefix: prefix, DNS: []netip.Addr{seedbed.ResolverAddr6}, Search: []string{"lab.internal"},
			NTP:     []netip.Addr{seedbed.TimeAddr6},
			BootURL: "http://192.0.2.1/boot.efi", Lease: time.Hour}, mark == mark1
	}}
}

// message returns a message of a client with its name.
func message(t testing.TB, typ dhcpv6.MessageType, options ...dhcpv6.Option) *dhcpv6.Message {
	t.Helper()
	m, err := dhcpv6.NewMessage()
	if err != nil {
		t.Fatal(err)
	}
	m.MessageType = typ
	m.AddOption(dhcpv6.OptClientID(clientID))
	for _, o := range options {
		m.AddOption(o)
	}
	return m
}

// wants is a set of addresses that a client asks for, or has.
func wants(id byte, addrs ...string) dhcpv6.Option {
	ia := &dhcpv6.OptIANA{IaId: [4]byte{3: id}}
	for _, a := range addrs {
		ia.Options.Add(&dhcpv6.OptIAAddress{IPv6Addr: net.ParseIP(a), PreferredLifetime: time.Hour, ValidLifetime: time.Hour})
	}
	return ia
}

// said is a reply in short.
func said(m *dhcpv6.Message) string {
	parts := []string{m.MessageType.String()}
	if m.GetOneOption(dhcpv6.OptionRapidCommit) != nil {
		parts = append(parts, "rapid")
	}
	if s := m.Options.Status(); s != nil {
		parts = append(parts, s.StatusCode.String())
	}
	for _, ia := range m.Options.IANA() {
		part := fmt.Sprintf("IA %d", ia.IaId[3])
		for _, a := range ia.Options.Addresses() {
			part += fmt.Sprintf(" %s for %s", a.IPv6Addr, a.ValidLifetime)
		}
		if s := ia.Options.Status(); s != nil {
			part += " " + s.StatusCode.String()
		}
		parts = append(parts, part)
	}
	for _, pd := range m.Options.IAPD() {
		parts = append(parts, "prefix "+pd.Options.Status().StatusCode.String())
	}
	return strings.Join(parts, ", ")
}

func TestAnswer(t *testing.T) {
	t.Parallel()
	s := testServer()
	ours := dhcpv6.OptServerID(s.id())
	another := dhcpv6.OptServerID(clientID)
	rapid := &dhcpv6.OptionGeneric{OptionCode: dhcpv6.OptionRapidCommit}
	const own, old = "fd12:3456:789a:1:5054:ff:fe00:1", "fd12:3456:789a:1::99"
	const leased = "IA 1 " + own + " for 1h0m0s"
	const silence = ""
	for _, tt := range []struct {
		name string
		req  *dhcpv6.Message
		want string
	}{
		{"solicit", message(t, dhcpv6.MessageTypeSolicit, wants(1)), "ADVERTISE, " + leased},
		{"solicit at once", message(t, dhcpv6.MessageTypeSolicit, wants(1), rapid), "REPLY, rapid, " + leased},
		{"solicit another address", message(t, dhcpv6.MessageTypeSolicit, wants(1, old)), "ADVERTISE, " + leased},
		{"solicit two", message(t, dhcpv6.MessageTypeSolicit, wants(1), wants(2)), "ADVERTISE, " + leased + ", IA 2 NoAddrsAvail"},
		{"solicit a prefix", message(t, dhcpv6.MessageTypeSolicit, wants(1), &dhcpv6.OptIAPD{}),
			"ADVERTISE, " + leased + ", prefix NoPrefixAvail"},
		{"solicit of one server", message(t, dhcpv6.MessageTypeSolicit, wants(1), ours), silence},
		{"request", message(t, dhcpv6.MessageTypeRequest, wants(1, own), ours), "REPLY, " + leased},
		{"request of all", message(t, dhcpv6.MessageTypeRequest, wants(1, own)), silence},
		{"request of another", message(t, dhcpv6.MessageTypeRequest, wants(1, own), another), silence},
		{"renew", message(t, dhcpv6.MessageTypeRenew, wants(1, own), ours), "REPLY, " + leased},
		{"renew an address of before", message(t, dhcpv6.MessageTypeRenew, wants(1, old), ours), "REPLY, " + leased + " " + old + " for 0s"},
		{"rebind", message(t, dhcpv6.MessageTypeRebind, wants(1, own)), "REPLY, " + leased},
		{"rebind of one server", message(t, dhcpv6.MessageTypeRebind, wants(1, own), ours), silence},
		{"confirm", message(t, dhcpv6.MessageTypeConfirm, wants(1, own)), "REPLY, Success"},
		{"confirm elsewhere", message(t, dhcpv6.MessageTypeConfirm, wants(1, "fd99::1")), "REPLY, NotOnLink"},
		{"confirm nothing", message(t, dhcpv6.MessageTypeConfirm), silence},
		{"release", message(t, dhcpv6.MessageTypeRelease, wants(1, own), ours), "REPLY, Success"},
		{"decline", message(t, dhcpv6.MessageTypeDecline, wants(1, own), ours), "REPLY, Success"},
		{"ask for information", message(t, dhcpv6.MessageTypeInformationRequest), "REPLY"},
		{"ask for information with an address", message(t, dhcpv6.MessageTypeInformationRequest, wants(1)), silence},
		{"a reply", message(t, dhcpv6.MessageTypeReply, wants(1), ours), silence},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b, err := s.answer(tt.req.ToBytes(), mark1)
			if tt.want == silence {
				if err == nil {
					t.Errorf("answered, want silence")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			m, err := dhcpv6.MessageFromBytes(b)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.want, said(m)); d != "" {
				t.Errorf("reply (-want +got):\n%s", d)
			}
			if m.TransactionID != tt.req.TransactionID || !m.Options.ClientID().Equal(clientID) || !m.Options.ServerID().Equal(s.id()) {
				t.Errorf("not the answer to this request: %v", m.Summary())
			}
			if got := fmt.Sprintln(m.Options.DNS(), m.Options.DomainSearchList().Labels, m.Options.BootFileURL(), m.Options.NTPServers(),
				m.Options.SNTP()); got != "[fd00:ec2::253] [lab.internal] http://192.0.2.1/boot.efi [fd00:ec2::123] [fd00:ec2::123]\n" {
				t.Errorf("it describes the network as %s", got)
			}
		})
	}
}

// TestStrangers: who is not known by its mark gets no answer, whatever it says of itself.
func TestStrangers(t *testing.T) {
	t.Parallel()
	s := testServer()
	for _, mark := range []uint32{0, mark1 + 1} {
		if _, err := s.answer(message(t, dhcpv6.MessageTypeSolicit, wants(1)).ToBytes(), mark); err == nil {
			t.Errorf("mark %d: answered, want silence", mark)
		}
	}
	nameless := message(t, dhcpv6.MessageTypeSolicit, wants(1))
	nameless.Options.Options.Del(dhcpv6.OptionClientID)
	if _, err := s.answer(nameless.ToBytes(), mark1); err == nil {
		t.Error("a client without a name: answered, want silence")
	}
	relayed, err := dhcpv6.EncapsulateRelay(message(t, dhcpv6.MessageTypeSolicit, wants(1)), dhcpv6.MessageTypeRelayForward,
		net.ParseIP("fe80::1"), net.ParseIP("fe80::2"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.answer(relayed.ToBytes(), mark1); err == nil {
		t.Error("a relayed request: answered, want silence")
	}
}

// FuzzAnswer: whatever a guest sends, the reply parses and offers no address but its own.
func FuzzAnswer(f *testing.F) {
	s := testServer()
	for _, m := range []*dhcpv6.Message{message(f, dhcpv6.MessageTypeSolicit, wants(1)),
		message(f, dhcpv6.MessageTypeRenew, wants(1, "fd99::1"), dhcpv6.OptServerID(s.id())), message(f, dhcpv6.MessageTypeInformationRequest)} {
		f.Add(m.ToBytes())
	}
	f.Fuzz(func(t *testing.T, packet []byte) {
		b, err := s.answer(packet, mark1)
		if err != nil {
			return
		}
		m, err := dhcpv6.MessageFromBytes(b)
		if err != nil {
			t.Fatalf("the reply does not parse: %v", err)
		}
		for _, ia := range m.Options.IANA() {
			for _, a := range ia.Options.Addresses() {
				if a.ValidLifetime > 0 && !a.IPv6Addr.Equal(addr1.AsSlice()) {
					t.Fatalf("it offers %s", a.IPv6Addr)
				}
			}
		}
	})
}
