package reach

import (
	"net/netip"
	"strings"
	"testing"

	"seedbed"
)

// TestTraceToNodes follows packets to addresses that Seedbed has outside of the networks of guests.
func TestTraceToNodes(t *testing.T) {
	t.Parallel()
	w, instances := world(t)
	floating, err := seedbed.ParseAddrRange("203.0.113.16-203.0.113.18")
	if err != nil {
		t.Fatal(err)
	}
	w.Networks[0].Floating, w.Networks[0].DNS = []seedbed.AddrRange{floating}, append(w.Networks[0].DNS, addr("198.51.100.1"))
	w.Nodes = []seedbed.Node{{Name: "hv1", Report: seedbed.NodeReport{Address: addr("198.51.100.1")}},
		{Name: "hv2", Report: seedbed.NodeReport{Address: addr("198.51.100.2")}}}
	forward := func(listen string, port uint16, to, a, node string) seedbed.ForwardTo {
		l, err := seedbed.ParseListen(listen)
		if err != nil {
			t.Fatal(err)
		}
		return seedbed.ForwardTo{Forward: seedbed.Forward{Listen: l, Port: port}, Instance: to, Addr: addr(a), Node: node}
	}
	w.Forwards = []seedbed.ForwardTo{forward("tcp:8000-8010", 5430, "db", "10.1.0.3", "hv1"),
		forward("tcp:8432", 5432, "far", "10.1.0.4", "hv2"),
		forward("tcp:192.0.2.9:80", 80, "routed", "10.2.0.2", "hv1"), forward("tcp:203.0.113.16:443", 443, "routed", "10.2.0.2", "hv1")}
	w.Groups = []seedbed.SecurityGroup{group(t, "web", "out any"), group(t, "db", "out any", "in tcp 5432 from 10.1.0.1/32",
		"in tcp 5433 from 198.51.100.1/32", "in tcp 5434 from 203.0.113.17/32", "in tcp 5435 from 10.2.0.2/32", "in tcp 5436 from 0.0.0.0/0",
		"in icmp 8")}
	checkTraces(t, &w, instances, []traced{
		// A floating address of a guest on the same node, which sees the gateway, and of one on another.
		{"routed", "203.0.113.16", "tcp", 22, false, []string{
			"floating address 203.0.113.16: it goes to NIC 0 of db on node hv1, tcp port 22", "! security groups of db: no rule of db"}},
		{"routed", "203.0.113.16", "tcp", 5432, true, []string{"floating address 203.0.113.16", "in tcp 5432 from 10.1.0.1/32"}},
		{"routed", "203.0.113.16", "icmp", 0, true, []string{"db on node hv1, a ping", "in icmp 8"}},
		{"web", "203.0.113.17", "tcp", 5432, false, []string{"(NAT)", "floating address 203.0.113.17", "! security groups of far"}},
		{"web", "203.0.113.17", "tcp", 5433, true, []string{"(NAT)", "far on node hv2", "in tcp 5433 from 198.51.100.1/32"}},
		{"routed", "203.0.113.17", "tcp", 5435, true, []string{"with its own address", "in tcp 5435 from 10.2.0.2/32"}},
		{"app", "203.0.113.16", "tcp", 22, false, []string{"by uplink br0", "! security groups of db: no rule of db"}},
		{"web", "203.0.113.18", "tcp", 80, false, []string{"(NAT)", "! floating address 203.0.113.18: no instance that you see has it"}},
		{"routed", "203.0.113.16", "tcp", 443, true, []string{
			"forward tcp:203.0.113.16:443: it goes to NIC 0 of routed on node hv1, tcp port 443"}},
		// The addresses of nodes, and forwards there.
		{"web", "198.51.100.1", "tcp", 8002, true, []string{"forward tcp:8000-8010: it goes to NIC 0 of db on node hv1, tcp port 5432",
			"in tcp 5432 from 10.1.0.1/32"}},
		{"web", "198.51.100.1", "tcp", 8000, false, []string{"forward tcp:8000-8010", "tcp port 5430", "! security groups of db"}},
		{"web", "198.51.100.1", "tcp", 8432, false, []string{"! node hv1: this is its own address, which is closed to guests"}},
		{"web", "198.51.100.1", "icmp", 0, true, []string{"this is its own address, and it answers"}},
		{"web", "198.51.100.1", "udp", 53, true, []string{"and a DNS server of the network"}},
		{"routed", "198.51.100.1", "udp", 53, false, []string{"! node hv1: this is its own address"}},
		{"web", "198.51.100.2", "tcp", 22, true, []string{"(NAT)", "another node: this is its address"}},
		{"web", "198.51.100.2", "tcp", 8432, false, []string{"(NAT)", "forward tcp:8432: it goes to NIC 0 of far", "! security groups of far"}},
		{"web", "192.0.2.9", "tcp", 80, true, []string{"forward tcp:192.0.2.9:80: it goes to NIC 0 of routed"}},
		// The port of overlays.
		{"web", "192.0.2.1", "udp", 4789, false, []string{"! node hv1: at this port, nodes get the frames of overlays"}},
		{"routed", "198.51.100.2", "udp", 4789, false, []string{"! node hv1: this is an address of another node"}},
		{"routed", "192.0.2.1", "udp", 4789, true, []string{"with its own address"}},
		// Networks to which every node has a route.
		{"web", "10.4.0.2", "tcp", 80, false, []string{"! node hv1: guests of two networks do not reach each other"}},
		{"web", "10.3.0.2", "tcp", 80, true, []string{"(NAT)"}},
	})
	// The same over IPv6.
	six, err := seedbed.ParseAddrRange("2001:db8:9::/64")
	if err != nil {
		t.Fatal(err)
	}
	w.Networks[0].Floating, w.Networks[0].Prefix6 = append(w.Networks[0].Floating, six), netip.MustParsePrefix("fd12:3456:789a:9::/64")
	w.Nodes[0].Report.Address = addr("2001:db8:5::1")
	db6 := w.Networks[0].Addr6(instances["db"].NICs[0].MAC)
	w.Forwards = append(w.Forwards, forward("tcp:[::]:9000", 5432, "db", db6.String(), "hv1"),
		forward("tcp:[2001:db8:9::16]:443", 5433, "db", db6.String(), "hv1"))
	w.Groups[1] = group(t, "db", "in tcp 5432 from "+w.Networks[0].Gateway6().String()+"/128", "in tcp 5433 from ::/0")
	checkTraces(t, &w, instances, []traced{
		{"web", "2001:db8:9::16", "tcp", 5432, true, []string{
			"floating address 2001:db8:9::16: it goes to NIC 0 of db on node hv1, tcp port 5432",
			"in tcp 5432 from"}},
		{"web", "2001:db8:9::16", "tcp", 22, false, []string{"! security groups of db: no rule of db"}},
		{"web", "2001:db8:9::16", "tcp", 443, true, []string{
			"forward tcp:[2001:db8:9::16]:443: it goes to NIC 0 of db", "in tcp 5433 from ::/0"}},
		{"web", "2001:db8:9::99", "tcp", 443, false, []string{"! floating address 2001:db8:9::99: no instance that you see has it"}},
		{"web", "2001:db8:5::1", "tcp", 9000, true, []string{"forward tcp:[::]:9000: it goes to NIC 0 of db on node hv1, tcp port 5432"}},
		{"web", "2001:db8:5::1", "tcp", 8002, false, []string{"! node hv1: this is its own address, which is closed to guests"}},
		{"web", "2001:db8:77::1", "tcp", 80, true, []string{"(NAT)"}},
	})
	out := instances["web"]
	out.NICs[0].Floating6 = addr("2001:db8:9::17")
	if tr, err := w.Trace(t.Context(), Packet{From: out, To: addr("2001:db8:77::1"), Protocol: "tcp", Port: 80}); err != nil || !tr.Reaches ||
		!strings.Contains(hops(tr), "it leaves with its floating address 2001:db8:9::17") {
		t.Errorf("from a floating address of IPv6: %s, %v", hops(tr), err)
	}
	out.NICs[0].Floating6, w.Nodes[0].Report.Address = netip.Addr{}, addr("198.51.100.1")
	// Behind a floating address of its own, a guest is seen by that.
	from := instances["web"]
	from.NICs[0].Floating = addr("203.0.113.18")
	w.Groups[1] = group(t, "db", "in tcp 5434 from 203.0.113.18/32")
	tr, err := w.Trace(t.Context(), Packet{From: from, To: addr("203.0.113.17"), Protocol: "tcp", Port: 5434})
	if err != nil || !tr.Reaches {
		t.Errorf("from a floating address: %s, %v", hops(tr), err)
	}
	// Of a node whose address is not known, only rules for all addresses hold.
	w.Nodes, from.NICs[0].Floating = nil, netip.Addr{}
	for rule, want := range map[string]bool{"in tcp 80 from 0.0.0.0/0": true, "in tcp 80": true, "in tcp 80 from 198.51.100.0/24": false} {
		w.Groups[1] = group(t, "db", rule)
		tr, err := w.Trace(t.Context(), Packet{From: from, To: addr("203.0.113.17"), Protocol: "tcp", Port: 80})
		if err != nil || tr.Reaches != want {
			t.Errorf("with %s: %s, %v", rule, hops(tr), err)
		}
	}
}
