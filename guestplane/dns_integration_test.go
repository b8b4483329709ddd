//go:build integration

package guestplane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"seedbed"
	"seedbed/netcfg/netnstest"

	resolver "seedbed/netcfg/dns"
)

// outside answers on the node as its resolver would.
func outside(t *testing.T) netip.AddrPort {
	t.Helper()
	pc, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &dns.Server{PacketConn: pc, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, req *dns.Msg) {
		m := new(dns.Msg).SetReply(req)
		if req.Question[0].Name == "example.org." && req.Question[0].Qtype == dns.TypeA {
			m.Answer = append(m.Answer, &dns.A{Hdr: dns.RR_Header{Name: "example.org.", Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 9},
				A: net.IPv4(192, 0, 2, 80)})
		}
		_ = w.WriteMsg(m) // the guest sees that it did not come
	})}
	go s.ActivateAndServe()
	t.Cleanup(func() { s.Shutdown() })
	return pc.LocalAddr().(*net.UDPAddr).AddrPort()
}

// asks returns what a guest is told, as its addresses or its code. It asks from ports of its own.
func (p person) asks(t *testing.T, network, server, name string, typ uint16) string {
	t.Helper()
	var m *dns.Msg
	err := error(nil)
	for range 2 { // the first may be lost while neighbours are found
		var c net.Conn
		if p.ns.Do(func() { c, err = net.DialTimeout(network, server+":53", time.Second) }); err != nil {
			continue
		}
		m, _, err = (&dns.Client{Timeout: time.Second}).ExchangeWithConn(new(dns.Msg).SetQuestion(name, typ), &dns.Conn{Conn: c})
		c.Close()
		if err == nil {
			break
		}
	}
	if err != nil {
		return "no answer"
	}
	var said []string
	for _, r := range m.Answer {
		said = append(said, strings.Fields(r.String())[4])
	}
	if len(said) == 0 {
		return dns.RcodeToString[m.Rcode]
	}
	return strings.Join(said, " ")
}

// passesFor reports whether another guest receives what this one sends from an address and port.
func (p person) passesFor(t *testing.T, addr string, port int, other person) bool {
	t.Helper()
	p.ns.Run(t, "ip", "addr", "add", addr+"/32", "dev", "eth0")
	defer p.ns.Run(t, "ip", "addr", "del", addr+"/32", "dev", "eth0")
	p.ns.Run(t, "ip", "neigh", "replace", other.NICs[0].Addr.String(), "lladdr", other.NICs[0].MAC.String(), "dev", "eth0") // without ARP
	var to net.PacketConn
	var from net.Conn
	var err, dialErr error
	other.ns.Do(func() { to, err = net.ListenPacket("udp4", ":5353") })
	p.ns.Do(func() {
		d := net.Dialer{LocalAddr: &net.UDPAddr{IP: net.ParseIP(addr), Port: port}}
		from, dialErr = d.Dial("udp4", other.NICs[0].Addr.String()+":5353")
	})
	if err != nil || dialErr != nil {
		t.Fatal(err, dialErr)
	}
	defer to.Close()
	defer from.Close()
	for range 3 {
		if _, err := from.Write([]byte("from the node")); err != nil {
			t.Fatal(err)
		}
	}
	if err := to.SetReadDeadline(time.Now().Add(shortly)); err != nil {
		t.Fatal(err)
	}
	_, _, err = to.ReadFrom(make([]byte, 64))
	return err == nil
}

// TestDNS: guests find each other by name on their network, and the rest of the world by the node's resolvers, whatever
// their security groups are.
func TestDNS(t *testing.T) {
	p := realPlane(t)
	p.forwarder = resolver.NewForwarder([]netip.AddrPort{outside(t)}, "")
	p.connections = 16 // fewer than the queries below
	lab, apart, old := network0(), network0(), network0()
	lab.Kind, lab.DNS, lab.Domain = seedbed.NetworkNAT, []netip.Addr{seedbed.ResolverAddr}, "lab.example"
	lab.Search = []string{"lab.example", "corp.example"}
	lab.Allow.Addresses = true // but for the resolver's
	apart.Name, apart.Kind, apart.Bridge, apart.MAC[5], apart.NAT = "apart", seedbed.NetworkIsolated, "seedbed1", 2, false
	apart.Prefix, apart.Gateway, apart.DNS = netip.MustParsePrefix("10.78.0.0/24"), netip.MustParseAddr("10.78.0.1"), lab.DNS
	old.Name, old.Kind, old.Bridge, old.MAC[5], old.NAT = "old", seedbed.NetworkRouted, "seedbed2", 3, false
	old.Prefix, old.Gateway, old.DNS = netip.MustParsePrefix("10.79.0.0/24"), netip.MustParseAddr("10.79.0.1"), nil
	web, db, lone, former := record(1, "default", "10.77.0.11"), record(2, "default", "10.77.0.12"), record(3, "apart", "10.78.0.13"),
		record(4, "old", "10.79.0.14")
	web.NICs[0].Groups = []string{"closed"}
	web.NICs = append(web.NICs, seedbed.GuestNIC{ID: 190, MAC: seedbed.MAC{0x52, 0x54, 0, 0, 0, 90}, Network: "apart",
		Addr: netip.MustParseAddr("10.78.0.90")})
	lone.NICs = append(lone.NICs, seedbed.GuestNIC{ID: 191, MAC: seedbed.MAC{0x52, 0x54, 0, 0, 0, 91}, Network: "default",
		Addr: netip.MustParseAddr("10.77.0.91")})
	state := stateWith([]seedbed.Network{lab, apart, old}, web, db, lone, former)
	state.Groups = []seedbed.SecurityGroup{{Name: "closed"}}
	serveState(t, p, state)
	var people []person
	for _, g := range []struct {
		seedbed.Guest
		bridge string
	}{{web, "seedbed0"}, {db, "seedbed0"}, {lone, "seedbed1"}, {former, "seedbed2"}} {
		people = append(people, attach(t, g.Guest, g.bridge, g.NICs[0].ID.Tap()))
	}
	web1, db1, lone1, former1 := people[0], people[1], people[2], people[3]
	const amazon = "169.254.169.253"
	for _, c := range []struct {
		who                person
		server, name, want string
		typ                uint16
	}{
		{web1, amazon, "guest-2.lab.example.", "10.77.0.12", dns.TypeA},
		{web1, amazon, "12.0.77.10.in-addr.arpa.", "guest-2.lab.example.", dns.TypePTR},
		{web1, amazon, "example.org.", "192.0.2.80", dns.TypeA},
		{web1, amazon, "guest-4.lab.example.", "NXDOMAIN", dns.TypeA},
		{web1, amazon, "guest-3.apart.internal.", "NOERROR", dns.TypeA}, // it could be another guest, since addresses are free
		{db1, "10.77.0.1", "guest-1.lab.example.", "10.77.0.11", dns.TypeA},
		{db1, "10.77.0.1", "guest-3.apart.internal.", "NOERROR", dns.TypeA}, // of the node's resolver
		{lone1, amazon, "guest-3.apart.internal.", "10.78.0.13", dns.TypeA},
		{lone1, "10.78.0.1", "guest-3.", "10.78.0.13", dns.TypeA},
		{lone1, amazon, "example.org.", "REFUSED", dns.TypeA},
		{lone1, amazon, "guest-1.lab.example.", "10.77.0.11", dns.TypeA}, // its second NIC is there
		{lone1, amazon, "guest-4.old.internal.", "REFUSED", dns.TypeA},
		{lone1, "10.77.0.1", "guest-1.lab.example.", "no answer", dns.TypeA}, // another network's gateway
		{former1, amazon, "example.org.", "no answer", dns.TypeA},
		{former1, "10.79.0.1", "example.org.", "no answer", dns.TypeA},
	} {
		for _, network := range []string{"udp4", "tcp4"} {
			if network == "tcp4" && (c.name == "example.org." && c.want != "REFUSED" || c.want == "NOERROR") {
				continue // the node's resolver of this test has no TCP
			}
			if got := c.who.asks(t, network, c.server, c.name, c.typ); got != c.want {
				t.Errorf("%s asks %s of %s by %s: %s, want %s", c.who.Name, c.name, c.server, network, got, c.want)
			}
		}
	}
	for i := range 4 * p.connections { // the node tracks none of them
		if got := db1.asks(t, "udp4", amazon, "guest-1.lab.example.", dns.TypeA); got != "10.77.0.11" {
			t.Fatalf("query %d: %s", i, got)
		}
	}
	if db1.passesFor(t, amazon, 53, web1) {
		t.Error("a guest passes for the resolver to one whose security group lets nothing in")
	}
	for _, c := range []struct {
		who  person
		want string
	}{{db1, "169.254.169.253, lab.example, lab.example corp.example, " +
		"169.254.169.254/32 10.77.0.1 169.254.169.253/32 10.77.0.1 0.0.0.0/0 10.77.0.1"},
		{lone1, "169.254.169.253, apart.internal, , 169.254.169.254/32 10.78.0.1 169.254.169.253/32 10.78.0.1"}} {
		if out := c.who.offered(t, "$dns, $domain, $search, $staticroutes", "search", "staticroutes"); !strings.Contains(out, c.want+"\n") {
			t.Errorf("%s was offered\n%s\nwant %s", c.who.Name, out, c.want)
		}
	}

	// A guest that came is found, and one that went is not.
	newcomer := record(5, "default", "10.77.0.15")
	next := stateWith([]seedbed.Network{lab, apart, old}, web, newcomer, lone, former)
	next.Groups, next.Revision, next.Since, next.Changed = state.Groups, 2, 1, []seedbed.InstanceID{db.ID, newcomer.ID}
	if err := p.Apply(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"guest-5.lab.example.": "10.77.0.15", "guest-2.lab.example.": "NXDOMAIN"} {
		if got := web1.asks(t, "udp4", amazon, name, dns.TypeA); got != want {
			t.Errorf("after a change, %s: %s, want %s", name, got, want)
		}
	}
	if out := web1.ns.Run(t, "busybox", "nslookup", "guest-5.lab.example", amazon); !strings.Contains(out, "10.77.0.15") {
		t.Errorf("nslookup:\n%s", out)
	}

	// Without the resolver, its address goes, and nothing answers.
	lab.DNS = nil
	plain := stateWith([]seedbed.Network{lab, apart, old}, web, newcomer, lone, former)
	plain.Revision = 3
	if err := p.Apply(context.Background(), plain); err != nil {
		t.Fatal(err)
	}
	if out := netnstest.Run(t, "ip", "-4", "addr", "show", "dev", "seedbed0"); strings.Contains(out, amazon) {
		t.Errorf("the address stays:\n%s", out)
	}
	if got := web1.asks(t, "udp4", "10.77.0.1", "guest-5.lab.example.", dns.TypeA); got != "no answer" {
		t.Errorf("the gateway still answers: %s", got)
	}
	if addr := seedbed.MetadataAddr.String() + ":80"; web1.get(t, addr).status != 200 {
		t.Error("metadata went as well")
	}
}

// TestDNSOfOneGuest: however many addresses a guest has, it takes no more of the resolver than a guest with one. So it is at each
// address of the resolver, which hears all of the guest's addresses.
func TestDNSOfOneGuest(t *testing.T) {
	p := realPlane(t)
	pc, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer pc.Close() // it answers nothing
	p.forwarder = resolver.NewForwarder([]netip.AddrPort{pc.LocalAddr().(*net.UDPAddr).AddrPort()}, "")
	lab := network0()
	lab.DNS, lab.Prefix6 = []netip.Addr{seedbed.ResolverAddr}, netip.MustParsePrefix("fd12:3456:789a:1::/64")
	web := record(1, "default", "10.77.0.11")
	own, own6 := []netip.Addr{web.NICs[0].Addr}, []netip.Addr{lab.Addr6(web.NICs[0].MAC)}
	for i := range byte(seedbed.MaxSecondary) {
		b := lab.Prefix6.Addr().As16()
		b[14], b[15] = 1, i
		own, own6 = append(own, netip.AddrFrom4([4]byte{10, 77, 0, 100 + i})), append(own6, netip.AddrFrom16(b))
	}
	var person person
	for i, c := range []struct {
		server string
		own    []netip.Addr
	}{{seedbed.ResolverAddr.String(), own}, {lab.Gateway.String(), own}, {"[" + seedbed.ResolverAddr6.String() + "]", own6}} {
		web.NICs[0].Secondary = c.own[1:]
		serveState(t, p, stateWith([]seedbed.Network{lab}, web))
		if i == 0 {
			person = attach(t, web, "seedbed0", web.NICs[0].ID.Tap())
			person.ns.Run(t, "ip", "-6", "route", "replace", seedbed.ResolverAddr6.String()+"/128", "dev", "eth0")
		}
		for _, a := range c.own {
			person.ns.Run(t, "ip", "addr", "replace", a.String()+map[bool]string{true: "/24", false: "/64"}[a.Is4()], "dev", "eth0", "nodad")
		}
		if got := person.asks(t, "udp", c.server, "guest-1.default.internal.", dns.TypeMX); got != "NOERROR" {
			t.Fatalf("%s: %s", c.server, got)
		}
		query, err := new(dns.Msg).SetQuestion("example.org.", dns.TypeA).Pack()
		if err != nil {
			t.Fatal(err)
		}
		var conns []net.Conn
		dial := func(network string, from net.Addr) {
			var c1 net.Conn
			d := net.Dialer{LocalAddr: from, Timeout: 10 * time.Second}
			if person.ns.Do(func() { c1, err = d.Dial(network, c.server+":53") }); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c1.Close() })
			conns = append(conns, c1)
		}
		for _, a := range c.own {
			dial("udp", &net.UDPAddr{IP: a.AsSlice()})
		}
		const each = 4
		limited, failed := p.queries.Limited.Load(), p.queries.Failed.Load()
		for range each {
			for _, conn := range conns {
				if _, err := conn.Write(query); err != nil {
					t.Fatal(err)
				}
			}
		}
		eventually(t, func() string {
			few, rest := p.queries.Limited.Load()-limited, p.queries.Failed.Load()-failed
			if few+rest != int64(each*len(c.own)) || few < rest {
				return fmt.Sprintf("%s: of the queries from %d addresses, %d were too many, and %d had no answer", c.server, len(c.own), few, rest)
			}
			return ""
		})

		conns = nil
		for _, a := range c.own {
			dial("tcp", &net.TCPAddr{IP: a.AsSlice()})
		}
		closed := map[net.Conn]bool{}
		eventually(t, func() string {
			for _, conn := range conns {
				if err := conn.SetReadDeadline(time.Now().Add(10 * time.Millisecond)); err != nil {
					t.Fatal(err)
				}
				if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
					closed[conn] = true
				}
			}
			if len(closed) < len(conns)-16 || len(closed) == len(conns) {
				return fmt.Sprintf("%s: of %d connections from as many addresses, %d were closed", c.server, len(conns), len(closed))
			}
			return ""
		})
		for _, conn := range conns {
			conn.Close()
		}
	}
}
