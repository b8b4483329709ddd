//go:build integration

package guestplane

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"seedbed"
	"seedbed/netcfg/netnstest"
)

var prefix6 = netip.MustParsePrefix("fd12:3456:789a:1::/64")

// network6 is network0 with IPv6 addresses and names.
func network6(kind seedbed.NetworkKind) seedbed.Network {
	n := network0()
	n.Kind, n.NAT, n.DHCP, n.Prefix6, n.DNS = kind, kind == seedbed.NetworkNAT, true, prefix6, []netip.Addr{seedbed.ResolverAddr}
	return n
}

// boot6 is a guest that starts with IPv6 alone, as the kernel of a stock guest has it: it makes a link-local address of its MAC,
// and believes router advertisements.
func boot6(t *testing.T, g seedbed.Guest, bridge string) person {
	t.Helper()
	p := person{g, netnstest.New(t)}
	p.ns.Run(t, "sysctl", "-w", "net.ipv6.conf.default.accept_dad=0", "net.ipv6.conf.default.router_solicitation_delay=0")
	tap := g.NICs[0].ID.Tap()
	netnstest.Veth(t, tap, p.ns, g.NICs[0].MAC.String())
	netnstest.Run(t, "ip", "link", "set", tap, "master", bridge)
	p.ns.Run(t, "ip", "link", "set", "eth0", "down")
	p.ns.Run(t, "ip", "link", "set", "eth0", "up")
	return p
}

// leased6 returns what dhclient gets by DHCPv6, its address and its resolvers, and configures the address.
func (p person) leased6(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	script := filepath.Join(dir, "configure")
	if err := os.WriteFile(script, []byte(`#!/bin/sh
[ "$reason" = BOUND6 ] || exit 0
echo "got $new_ip6_address resolvers $new_dhcp6_name_servers search $new_dhcp6_domain_search"
ip -6 addr add $new_ip6_address/128 dev eth0 nodad
`), 0o755); err != nil {
		t.Fatal(err)
	}
	files := []string{"-6", "-sf", script, "-lf", filepath.Join(dir, "leases"), "-pf", filepath.Join(dir, "pid"), "-cf", "/dev/null", "eth0"}
	out := p.ns.Run(t, "dhclient", append([]string{"-1", "-v"}, files...)...) // it goes to the background when it is bound
	t.Cleanup(func() { p.ns.Run(t, "dhclient", append([]string{"-x"}, files...)...) })
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, "got ") {
			return strings.TrimSpace(line)
		}
	}
	return out
}

// routes6 returns the routes that router advertisements made, in the order of their prefixes.
func (p person) routes6(t *testing.T) string {
	t.Helper()
	var all []string
	for line := range strings.Lines(p.ns.Run(t, "ip", "-6", "route", "show", "dev", "eth0")) {
		f := strings.Fields(line)
		if f[0] != "fe80::/64" && !strings.HasPrefix(f[0], "ff00::") {
			if f[1] == "via" {
				f[0] += " via " + f[2]
			}
			all = append(all, f[0])
		}
	}
	return strings.Join(all, ", ")
}

func TestIPv6(t *testing.T) {
	p := realPlane(t)
	n := network6(seedbed.NetworkNAT)
	g, other := record(7, n.Name, "10.77.0.7"), record(8, n.Name, "10.77.0.8")
	serveState(t, p, stateWith([]seedbed.Network{n}, g, other))
	who := boot6(t, g, n.Bridge)
	const hosts = "fd00:ec2::253, fd00:ec2::254, "
	eventually(t, func() string {
		return cmp.Diff(hosts+"fd12:3456:789a:1::/64, default via fe80::a9fe:a9fe", who.routes6(t))
	})
	who.served(t, "with a link-local address alone", ask6, ask6link)
	for _, protocol := range []string{"udp", "tcp"} { // a guest has any number of such addresses, and the resolver counts by them
		if got := who.asks(t, protocol, "[fd00:ec2::253]", who.Name+".default.internal.", dns.TypeAAAA); got != "no answer" {
			t.Errorf("from a link-local address, by %s, the resolver says %s", protocol, got)
		}
	}
	want := "got fd12:3456:789a:1:5054:ff:fe00:7 resolvers fd00:ec2::253 search default.internal."
	if d := cmp.Diff(want, who.leased6(t)); d != "" {
		t.Errorf("DHCPv6 (-want +got):\n%s", d)
	}
	who.served(t, "with its address", ask6, ask6link)
	for _, guest := range []seedbed.Guest{g, other} {
		want := n.Addr6(guest.NICs[0].MAC).String()
		if got := who.asks(t, "udp", "[fd00:ec2::253]", guest.Name+".default.internal.", dns.TypeAAAA); got != want {
			t.Errorf("%s has the address %s, want %s", guest.Name, got, want)
		}
	}
}

// TestIPv6Alone: in a network without IPv4, guests find metadata, the resolver and each other by IPv6, and what they send by IPv4
// goes nowhere.
func TestIPv6Alone(t *testing.T) {
	p := realPlane(t)
	n := network6(seedbed.NetworkRouted)
	n.Prefix, n.Gateway, n.NetworkOptions.Range = netip.Prefix{}, netip.Addr{}, seedbed.AddrRange{}
	if err := n.Check(); err != nil {
		t.Fatal(err)
	}
	g, other := record(7, n.Name, "10.77.0.7"), record(8, n.Name, "10.77.0.8")
	g.NICs[0].Addr, other.NICs[0].Addr = netip.Addr{}, netip.Addr{}
	serveState(t, p, stateWith([]seedbed.Network{n}, g, other))
	who, next := boot6(t, g, n.Bridge), boot6(t, other, n.Bridge)
	eventually(t, func() string {
		return cmp.Diff("fd00:ec2::253, fd00:ec2::254, fd12:3456:789a:1::/64, default via fe80::a9fe:a9fe", who.routes6(t))
	})
	who.served(t, "with a link-local address alone", ask6, ask6link)
	for _, one := range []person{who, next} {
		own := n.Addr6(one.NICs[0].MAC).String()
		if d := cmp.Diff("got "+own+" resolvers fd00:ec2::253 search default.internal.", one.leased6(t)); d != "" {
			t.Errorf("DHCPv6 (-want +got):\n%s", d)
		}
		one.served(t, "with its address", ask6, ask6link)
		if got := who.asks(t, "udp", "[fd00:ec2::253]", one.Name+".default.internal.", dns.TypeAAAA); got != own {
			t.Errorf("%s has the address %s, want %s", one.Name, got, own)
		}
	}
	if !pings(t, who.ns, n.Addr6(next.NICs[0].MAC).String()) {
		t.Error("a guest does not reach another")
	}
	for i, one := range []person{who, next} {
		for _, prefix := range []string{"10.77.0.%d/24", "169.254.7.%d/16"} {
			one.ns.Run(t, "ip", "addr", "add", fmt.Sprintf(prefix, 7+i), "dev", "eth0")
		}
	}
	for _, to := range []string{"10.77.0.8", "169.254.7.8", "169.254.169.254"} {
		who.ns.Do(func() {
			if err := netnstest.Try("ping", "-c", "1", "-W", "1", to); err == nil {
				t.Errorf("a guest gets an echo of %s", to)
			}
		})
	}
}

// TestIPv6Changes: guests learn at once of a prefix that comes, changes and goes while they run.
func TestIPv6Changes(t *testing.T) {
	p := realPlane(t)
	n := network6(seedbed.NetworkNAT)
	n.SLAAC, n.Prefix6 = false, netip.Prefix{}
	g := record(7, n.Name, "10.77.0.7")
	serveState(t, p, stateWith([]seedbed.Network{n}, g))
	who := boot6(t, g, n.Bridge)
	preferred := func() string {
		var all []string
		for line := range strings.Lines(who.ns.Run(t, "ip", "-6", "-o", "addr", "show", "dev", "eth0", "scope", "global", "-deprecated")) {
			all = append(all, strings.Fields(line)[3])
		}
		return strings.Join(all, ", ")
	}
	const hosts = "fd00:ec2::253, fd00:ec2::254"
	for _, tt := range []struct{ prefix, addrs, routes string }{
		{"", "", "fd00:ec2::254"},
		{"fd12:3456:789a:1::/64", "fd12:3456:789a:1:5054:ff:fe00:7/64", hosts + ", fd12:3456:789a:1::/64, default via fe80::a9fe:a9fe"},
		{"fd12:3456:789a:2::/64", "fd12:3456:789a:2:5054:ff:fe00:7/64", hosts + ", fd12:3456:789a:2::/64, default via fe80::a9fe:a9fe"},
		{"", "", hosts},
	} {
		n.Prefix6, n.SLAAC = netip.Prefix{}, tt.prefix != ""
		if tt.prefix != "" {
			n.Prefix6 = netip.MustParsePrefix(tt.prefix)
		}
		serveState(t, p, stateWith([]seedbed.Network{n}, g))
		eventually(t, func() string {
			return cmp.Diff([]string{tt.addrs, tt.routes}, []string{preferred(), who.routes6(t)})
		})
		who.served(t, "with prefix "+tt.prefix, ask6link)
		if tt.prefix != "" {
			who.served(t, "with prefix "+tt.prefix, ask6)
		}
		if tt.prefix != "" && !pings(t, who.ns, n.Gateway6().String()) {
			t.Errorf("with %s: the gateway does not answer", tt.prefix)
		}
	}
}

// world6 is a host behind an uplink of the node, which is the router between it and the guests, and has learned its own default
// route from it.
func world6(t *testing.T) *netnstest.Namespace {
	t.Helper()
	w := netnstest.New(t)
	netnstest.Run(t, "sysctl", "-w", "net.ipv6.conf.all.forwarding=0")
	netnstest.Veth(t, "up0", w, "52:54:00:ee:00:09")
	t.Cleanup(func() { netnstest.Run(t, "ip", "link", "del", "up0") })
	netnstest.Run(t, "sysctl", "-w", "net.ipv6.conf.up0.accept_dad=0", "net.ipv6.conf.up0.accept_ra=1")
	netnstest.Run(t, "ip", "-6", "addr", "add", "2001:db8:9::1/64", "dev", "up0", "nodad")
	w.Run(t, "sysctl", "-w", "net.ipv6.conf.eth0.accept_dad=0", "net.ipv6.conf.all.forwarding=1")
	w.Run(t, "ip", "-6", "addr", "add", "2001:db8:9::2/64", "dev", "eth0", "nodad")
	w.Run(t, "ip", "-6", "addr", "add", "fe80::9/64", "dev", "eth0", "nodad")
	w.Run(t, "ip", "-6", "route", "add", prefix6.String(), "via", "2001:db8:9::1")
	return w
}

// advertises has a host be a router that advertises itself on its eth0, with further settings of radvd.
func advertises(t *testing.T, host *netnstest.Namespace, settings string) {
	t.Helper()
	conf := file(t, "radvd.conf", "interface eth0 { AdvSendAdvert on; MinRtrAdvInterval 3; MaxRtrAdvInterval 4; "+settings+" };")
	pid := filepath.Join(t.TempDir(), "pid")
	host.Do(func() {
		netnstest.Background(t, "sh", "-c", `radvd -n -m stderr -C "$0" -p "$1" & echo started; cat >/dev/null; kill $!; wait`, conf, pid)
	})
}

// pings reports whether a host gets an echo.
func pings(t *testing.T, from *netnstest.Namespace, to string) bool {
	t.Helper()
	var err error
	from.Do(func() { err = netnstest.Try("ping", "-6", "-c", "1", "-W", "2", to) })
	return err == nil
}

// TestIPv6Kinds: what guests reach outside, and from where they are reached, depends on the kind of the network. The node keeps
// the default route that another router advertises to it.
func TestIPv6Kinds(t *testing.T) {
	p := realPlane(t)
	w := world6(t)
	advertises(t, w, "AdvDefaultLifetime 1800;")
	defaultRoute := func() string {
		if out := netnstest.Run(t, "ip", "-6", "route", "show", "default"); !strings.Contains(out, "via fe80::9 dev up0") {
			return "no default route: " + out
		}
		return ""
	}
	eventually(t, defaultRoute)
	l, err := net.Listen("tcp6", "[::]:8080") // which is open on the node
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, tt := range []struct {
		kind    seedbed.NetworkKind
		out, in bool
	}{{seedbed.NetworkIsolated, false, false}, {seedbed.NetworkNAT, true, false}, {seedbed.NetworkRouted, true, true}} {
		n := network6(tt.kind)
		n.SLAAC = true
		g, next := record(7, n.Name, "10.77.0.7"), record(8, n.Name, "10.77.0.8")
		serveState(t, p, stateWith([]seedbed.Network{n}, g, next))
		who, other := boot6(t, g, n.Bridge), boot6(t, next, n.Bridge)
		own := n.Addr6(g.NICs[0].MAC).String()
		eventually(t, func() string {
			out := who.ns.Run(t, "ip", "-6", "-o", "addr", "show", "dev", "eth0", "scope", "global")
			if !strings.Contains(out, own+"/64") {
				return "no address of its own by SLAAC: " + out
			}
			return ""
		})
		who.served(t, string(tt.kind), ask6, ask6link)
		if d := cmp.Diff(map[string]bool{"a neighbour": true, "the gateway": true, "outside": tt.out, "from outside": tt.in,
			"a port of the node": false, "a port of its other address": false, "a forged source": false}, map[string]bool{
			"a neighbour": pings(t, other.ns, own), "the gateway": pings(t, who.ns, n.Gateway6().String()),
			"outside": pings(t, who.ns, "2001:db8:9::2"), "from outside": pings(t, w, own),
			"a port of the node": who.dials(t, n.Gateway6().String()), "a port of its other address": who.dials(t, "2001:db8:9::1"),
			"a forged source": who.pingsFrom(t, "fd12:3456:789a:1::99"),
		}); d != "" {
			t.Errorf("%s: who gets an echo (-want +got):\n%s", tt.kind, d)
		}
		if problem := defaultRoute(); problem != "" {
			t.Errorf("%s: the node has %s", tt.kind, problem)
		}
		serveState(t, p, stateWith([]seedbed.Network{n}))
		netnstest.Run(t, "ip", "link", "del", g.NICs[0].ID.Tap())
		netnstest.Run(t, "ip", "link", "del", next.NICs[0].ID.Tap())
	}
	eventually(t, defaultRoute) // also by advertisements that came since
}

// dials reports whether a guest reaches the port 8080 of an address within a second.
func (p person) dials(t *testing.T, addr string) bool {
	t.Helper()
	var c net.Conn
	var err error
	p.ns.Do(func() { c, err = net.DialTimeout("tcp6", "["+addr+"]:8080", time.Second) })
	if err == nil {
		c.Close()
	}
	return err == nil
}

// pingsFrom reports whether a guest gets an echo of its gateway at an address that is not its own.
func (p person) pingsFrom(t *testing.T, addr string) bool {
	t.Helper()
	p.ns.Run(t, "ip", "-6", "addr", "add", addr+"/128", "dev", "eth0", "nodad")
	defer p.ns.Run(t, "ip", "-6", "addr", "del", addr+"/128", "dev", "eth0")
	var err error
	p.ns.Do(func() {
		err = netnstest.Try("ping", "-6", "-c", "1", "-W", "1", "-I", addr, prefix6.Addr().Next().String())
	})
	return err == nil
}

// file writes a file of a test, and returns its path.
func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestIPv6Bridged: beside a foreign router, whose advertisements give guests their default route and make them choose an address,
// guests find their metadata and the resolver of the node, and DHCPv6 of the node has the same address.
func TestIPv6Bridged(t *testing.T) {
	p := realPlane(t)
	far := onWire(t)
	far.Run(t, "sysctl", "-w", "net.ipv6.conf.eth0.accept_dad=0", "net.ipv6.conf.all.forwarding=1")
	far.Run(t, "ip", "-6", "addr", "add", "fe80::9/64", "dev", "eth0", "nodad")
	far.Run(t, "ip", "-6", "addr", "add", prefix6.Addr().Next().String()+"/64", "dev", "eth0", "nodad")
	advertises(t, far, "prefix "+prefix6.String()+" {};")
	n := network6(seedbed.NetworkBridged)
	n.Name, n.Bridge, n.Uplink = "lan", "sb-lan", "br0"
	g := record(7, "lan", "10.77.0.7")
	serveState(t, p, stateWith([]seedbed.Network{n}, g))
	who := boot6(t, g, n.Bridge)
	own := n.Addr6(g.NICs[0].MAC).String()
	eventually(t, func() string {
		return cmp.Diff("fd00:ec2::253, fd00:ec2::254, fd12:3456:789a:1::/64, default via fe80::9", who.routes6(t))
	})
	who.served(t, "by SLAAC of another router", ask6, ask6link)
	if !pings(t, who.ns, prefix6.Addr().Next().String()) || !pings(t, far, own) {
		t.Error("the guest and the host on the wire do not reach each other")
	}
	want := "got " + own + " resolvers fd00:ec2::253 search lan.internal."
	who.ns.Run(t, "ip", "-6", "addr", "flush", "dev", "eth0", "scope", "global")
	if d := cmp.Diff(want, who.leased6(t)); d != "" {
		t.Errorf("DHCPv6 (-want +got):\n%s", d)
	}
	if got := who.asks(t, "tcp", "[fd00:ec2::253]", "guest-7.lan.internal.", dns.TypeAAAA); got != own {
		t.Errorf("its name has the address %s, want %s", got, own)
	}
	// Also while only the node has forgotten the guest, and asks for it from the address of the resolver.
	netnstest.Run(t, "ip", "-6", "neigh", "flush", "dev", n.Bridge)
	if got := who.asks(t, "udp", "[fd00:ec2::253]", "guest-7.lan.internal.", dns.TypeAAAA); got != own {
		t.Errorf("once the node has forgotten the guest, its name has the address %s, want %s", got, own)
	}
	// The host on the wire sees no advertisement of the node, and gets nothing from it.
	if out := far.Run(t, "ip", "-6", "neigh", "show", "dev", "eth0"); strings.Contains(out, "fe80::a9fe:a9fe") {
		t.Errorf("the host on the wire knows the node:\n%s", out)
	}
	for _, a := range []string{"fd00:ec2::254", "fd00:ec2::253"} {
		far.Run(t, "ip", "-6", "route", "replace", a+"/128", "dev", "eth0")
		if pings(t, far, a) {
			t.Errorf("the host on the wire gets an echo of %s", a)
		}
	}
}
