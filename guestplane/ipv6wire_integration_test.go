//go:build integration

package guestplane

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"seedbed"
	"seedbed/netcfg/netnstest"
)

// TestIPv6BridgedAlone: on a bridged network with IPv6 alone, guests have addresses of the node, with which hosts on the wire reach them.
// No other server gives them an IPv4 address, from which they could send nothing.
func TestIPv6BridgedAlone(t *testing.T) {
	p := realPlane(t)
	far, bare := onWire(t), netnstest.New(t)
	netnstest.Veth(t, "wire1", bare, "52:54:00:ee:00:03")
	netnstest.Run(t, "ip", "link", "set", "wire1", "master", "br0")
	far.Run(t, "sysctl", "-w", "net.ipv6.conf.eth0.accept_dad=0", "net.ipv6.conf.all.forwarding=1")
	router := prefix6.Addr().Next().String()
	for _, a := range []string{"fe80::9/64", router + "/64"} {
		far.Run(t, "ip", "-6", "addr", "add", a, "dev", "eth0", "nodad")
	}
	far.Run(t, "ip", "addr", "add", "10.79.0.1/24", "dev", "eth0")
	advertises(t, far, "prefix "+prefix6.String()+" { AdvAutonomous off; };")
	conf := file(t, "udhcpd.conf", "start 10.79.0.100\nend 10.79.0.150\ninterface eth0\nlease_file "+file(t, "leases", "")+"\npidfile "+
		filepath.Join(t.TempDir(), "pid")+"\noption subnet 255.255.255.0\n")
	far.Do(func() {
		netnstest.Background(t, "sh", "-c", `busybox udhcpd -f "$0" & echo started; cat >/dev/null; kill $!; wait`, conf)
	})
	n := network6(seedbed.NetworkBridged)
	n.Name, n.Bridge, n.Uplink, n.Prefix, n.Gateway = "lan", "sb-lan", "br0", netip.Prefix{}, netip.Addr{}
	n.NetworkOptions.Range = seedbed.AddrRange{}
	if err := n.Check(); err != nil {
		t.Fatal(err)
	}
	g := record(7, "lan", "10.77.0.7")
	g.NICs[0].Addr = netip.Addr{}
	serveState(t, p, stateWith([]seedbed.Network{n}, g))
	who := boot6(t, g, n.Bridge)
	own := n.Addr6(g.NICs[0].MAC).String()
	eventually(t, func() string {
		return cmp.Diff("fd00:ec2::253, fd00:ec2::254, fd12:3456:789a:1::/64, default via fe80::9", who.routes6(t))
	})
	who.served(t, "with a link-local address alone", ask6, ask6link)
	if d := cmp.Diff("got "+own+" resolvers fd00:ec2::253 search lan.internal.", who.leased6(t)); d != "" {
		t.Errorf("DHCPv6 (-want +got):\n%s", d)
	}
	who.served(t, "with its address", ask6, ask6link)
	if got := who.asks(t, "udp", "[fd00:ec2::253]", "guest-7.lan.internal.", dns.TypeAAAA); got != own {
		t.Errorf("its name has the address %s, want %s", got, own)
	}
	if !pings(t, who.ns, router) || !pings(t, far, own) {
		t.Error("the guest and the host on the wire do not reach each other")
	}
	if who.pingsFrom(t, "fd12:3456:789a:1::99") {
		t.Error("the guest gets an echo at another's address")
	}

	leased := func(ns *netnstest.Namespace) string {
		var out []byte
		ns.Do(func() { // it fails if it has no lease
			out, _ = exec.Command("busybox", "udhcpc", "-i", "eth0", "-n", "-q", "-f", "-t", "3", "-T", "1", "-s", "/bin/true").CombinedOutput()
		})
		return string(out)
	}
	if out := leased(bare); !strings.Contains(out, "lease of 10.79.0.1") {
		t.Errorf("a host on the wire has no lease:\n%s", out)
	}
	for _, dhcp := range []bool{true, false} {
		n.DHCP = dhcp
		serveState(t, p, stateWith([]seedbed.Network{n}, g))
		if out := leased(who.ns); strings.Contains(out, "lease of") || !strings.Contains(out, "no lease") {
			t.Errorf("DHCP %t: the guest is given an IPv4 address:\n%s", dhcp, out)
		}
	}
	// It reaches no server of the node either.
	dropped := regexp.MustCompile(`counter packets [1-9]\d* bytes \d+ drop comment "DHCP where guests have IPv6 alone`)
	if out := netnstest.Run(t, "nft", "list", "chain", "bridge", "seedbed", "ip4-dhcp"); !dropped.MatchString(out) {
		t.Errorf("the guest's requests were not dropped:\n%s", out)
	}
}

// TestIPv6Reserved: the guest whose MAC address has a reservation gets that address by DHCPv6, and may use it, but not the one that would
// follow from its MAC address. Its name has the reserved one.
func TestIPv6Reserved(t *testing.T) {
	p := realPlane(t)
	n := network6(seedbed.NetworkNAT)
	g, other := record(7, n.Name, "10.77.0.7"), record(8, n.Name, "10.77.0.8")
	follows := n.Addr6(g.NICs[0].MAC).String()
	serveState(t, p, stateWith([]seedbed.Network{n}, other)) // it comes to a network that is there
	const own = "fd12:3456:789a:1::50"
	n.Reservations = []seedbed.Reservation{{MAC: g.NICs[0].MAC, Addr: netip.MustParseAddr(own)}}
	if err := n.Check(); err != nil {
		t.Fatal(err)
	}
	serveState(t, p, stateWith([]seedbed.Network{n}, g, other))
	who, next := boot6(t, g, n.Bridge), boot6(t, other, n.Bridge)
	eventually(t, func() string { return cmp.Diff(true, strings.Contains(who.routes6(t), "default via")) })
	for _, one := range []person{who, next} {
		want := n.Addr6(one.NICs[0].MAC).String()
		if d := cmp.Diff("got "+want+" resolvers fd00:ec2::253 search default.internal.", one.leased6(t)); d != "" {
			t.Errorf("DHCPv6 of %s (-want +got):\n%s", one.Name, d)
		}
	}
	for _, one := range []person{who, next} {
		want := n.Addr6(one.NICs[0].MAC).String()
		if got := next.asks(t, "udp", "[fd00:ec2::253]", one.Name+".default.internal.", dns.TypeAAAA); got != want {
			t.Errorf("%s has the address %s, want %s", one.Name, got, want)
		}
	}
	who.served(t, "with its address", ask6, ask6link)
	if !pings(t, next.ns, own) || !pings(t, who.ns, n.Gateway6().String()) {
		t.Error("the guest does not reach others, or is not reached")
	}
	if who.pingsFrom(t, follows) {
		t.Error("the guest gets an echo at the address that follows from its MAC address")
	}
}

// TestNetworkd6 runs systemd-networkd, the client of Debian's cloud images and others, in a network with IPv6 alone: it gets its address
// by DHCPv6, its resolver and search domain by that and by advertisements, and its routes by these.
func TestNetworkd6(t *testing.T) {
	p := realPlane(t)
	n := network6(seedbed.NetworkRouted)
	n.Prefix, n.Gateway, n.NTP = netip.Prefix{}, netip.Addr{}, []netip.Addr{seedbed.TimeAddr}
	n.NetworkOptions.Range = seedbed.AddrRange{}
	g := record(7, n.Name, "10.77.0.7")
	g.NICs[0].Addr = netip.Addr{}
	serveState(t, p, stateWith([]seedbed.Network{n}, g))
	who := boot6(t, g, n.Bridge)
	conf, state := t.TempDir(), t.TempDir()
	text := "[Match]\nName=eth0\n[Network]\nDHCP=no\nIPv6AcceptRA=yes\n[IPv6AcceptRA]\nUseDomains=yes\n[DHCPv6]\nUseDomains=yes\n"
	if err := os.WriteFile(filepath.Join(conf, "eth0.network"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"", "links", "leases", "lldp"} { // for the user that it runs as
		if err := errors.Join(os.MkdirAll(filepath.Join(state, dir), 0o755), os.Chmod(filepath.Join(state, dir), 0o777)); err != nil {
			t.Fatal(err)
		}
	}
	for dir, from := range map[string]string{"/etc/systemd/network": conf, "/run/systemd/netif": state} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		netnstest.Run(t, "mount", "--bind", from, dir)
		t.Cleanup(func() { netnstest.Run(t, "umount", dir) })
	}
	// With a /sys that can be written, it waits for udev.
	netnstest.Run(t, "mount", "--bind", "/sys", "/sys")
	t.Cleanup(func() { netnstest.Run(t, "umount", "/sys") })
	netnstest.Run(t, "mount", "-o", "remount,bind,ro", "/sys")
	t.Cleanup(func() {
		if log, _ := os.ReadFile(filepath.Join(conf, "log")); t.Failed() {
			t.Logf("networkd says\n%s", log)
		}
	})
	who.ns.Do(func() {
		netnstest.Background(t, "sh", "-c", `/lib/systemd/systemd-networkd >"$0" 2>&1 & echo started; cat >/dev/null; kill $!; wait`,
			filepath.Join(conf, "log"))
	})
	link, _, _ := strings.Cut(who.ns.Run(t, "ip", "-o", "link", "show", "eth0"), ":")
	own := n.Addr6(g.NICs[0].MAC).String()
	eventually(t, func() string {
		b, _ := os.ReadFile(filepath.Join(state, "links", link)) // it is there in the end
		got := map[string]string{}
		for line := range strings.Lines(string(b)) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			if key == "DNS" || key == "DOMAINS" || key == "NTP" {
				got[key] = strings.Join(slices.Compact(strings.Fields(value)), " ") // by DHCPv6 and by advertisements
			}
		}
		return cmp.Diff(map[string]string{"DNS": "fd00:ec2::253", "DOMAINS": "default.internal", "NTP": "fd00:ec2::123"}, got)
	})
	eventually(t, func() string {
		addrs, routes := who.ns.Run(t, "ip", "-6", "-o", "addr", "show", "dev", "eth0", "scope", "global"), who.routes6(t)
		if !strings.Contains(addrs, own+"/") || !strings.Contains(routes, "default via fe80::a9fe:a9fe") {
			return addrs + routes
		}
		return ""
	})
	who.served(t, "as systemd-networkd configures it", ask6, ask6link)
	if got := who.asks(t, "udp", "[fd00:ec2::253]", "guest-7.default.internal.", dns.TypeAAAA); got != own {
		t.Errorf("its name has the address %s, want %s", got, own)
	}
}

// TestIPv6Range: guests of a network with an IPv6 range and gateway of its own have addresses in the range, and learn its routes. The
// addresses that hosts choose of themselves are no guest's there.
func TestIPv6Range(t *testing.T) {
	p := realPlane(t)
	n := network6(seedbed.NetworkRouted)
	n.SLAAC, n.Range6 = false, netip.MustParsePrefix("fd12:3456:789a:1:d0::/76")
	n.Router6 = netip.MustParseAddr("fd12:3456:789a:1::fe")
	n.Routes = []seedbed.NetworkRoute{{Prefix: netip.MustParsePrefix("2001:db8:5::/48"), Via: n.Router6}}
	if err := n.Check(); err != nil {
		t.Fatal(err)
	}
	g, other := record(7, n.Name, "10.77.0.7"), record(8, n.Name, "10.77.0.8")
	serveState(t, p, stateWith([]seedbed.Network{n}, g, other))
	who, next := boot6(t, g, n.Bridge), boot6(t, other, n.Bridge)
	who.ns.Run(t, "sysctl", "-w", "net.ipv6.conf.eth0.accept_ra_rt_info_max_plen=64")
	who.ns.Run(t, "ip", "link", "set", "eth0", "down")
	who.ns.Run(t, "ip", "link", "set", "eth0", "up")
	eventually(t, func() string {
		return cmp.Diff("2001:db8:5::/48 via fe80::a9fe:a9fe, fd00:ec2::253, fd00:ec2::254, fd12:3456:789a:1::/64, default via fe80::a9fe:a9fe",
			who.routes6(t))
	})
	for i, one := range []person{who, next} {
		want := fmt.Sprintf("got fd12:3456:789a:1:d0:5254:0:%d resolvers fd00:ec2::253 search default.internal.", 7+i)
		if d := cmp.Diff(want, one.leased6(t)); d != "" {
			t.Errorf("DHCPv6 (-want +got):\n%s", d)
		}
		one.served(t, "with its address", ask6, ask6link)
	}
	for _, to := range []string{"fd12:3456:789a:1:d0:5254:0:8", "fd12:3456:789a:1::fe"} {
		if !pings(t, who.ns, to) {
			t.Errorf("%s does not answer", to)
		}
	}
	if pings(t, who.ns, "fd12:3456:789a:1::1") {
		t.Error("the first address of the prefix answers, which is not the gateway's here")
	}
	if who.pingsFrom(t, "fd12:3456:789a:1:5054:ff:fe00:7") {
		t.Error("the address that a host chooses of itself is taken")
	}
}
