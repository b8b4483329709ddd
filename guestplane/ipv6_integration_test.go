//go:build integration

package guestplane

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
