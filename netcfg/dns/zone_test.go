package dns

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"
)

// guests are names and addresses.
type guests map[string][]string

func (g guests) Addrs(name string) (addrs []netip.Addr, ok bool) {
	texts, ok := g[name]
	for _, t := range texts {
		addrs = append(addrs, netip.MustParseAddr(t))
	}
	return addrs, ok
}

func (g guests) Host(name, project string) ([]netip.Addr, bool) {
	return g.Addrs(name + "." + project)
}

func (g guests) Name(a netip.Addr) (string, bool) {
	for name, addrs := range g {
		if slices.Contains(addrs, a.String()) {
			return name, true
		}
	}
	return "", false
}

func testServer(f *Forwarder) *Server {
	return New(Config{Zone: Zone{Domain: "lab.internal", Prefixes: []netip.Prefix{netip.MustParsePrefix("10.80.16.0/20"), {}},
		Gateways: []netip.Addr{netip.MustParseAddr("10.80.16.1"), {}},
		Names:    guests{"web1": {"10.80.16.11", "10.80.17.12"}, "db.shop": {"10.80.18.13"}, "shop": nil}},
		Counts: &Counts{}, Forwarder: f})
}

// asker is who asks.
var asker = netip.MustParseAddr("10.80.16.11")

func ask(name string, typ uint16) *dns.Msg { return new(dns.Msg).SetQuestion(name, typ) }

// said is a reply in short: its code, its answers and the owner of its SOA.
func said(m *dns.Msg) string {
	parts := []string{dns.RcodeToString[m.Rcode]}
	for _, r := range m.Answer {
		parts = append(parts, strings.Join(strings.Fields(r.String())[3:5], " "))
	}
	for _, r := range m.Ns {
		parts = append(parts, "SOA of "+r.Header().Name)
	}
	return strings.Join(parts, ", ")
}

func TestAnswer(t *testing.T) {
	t.Parallel()
	const none, forward = "NXDOMAIN, SOA of lab.internal.", ""
	for _, c := range []struct {
		name string
		typ  uint16
		want string
	}{
		{"web1.lab.internal.", dns.TypeA, "NOERROR, A 10.80.16.11, A 10.80.17.12"},
		{"WEB1.Lab.Internal.", dns.TypeA, "NOERROR, A 10.80.16.11, A 10.80.17.12"},
		{"web1.lab.internal.", dns.TypeANY, "NOERROR, A 10.80.16.11, A 10.80.17.12"},
		{"web1.lab.internal.", dns.TypeAAAA, "NOERROR, SOA of lab.internal."},
		{"web1.lab.internal.", dns.TypeHTTPS, "NOERROR, SOA of lab.internal."},
		{"db.shop.lab.internal.", dns.TypeA, "NOERROR, A 10.80.18.13"},
		{"shop.lab.internal.", dns.TypeA, "NOERROR, SOA of lab.internal."},
		{"web2.lab.internal.", dns.TypeA, none},
		{"a.web1.lab.internal.", dns.TypeA, none},
		{"lab.internal.", dns.TypeA, "NOERROR, A 10.80.16.1"},
		{"lab.internal.", dns.TypeSOA, "NOERROR, SOA lab.internal."},
		{"lab.internal.", dns.TypeNS, "NOERROR, NS lab.internal."},
		{"lab.internal.", dns.TypeMX, "NOERROR, SOA of lab.internal."},
		{"web1.", dns.TypeA, "NOERROR, A 10.80.16.11, A 10.80.17.12"},
		{"web1.", dns.TypeAAAA, "NOERROR"},
		{"db.shop.internal.", dns.TypeA, "NOERROR, A 10.80.18.13"},
		{"DB.Shop.internal.", dns.TypeAAAA, "NOERROR"},
		{"web1.shop.internal.", dns.TypeA, forward},
		{"a.db.shop.internal.", dns.TypeA, forward},
		{"db.shop.external.", dns.TypeA, forward},
		{"web2.", dns.TypeA, "NXDOMAIN"},
		{"11.16.80.10.in-addr.arpa.", dns.TypePTR, "NOERROR, PTR web1.lab.internal."},
		{"13.18.80.10.IN-ADDR.arpa.", dns.TypePTR, "NOERROR, PTR db.shop.lab.internal."},
		{"1.16.80.10.in-addr.arpa.", dns.TypePTR, "NOERROR, PTR lab.internal."},
		{"11.16.80.10.in-addr.arpa.", dns.TypeA, "NOERROR, SOA of 80.10.in-addr.arpa."},
		{"99.16.80.10.in-addr.arpa.", dns.TypePTR, "NXDOMAIN, SOA of 80.10.in-addr.arpa."},
		{"011.16.80.10.in-addr.arpa.", dns.TypePTR, forward}, // no address
		{"11.32.80.10.in-addr.arpa.", dns.TypePTR, forward},  // another prefix in the same zone
		{"80.10.in-addr.arpa.", dns.TypeSOA, forward},
		{"11.16.81.10.in-addr.arpa.", dns.TypePTR, forward},
		{"example.org.", dns.TypeA, forward},
		{"notlab.internal.", dns.TypeA, forward},
		{"internal.", dns.TypeNS, forward},
		{".", dns.TypeNS, forward},
	} {
		for _, f := range []*Forwarder{nil, NewForwarder(nil, ResolvConf)} {
			s := testServer(f)
			reply, local := s.answer(asker, ask(c.name, c.typ))
			what := fmt.Sprintf("%s %s, forwarded: %t", c.name, dns.TypeToString[c.typ], f != nil)
			switch {
			case c.want == forward && f == nil:
				if !local || said(reply) != "REFUSED" || s.Counts.Refused.Load() != 1 {
					t.Errorf("%s: %v, want a refusal", what, reply)
				}
			case c.want == forward:
				if local || reply != nil {
					t.Errorf("%s: answered %s, want it forwarded", what, said(reply))
				}
			case !local || said(reply) != c.want || !reply.Authoritative || s.Counts.Answered.Load() != 1:
				t.Errorf("%s: %v, want %s", what, reply, c.want)
			case reply.Question[0].Name != c.name:
				t.Errorf("%s: the question came back as %s", what, reply.Question[0].Name)
			}
		}
	}
}

// TestAnswer6: a guest with both kinds of addresses is found by each, and by its name in the reverse zone of the IPv6 prefix.
func TestAnswer6(t *testing.T) {
	t.Parallel()
	s := testServer(nil)
	s.Prefixes[1], s.Gateways[1] = netip.MustParsePrefix("fd12:3456:789a:1::/64"), netip.MustParseAddr("fd12:3456:789a:1::1")
	s.Names = guests{"web1": {"10.80.16.11", "fd12:3456:789a:1::b"}}
	const reverse = "0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.1.0.0.0.a.9.8.7.6.5.4.3.2.1.d.f.ip6.arpa."
	const zone = "1.0.0.0.a.9.8.7.6.5.4.3.2.1.d.f.ip6.arpa."
	for _, c := range []struct {
		name string
		typ  uint16
		want string
	}{
		{"web1.lab.internal.", dns.TypeA, "NOERROR, A 10.80.16.11"},
		{"web1.lab.internal.", dns.TypeAAAA, "NOERROR, AAAA fd12:3456:789a:1::b"},
		{"web1.lab.internal.", dns.TypeANY, "NOERROR, A 10.80.16.11, AAAA fd12:3456:789a:1::b"},
		{"web1.", dns.TypeAAAA, "NOERROR, AAAA fd12:3456:789a:1::b"},
		{"lab.internal.", dns.TypeAAAA, "NOERROR, AAAA fd12:3456:789a:1::1"},
		{"b." + reverse, dns.TypePTR, "NOERROR, PTR web1.lab.internal."},
		{"1." + reverse, dns.TypePTR, "NOERROR, PTR lab.internal."},
		{"c." + reverse, dns.TypePTR, "NXDOMAIN, SOA of " + zone},
		{"B." + strings.ToUpper(reverse), dns.TypePTR, "NOERROR, PTR web1.lab.internal."},
		{reverse, dns.TypePTR, "REFUSED"},         // no address
		{"bb." + reverse, dns.TypePTR, "REFUSED"}, // nor this
		{"g." + reverse, dns.TypePTR, "REFUSED"},
		{"11.16.80.10.in-addr.arpa.", dns.TypePTR, "NOERROR, PTR web1.lab.internal."},
	} {
		if reply, _ := s.answer(asker, ask(c.name, c.typ)); said(reply) != c.want {
			t.Errorf("%s %s: %s, want %s", c.name, dns.TypeToString[c.typ], said(reply), c.want)
		}
	}
}

// TestOtherNetworks: a guest asks about all of its networks by one of them, and no other guest does.
func TestOtherNetworks(t *testing.T) {
	t.Parallel()
	s := testServer(nil)
	s.Others = func(a netip.Addr) []Zone {
		if a != asker {
			return nil
		}
		return []Zone{
			{Domain: "other.lab.internal", Names: guests{"a": {"10.92.0.1"}}}, // below the one that is asked by
			{Domain: "internal", Gateways: []netip.Addr{netip.MustParseAddr("10.91.0.1")}, Names: guests{}},
			{Domain: "db.internal", Prefixes: []netip.Prefix{netip.MustParsePrefix("10.90.0.0/24")},
				Gateways: []netip.Addr{netip.MustParseAddr("10.90.0.1")},
				Names:    guests{"pg1": {"10.90.0.7"}, "web1": {"10.90.0.8"}}},
		}
	}
	for name, want := range map[string]string{
		"pg1.db.internal.": "NOERROR, A 10.90.0.7", "web1.db.internal.": "NOERROR, A 10.90.0.8", "pg1.": "NOERROR, A 10.90.0.7",
		"web1.": "NOERROR, A 10.80.16.11, A 10.80.17.12", "pg2.db.internal.": "NXDOMAIN, SOA of db.internal.", "pg2.": "NXDOMAIN",
		"example.org.":       "REFUSED",
		"web1.lab.internal.": "NOERROR, A 10.80.16.11, A 10.80.17.12", "other.internal.": "NXDOMAIN, SOA of internal.",
		"a.other.lab.internal.": "NXDOMAIN, SOA of lab.internal.",
	} {
		if reply, _ := s.answer(asker, ask(name, dns.TypeA)); said(reply) != want {
			t.Errorf("%s: %s, want %s", name, said(reply), want)
		}
	}
	if reply, _ := s.answer(asker, ask("7.0.90.10.in-addr.arpa.", dns.TypePTR)); said(reply) != "NOERROR, PTR pg1.db.internal." {
		t.Errorf("an address of the other network: %s", said(reply))
	}
	if reply, _ := s.answer(asker.Next(), ask("pg1.db.internal.", dns.TypeA)); said(reply) != "REFUSED" {
		t.Errorf("another guest: %s", said(reply))
	}
}

// TestRefusals are queries that nobody answers.
func TestRefusals(t *testing.T) {
	t.Parallel()
	change := func(f func(*dns.Msg)) *dns.Msg {
		m := ask("web1.lab.internal.", dns.TypeA)
		f(m)
		return m
	}
	for want, m := range map[string]*dns.Msg{
		"NOTIMP":  change(func(m *dns.Msg) { m.Opcode = dns.OpcodeUpdate }),
		"FORMERR": change(func(m *dns.Msg) { m.Question = append(m.Question, m.Question[0]) }),
		"REFUSED": change(func(m *dns.Msg) { m.Question[0].Qtype = dns.TypeAXFR }),
		"BADVERS": change(func(m *dns.Msg) { m.SetEdns0(4096, false); m.IsEdns0().SetVersion(1) }),
	} {
		reply, local := testServer(NewForwarder(nil, ResolvConf)).answer(asker, m)
		if !local || dns.RcodeToString[reply.Rcode] != want && !(want == "BADVERS" && reply.Rcode == dns.RcodeBadVers) {
			t.Errorf("%v, want %s", reply, want)
		}
	}
	chaos := ask("version.bind.", dns.TypeTXT)
	chaos.Question[0].Qclass = dns.ClassCHAOS
	if reply, local := testServer(NewForwarder(nil, ResolvConf)).answer(asker, chaos); !local || reply.Rcode != dns.RcodeRefused {
		t.Errorf("version.bind: %v", reply)
	}
}

func TestReverseZone(t *testing.T) {
	t.Parallel()
	for prefix, want := range map[string]string{
		"10.80.16.0/20": "80.10.in-addr.arpa.", "10.80.16.0/24": "16.80.10.in-addr.arpa.", "10.0.0.0/8": "10.in-addr.arpa.",
		"10.80.16.8/29": "16.80.10.in-addr.arpa.",
	} {
		if got := reverseZone(netip.MustParsePrefix(prefix)); got != want {
			t.Errorf("%s: %s, want %s", prefix, got, want)
		}
	}
	if got := reverseZone(netip.Prefix{}); got != "" {
		t.Errorf("no prefix: %s", got)
	}
}

// FuzzAnswer: whatever a guest sends, the reply is one to its question, which it can read, within its size.
func FuzzAnswer(f *testing.F) {
	for _, m := range []*dns.Msg{ask("web1.lab.internal.", dns.TypeA), ask("11.16.80.10.in-addr.arpa.", dns.TypePTR),
		ask("example.org.", dns.TypeANY).SetEdns0(4096, true)} {
		b, err := m.Pack()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	s := testServer(nil)
	f.Fuzz(func(t *testing.T, b []byte) {
		req := new(dns.Msg)
		if req.Unpack(b) != nil || req.Response {
			return
		}
		reply, local := s.answer(asker, req)
		if !local {
			t.Fatalf("%v was to be forwarded, without a forwarder", req)
		}
		reply.Truncate(dns.MinMsgSize)
		out, err := reply.Pack()
		if err != nil {
			if _, again := req.Pack(); again == nil {
				t.Fatalf("%v: %v", req, err)
			}
			return
		}
		got := new(dns.Msg)
		if err := got.Unpack(out); err != nil || got.Id != req.Id || !got.Response || len(out) > dns.MinMsgSize && len(req.Question) < 2 {
			t.Fatalf("%v: %v, %v of %d bytes", req, got, err, len(out))
		}
	})
}

// TestSharedNetwork: in a prefix or domain with other hosts, what is not known of guests is asked elsewhere, or of another
// network of the guest.
func TestSharedNetwork(t *testing.T) {
	t.Parallel()
	s := testServer(NewForwarder(nil, ResolvConf))
	said := func(name string, typ uint16) string {
		if reply, local := s.answer(asker, ask(name, typ)); local {
			return said(reply)
		}
		return "asked elsewhere"
	}
	check := func(what string, typ uint16, want map[string]string) {
		t.Helper()
		for name, want := range want {
			if got := said(name, typ); got != want {
				t.Errorf("%s: %s: %s, want %s", what, name, got, want)
			}
		}
	}
	const elsewhere, web1 = "asked elsewhere", "NOERROR, A 10.80.16.11, A 10.80.17.12"
	s.SharedPrefix = true
	check("a shared prefix", dns.TypeA, map[string]string{"web1.lab.internal.": web1, "web1.": web1, "example.org.": elsewhere,
		"printer.lab.internal.": "NXDOMAIN, SOA of lab.internal.", "lab.internal.": "NOERROR, A 10.80.16.1", "printer.": "NXDOMAIN"})
	check("a shared prefix", dns.TypePTR, map[string]string{"11.16.80.10.in-addr.arpa.": "NOERROR, PTR web1.lab.internal.",
		"1.16.80.10.in-addr.arpa.": elsewhere, "99.16.80.10.in-addr.arpa.": elsewhere})
	s.SharedDomain = true
	s.Others = func(netip.Addr) []Zone {
		return []Zone{{Domain: "db.lab.internal", Names: guests{"pg1": {"10.90.0.7"}}}}
	}
	check("a shared domain", dns.TypeA, map[string]string{"web1.lab.internal.": web1, "printer.lab.internal.": elsewhere,
		"lab.internal.": elsewhere, "printer.": "NXDOMAIN", "pg1.db.lab.internal.": "NOERROR, A 10.90.0.7",
		"pg2.db.lab.internal.": "NXDOMAIN, SOA of db.lab.internal."})
	s.Gateways, s.SharedDomain = nil, false
	check("no gateway", dns.TypeA, map[string]string{"lab.internal.": "NOERROR, SOA of lab.internal."})
}
