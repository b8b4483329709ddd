package reach

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"seedbed"
)

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

func group(t *testing.T, name string, rules ...string) seedbed.SecurityGroup {
	t.Helper()
	g := seedbed.SecurityGroup{Name: name}
	for _, text := range rules {
		r, err := seedbed.ParseSecurityRule(text)
		if err != nil {
			t.Fatal(err)
		}
		g.Rules = append(g.Rules, r)
	}
	return g
}

// world has an instance in each kind of network, and others in two of them.
func world(t *testing.T) (World, map[string]seedbed.Instance) {
	t.Helper()
	network := func(name, prefix string, kind seedbed.NetworkKind) seedbed.Network {
		p := netip.MustParsePrefix(prefix)
		return seedbed.Network{Name: name, Kind: kind, Prefix: p, Gateway: p.Addr().Next(), DHCP: true, DNS: []netip.Addr{seedbed.ResolverAddr}}
	}
	lan := network("lan", "10.3.0.0/24", seedbed.NetworkBridged)
	lan.Uplink, lan.Prefix6 = "br0", netip.MustParsePrefix("fd12:3456:789a:3::/64")
	dark := network("dark", "10.4.0.0/24", seedbed.NetworkIsolated)
	dark.DNS, dark.DHCP = nil, false
	wide := network("wide", "10.5.0.0/24", seedbed.NetworkNAT)
	wide.VNI = 7
	wide.Prefix6 = netip.MustParsePrefix("fd12:3456:789a:1::/64")
	wire := seedbed.Network{Name: "wire", Kind: seedbed.NetworkBridged, Uplink: "br1"}
	plain := seedbed.Network{Name: "plain", Kind: seedbed.NetworkIsolated}
	deep := network("deep", "10.6.0.0/24", seedbed.NetworkNAT)
	deep.VNI = 8
	dark.Peers, wide.Peers, deep.Peers = []string{"wide"}, []string{"dark", "deep"}, []string{"wide"}
	instances := map[string]seedbed.Instance{}
	add := func(name, node, network, a string, groups ...string) {
		nic := seedbed.NIC{Network: network, Groups: groups}
		if a != "" {
			nic.Addr = addr(a)
			ip := nic.Addr.As4()
			nic.MAC = seedbed.MAC{0x52, 0x54, 0, ip[1], ip[2], ip[3]}
		}
		instances[name] = seedbed.Instance{Name: name, Node: node, State: seedbed.InstanceRunning, NICs: []seedbed.NIC{nic}}
	}
	add("web", "hv1", "nat", "10.1.0.2", "web")
	add("db", "hv1", "nat", "10.1.0.3", "db")
	add("far", "hv2", "nat", "10.1.0.4", "db")
	add("routed", "hv1", "routed", "10.2.0.2")
	add("app", "hv1", "lan", "10.3.0.2", "web")
	add("store", "hv2", "lan", "10.3.0.3", "db")
	add("dark", "hv1", "dark", "10.4.0.2")
	add("wired", "hv1", "wire", "")
	add("bare", "hv1", "plain", "")
	add("one", "hv1", "wide", "10.5.0.2")
	add("two", "hv2", "wide", "10.5.0.3")
	add("deep", "hv2", "deep", "10.6.0.3")
	add("stopped", "hv1", "nat", "10.1.0.5")
	stopped := instances["stopped"]
	stopped.State = seedbed.InstanceStopped
	instances["stopped"] = stopped
	return World{
		Networks: []seedbed.Network{network("nat", "10.1.0.0/24", seedbed.NetworkNAT), network("routed", "10.2.0.0/24", seedbed.NetworkRouted),
			lan, dark, wire, wide, deep, plain},
		Groups: []seedbed.SecurityGroup{group(t, "web", "out tcp 443 to 192.0.2.0/24", "out tcp 5432 to group db", "out udp 53", "out icmp 8"),
			group(t, "db", "in tcp 5432 from group web", "in icmp 8 from 10.1.0.2/32")},
		Holder: func(_ context.Context, network string, a netip.Addr) (seedbed.Instance, int, bool, error) {
			for _, i := range instances {
				if nic := i.NICs[0]; nic.Network == network && (nic.Addr == a || network == "wide" && wide.Addr6(nic.MAC) == a) {
					return i, 0, true, nil
				}
			}
			return seedbed.Instance{}, 0, false, nil
		},
		Learns: func(string) bool { return true },
		Instance: func(_ context.Context, name string) (seedbed.Instance, bool, error) {
			i, ok := instances[name]
			return i, ok, nil
		},
		Floating: func(_ context.Context, a netip.Addr) (string, int, error) {
			return map[string]string{"203.0.113.16": "db", "203.0.113.17": "far", "2001:db8:9::16": "db"}[a.String()], 0, nil
		},
	}, instances
}

// hops are the details of the hops behind the NIC, the stopped ones with an exclamation mark.
func hops(tr seedbed.Trace) string {
	var all []string
	for _, h := range tr.Hops {
		if strings.HasPrefix(h.At, "NIC ") {
			all = nil
			continue
		}
		text := h.At + ": " + h.Detail
		if !h.Passes {
			text = "! " + text
		}
		all = append(all, text)
	}
	return strings.Join(all, "\n")
}

func TestTrace(t *testing.T) {
	t.Parallel()
	w, instances := world(t)
	checkTraces(t, &w, instances, []traced{
		{"web", "192.0.2.7", "tcp", 443, true, []string{"groups of web: web: out tcp 443 to 192.0.2.0/24", "an address of the node (NAT)"}},
		{"web", "198.51.100.7", "tcp", 443, false, []string{"! security groups of web: no rule of web allows it: " +
			"seedbed security-group allow web out tcp 443", "(NAT)"}},
		{"web", "10.1.0.3", "tcp", 5432, true, []string{"web: out tcp 5432 to group db", "NIC 0 of db on node hv1",
			"db: in tcp 5432 from group web"}},
		{"web", "10.1.0.3", "icmp", 0, true, []string{"out icmp 8", "in icmp 8 from 10.1.0.2/32"}},
		{"db", "10.1.0.2", "icmp", 0, false, []string{"! security groups of db: no rule of db", "! security groups of web: no rule of web"}},
		{"web", "10.1.0.4", "tcp", 5432, false, []string{"! network nat: far is on node hv2, and the network ends at its " +
			"node"}},
		{"one", "10.5.0.3", "tcp", 80, true, []string{"NIC 0 of two on node hv2"}},
		{"one", "10.5.0.1", "icmp", 0, true, []string{"it answers as the gateway"}},
		{"one", "10.5.0.9", "tcp", 80, false, []string{"! network wide: no instance that you see has this address"}},
		{"one", "fd12:3456:789a:1:5054:ff:fe05:3", "tcp", 80, true, []string{"NIC 0 of two on node hv2"}},
		{"one", "fd12:3456:789a:1::1", "icmp", 0, true, []string{"it answers as the gateway"}},
		{"one", "fd12:3456:789a:1::9", "tcp", 80, false, []string{"! network wide: no instance that you see has this address"}},
		{"one", "fd00:ec2::254", "tcp", 80, true, []string{"the metadata service answers"}},
		{"one", "fd00:ec2::253", "udp", 53, true, []string{"the resolver answers"}},
		{"one", "fe80::5", "tcp", 80, false, []string{"! node hv1: guests choose their link-local addresses"}},
		{"one", "2001:db8::7", "tcp", 443, true, []string{"an address of the node (NAT)"}},
		{"one", "fd12:3456:789a:3::9", "tcp", 443, true, []string{"one of a bridged network: it leaves if the node has a route of its own there",
			"an address of the node (NAT)"}},
		{"dark", "fd12:3456:789a:3::9", "tcp", 443, false, nil},
		{"web", "fe80::a9fe:a9fe", "tcp", 80, true, []string{"the metadata service answers"}},
		{"web", "2001:db8::7", "tcp", 443, false, []string{"! network nat: it has no IPv6 prefix"}},
		{"app", "10.3.0.3", "tcp", 5432, true, []string{"NIC 0 of store on node hv2"}},
		{"app", "10.3.0.77", "udp", 53, true, []string{"a host on the wire may"}},
		{"routed", "10.1.0.2", "tcp", 80, false, []string{"open allows everything",
			"! node hv1: guests of two networks do not reach each other unless"}},
		{"routed", "192.0.2.1", "tcp", 80, true, []string{"with its own address"}},
		{"app", "192.0.2.1", "tcp", 443, true, []string{"by uplink br0 to its router 10.3.0.1"}},
		{"wired", "192.0.2.1", "tcp", 80, true, []string{"the router that its DHCP server names"}},
		{"dark", "192.0.2.1", "tcp", 80, false, []string{"! network dark: an isolated network reaches no other"}},
		{"wired", "2001:db8::7", "tcp", 80, true, []string{"by uplink br1 to the router that advertises itself"}},
		{"bare", "192.0.2.1", "tcp", 80, true, []string{"open allows everything", "network plain: it has no prefix: which of its guests"}},
		{"bare", "fd00:ec2::254", "tcp", 80, true, []string{"the metadata service answers"}},
		{"dark", "10.4.0.9", "tcp", 80, false, []string{"! network dark: no instance that you see has this address"}},
		{"routed", "10.2.0.1", "icmp", 0, true, []string{"it answers as the gateway"}},
		{"routed", "10.2.0.1", "tcp", 53, true, []string{"the resolver at the gateway"}},
		{"routed", "10.2.0.1", "tcp", 22, false, []string{"! node hv1: the gateway is the node, which is closed"}},
		{"app", "10.3.0.1", "icmp", 0, true, []string{"a host on the wire may"}},
		{"web", "169.254.169.254", "tcp", 80, true, []string{"the metadata service answers"}},
		{"web", "169.254.169.254", "tcp", 81, false, []string{"! node hv1: at this address, only port 80 answers"}},
		{"web", "169.254.169.253", "udp", 53, true, []string{"the resolver answers"}},
		{"dark", "169.254.169.253", "udp", 53, false, []string{"! node hv1: network dark offers nothing there"}},
		{"web", "fd00:ec2::123", "udp", 123, false, []string{"! "}},
		{"web", "169.254.169.123", "udp", 123, false, []string{"! node hv1: network nat offers nothing there"}},
		{"routed", "10.2.0.2", "tcp", 80, true, []string{"NIC 0 of routed"}},
		{"dark", "10.5.0.2", "tcp", 80, true, []string{"open allows everything", "peering of dark with wide: the node is the router between both",
			"network wide: NIC 0 of one on node hv1", "groups of one: open"}},
		{"one", "10.4.0.2", "udp", 53, true, []string{"peering of wide with dark", "network dark: NIC 0 of dark on node hv1"}},
		{"dark", "10.5.0.3", "tcp", 80, false, []string{"! network wide: two is on node hv2, and guests reach those " +
			"of a peer on other nodes only if both"}},
		{"one", "10.6.0.3", "tcp", 80, true, []string{"peering of wide with deep: the node is the router between both",
			"node hv1: it sends by the overlay of the peer to node hv2", "network deep: NIC 0 of deep on node hv2", "groups of deep: open"}},
		{"deep", "10.5.0.3", "tcp", 80, true, []string{"peering of deep with wide", "network wide: NIC 0 of two on node hv2"}},
		{"deep", "10.4.0.2", "tcp", 80, false, []string{"! node hv2: guests of two networks do not reach each other unless"}},
		{"dark", "10.5.0.9", "tcp", 80, false, []string{"! network wide: no instance that you see has this address"}},
		{"dark", "10.5.0.1", "icmp", 0, true, []string{"it answers as the gateway of network wide"}},
		{"dark", "10.5.0.1", "tcp", 53, false, []string{"! node hv1: the gateway of network wide is the node"}},
	})
	w.Learns = func(string) bool { return false }
	hidden, err := w.Trace(t.Context(), Packet{From: instances["dark"], To: addr("10.5.0.2"), Protocol: "icmp"})
	if got := hops(hidden); err != nil || !hidden.Reaches || strings.Contains(got, "wide") ||
		!strings.Contains(got, "a network of another project") {
		t.Errorf("to a peer of another project: %s, %v", got, err)
	}
	tr, err := w.Trace(t.Context(), Packet{From: instances["stopped"], To: addr("192.0.2.1"), Protocol: "icmp"})
	if err != nil || tr.Reaches || tr.Hops[0].Detail != "it is stopped" {
		t.Errorf("of a stopped instance: %+v, %v", tr, err)
	}
	off := instances["web"]
	off.Metadata.Endpoint = seedbed.MetadataDisabled
	if tr, err = w.Trace(t.Context(), Packet{From: off, To: seedbed.MetadataAddr, Protocol: "tcp", Port: 80}); err != nil || tr.Reaches {
		t.Errorf("to the metadata service that is off: %+v, %v", tr, err)
	}
}

func TestNeeds(t *testing.T) {
	t.Parallel()
	w, instances := world(t)
	for name, want := range map[string]string{
		"web":   "true true true",
		"dark":  "false true",
		"wired": "true true",
		"bare":  "false true",
	} {
		all, err := w.Needs(t.Context(), instances[name], 0)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, tr := range all {
			got = append(got, map[bool]string{true: "true", false: "false"}[tr.Reaches])
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %+v, want %s", name, all, want)
		}
	}
}

func TestBadPacket(t *testing.T) {
	t.Parallel()
	w, instances := world(t)
	for want, p := range map[string]Packet{
		"has no NIC 1":           {NIC: 1, To: addr("192.0.2.1"), Protocol: "icmp"},
		"not the address of ano": {To: addr("ff02::1"), Protocol: "icmp"},
		"127.0.0.1 is not":       {To: addr("127.0.0.1"), Protocol: "icmp"},
		"0.0.0.0 is not":         {To: addr("0.0.0.0"), Protocol: "icmp"},
		"255.255.255.255 is not": {To: addr("255.255.255.255"), Protocol: "icmp"},
		"::1 is not":             {To: addr("::1"), Protocol: "icmp"},
		"expected tcp, udp":      {To: addr("192.0.2.1"), Protocol: "sctp"},
		"port is missing":        {To: addr("192.0.2.1"), Protocol: "udp"},
		"none for icmp":          {To: addr("192.0.2.1"), Protocol: "icmp", Port: 8},
	} {
		p.From = instances["web"]
		if _, err := w.Trace(t.Context(), p); !errors.Is(err, seedbed.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	w.Networks = nil
	p := Packet{From: instances["web"], To: addr("192.0.2.1"), Protocol: "icmp"}
	if _, err := w.Trace(t.Context(), p); !errors.Is(err, seedbed.ErrConflict) {
		t.Errorf("of a network that is gone: %v", err)
	}
}

// TestTraceACLs follows packets of guests of a network whose ACLs drop what comes from outside, but for one port.
func TestTraceACLs(t *testing.T) {
	t.Parallel()
	w, instances := world(t)
	dark, wide := &w.Networks[4], &w.Networks[5]
	dark.PeerPrefixes, wide.PeerPrefixes = []netip.Prefix{wide.Prefix}, []netip.Prefix{dark.Prefix}
	wide.ACLs = []seedbed.NetworkACL{{Direction: seedbed.DirectionIn, Description: "web", Accepts: group(t, "", "in tcp 80").Rules},
		{Direction: seedbed.DirectionIn, Description: "no", Drop: true}}
	w.Groups = append(w.Groups, wide.ACLGroups()...)
	for _, tt := range []struct {
		from, to string
		port     uint16
		want     string
	}{
		{"dark", "10.5.0.2", 80, "groups of one: acl:wide: in tcp 80 from any"},
		{"dark", "10.5.0.2", 22, "! security groups of one: no rule of acl:wide and open:wide allows it, which the ACLs of network wide make"},
		{"two", "10.5.0.2", 22, "groups of one: open:wide: in any from 10.5.0.0/24"},
		{"two", "192.0.2.1", 22, "groups of two: open:wide: out any to any"},
	} {
		tr, err := w.Trace(context.Background(), Packet{From: instances[tt.from], To: addr(tt.to), Protocol: "tcp", Port: tt.port})
		if err != nil || !strings.Contains(hops(tr), tt.want) {
			t.Errorf("%s to %s: %v\n%s\nwant %s", tt.from, tt.to, err, hops(tr), tt.want)
		}
	}
}

// traced is a packet, and what is to be said of it.
type traced struct {
	from, to, protocol string
	port               uint16
	reaches            bool
	want               []string // parts of the hops, in their order
}

func checkTraces(t *testing.T, w *World, instances map[string]seedbed.Instance, all []traced) {
	t.Helper()
	for _, tt := range all {
		tr, err := w.Trace(t.Context(), Packet{From: instances[tt.from], To: addr(tt.to), Protocol: tt.protocol, Port: tt.port})
		if err != nil {
			t.Errorf("%s to %s: %v", tt.from, tt.to, err)
			continue
		}
		got := hops(tr)
		rest := got
		for _, part := range tt.want {
			_, after, ok := strings.Cut(rest, part)
			if !ok {
				t.Errorf("%s to %s port %d:\n%s\nwant %q", tt.from, tt.to, tt.port, got, part)
			}
			rest = after
		}
		if tr.Reaches != tt.reaches || tr.Reaches == strings.Contains(got, "! ") {
			t.Errorf("%s to %s port %d: reaches %t, want %t:\n%s", tt.from, tt.to, tt.port, tr.Reaches, tt.reaches, got)
		}
	}
}

// TestLeftOut: where the node of a guest leaves its network out, that is the first thing that stops a packet, at either end.
func TestLeftOut(t *testing.T) {
	t.Parallel()
	w, instances := world(t)
	left := func(node, network string) {
		w.Nodes = []seedbed.Node{{Name: "hv1"}, {Name: "hv2"}}
		for i := range w.Nodes {
			if w.Nodes[i].Name == node {
				w.Nodes[i].Report.LeftOut = map[string]string{network: "its uplink br9 is not there"}
			}
		}
	}
	left("hv1", "wide")
	checkTraces(t, &w, instances, []traced{
		{"one", "10.5.0.3", "tcp", 80, false, []string{"! node hv1: it leaves out network wide, and closes the ports of its guests there: " +
			"an operator of the installation sees why (seedbed node show hv1)"}},
	})
	w.Inside = true
	checkTraces(t, &w, instances, []traced{
		{"one", "10.5.0.3", "tcp", 80, false, []string{"! node hv1: it leaves out network wide, and closes the ports of its guests there: " +
			"its uplink br9 is not there"}},
		{"web", "192.0.2.7", "tcp", 443, true, nil},
	})
	all, err := w.Needs(t.Context(), instances["one"], 0)
	if err != nil || len(all) != 3 || all[0].Reaches || all[1].Reaches || all[2].Reaches {
		t.Errorf("what it needs: %+v, %v", all, err)
	}
	left("hv2", "wide")
	checkTraces(t, &w, instances, []traced{
		{"one", "10.5.0.3", "tcp", 80, false, []string{"NIC 0 of two on node hv2", "! node hv2: it leaves out network wide"}},
	})
}
