//go:build integration

package netcfg

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"seedbed"
	"seedbed/netcfg/netnstest"
)

const (
	metadata6Global = "[fd00:ec2::254]:80"
	metadata6Link   = "[fe80::a9fe:a9fe%eth0]:80"
)

// linkLocalOf is the address that a guest makes of its MAC (RFC 4291, appendix A).
func linkLocalOf(m seedbed.MAC) netip.Addr {
	return netip.AddrFrom16([16]byte{0xfe, 0x80, 8: m[0] ^ 2, 9: m[1], 10: m[2], 11: 0xff, 12: 0xfe, 13: m[3], 14: m[4], 15: m[5]})
}

// guest6 is guest with a link-local address that can be used at once, and a route to Amazon's.
func guest6(t *testing.T, tap string, mac seedbed.MAC, ip netip.Addr) *netnstest.Namespace {
	t.Helper()
	n := guest(t, tap, mac, ip)
	n.Run(t, "sysctl", "-w", "net.ipv6.conf.eth0.accept_dad=0")
	n.Run(t, "ip", "-6", "addr", "flush", "dev", "eth0")
	n.Run(t, "ip", "-6", "addr", "add", linkLocalOf(mac).String()+"/64", "dev", "eth0", "nodad")
	n.Run(t, "ip", "-6", "route", "replace", "fd00:ec2::254/128", "dev", "eth0")
	return n
}

// serve6 answers as serve does, at both IPv6 addresses of a bridge and a port.
func serve6(t *testing.T, bridge string, port int) {
	t.Helper()
	br, err := net.InterfaceByName(bridge)
	if err != nil {
		t.Fatal(err)
	}
	for _, addr := range []string{fmt.Sprintf("[fd00:ec2::254]:%d", port), fmt.Sprintf("[fe80::a9fe:a9fe%%%d]:%d", br.Index, port)} {
		l, err := net.Listen("tcp6", addr)
		if err != nil {
			t.Fatal(err)
		}
		serveOn(t, l)
	}
}

// said is what the server tells of a guest over IPv6.
func said(mac seedbed.MAC, mark int) string { return fmt.Sprintf("%s mark %d", linkLocalOf(mac), mark) }

func TestBridgeHasIPv6(t *testing.T) {
	m := open(t)
	apply(t, m, state0(), Options{})
	netnstest.Run(t, "ip", "addr", "add", "2001:db8::1/64", "dev", "seedbed0")
	for what, damage := range map[string][]string{
		"nothing":        {"true"},
		"down":           {"ip", "link", "set", "seedbed0", "down"},
		"an address off": {"ip", "addr", "del", "fd00:ec2::254/128", "dev", "seedbed0"},
		"switches": {"sysctl", "-w", "net.ipv6.conf.seedbed0.accept_ra=2", "net.ipv6.conf.seedbed0.accept_redirects=1",
			"net.ipv6.conf.seedbed0.addr_gen_mode=0"},
	} {
		netnstest.Run(t, damage[0], damage[1:]...)
		apply(t, m, state0(), Options{})
		out := netnstest.Run(t, "ip", "-6", "-o", "addr", "show", "seedbed0")
		for _, want := range []string{"inet6 fd00:ec2::254/128 scope global nodad deprecated noprefixroute",
			"inet6 fe80::a9fe:a9fe/64 scope link nodad"} {
			if !strings.Contains(out, want) {
				t.Errorf("%s: no %q in\n%s", what, want, out)
			}
		}
		if n := strings.Count(out, "inet6"); n != 2 {
			t.Errorf("%s: %d addresses, want the two alone\n%s", what, n, out)
		}
		for name, want := range map[string]string{"accept_ra": "0", "autoconf": "0", "accept_dad": "0", "accept_redirects": "0",
			"addr_gen_mode": "1"} {
			b, err := os.ReadFile("/proc/sys/net/ipv6/conf/seedbed0/" + name)
			if got := strings.TrimSpace(string(b)); err != nil || got != want {
				t.Errorf("%s: %s is %s, want %s (%v)", what, name, got, want, err)
			}
		}
	}
	// It is no source for what the host itself sends to such addresses. Without nodad the host's
	// own address would be none either for a moment, even on lo.
	netnstest.Run(t, "ip", "link", "add", "own6", "type", "ifb")
	t.Cleanup(func() { netnstest.Run(t, "ip", "link", "del", "own6") })
	netnstest.Run(t, "sh", "-c", "ip link set own6 up && "+
		"ip addr add fd12:3456::1/128 dev lo nodad && ip -6 route add fd00:ec2:1::/64 dev own6")
	t.Cleanup(func() { netnstest.Run(t, "ip", "addr", "del", "fd12:3456::1/128", "dev", "lo") })
	if out := netnstest.Run(t, "ip", "-6", "route", "get", "fd00:ec2:1::5"); !strings.Contains(out, "src fd12:3456::1") {
		t.Errorf("the host's own traffic goes out as %s", out)
	}
	if out := netnstest.Run(t, "ip", "-6", "route", "show", "dev", "seedbed0"); !strings.Contains(out, "fe80::/64") {
		t.Errorf("no route to link-local addresses:\n%s", out)
	}
}

// TestMetadataOverIPv6: the mark of the port arrives over IPv6 as well, and the neighbour's MAC can
// be asked for.
func TestMetadataOverIPv6(t *testing.T) {
	for _, port := range []int{80, 7380} {
		t.Run(fmt.Sprint(port), func(t *testing.T) {
			m := open(t)
			apply(t, m, state0(), Options{MetadataPort: port})
			g1, g2 := guest6(t, "sb1", mac1, ip1), guest6(t, "sb2", mac2, ip2)
			serve6(t, "seedbed0", port)
			for _, addr := range []string{metadata6Global, metadata6Link} {
				ask(t, "guest 1", g1, addr, said(mac1, 101))
				ask(t, "guest 2", g2, addr, said(mac2, 102))
			}
			br, err := net.InterfaceByName("seedbed0")
			if err != nil {
				t.Fatal(err)
			}
			if got, err := m.Neighbour(t.Context(), br.Index, linkLocalOf(mac1).WithZone("seedbed0")); err != nil || got != mac1 {
				t.Errorf("Neighbour = %s, %v", got, err)
			}
			if port != 80 {
				ask(t, "the port itself", g1, fmt.Sprintf("[fd00:ec2::254]:%d", port), "")
			}
			// The switch has no IPv6 in its name, and decides here as well.
			netnstest.Run(t, "sysctl", "-w", "net.ipv4.tcp_fwmark_accept=0")
			ask(t, "without the switch", g1, metadata6Global, said(mac1, 0))
			if err := m.Restore(t.Context()); err != nil {
				t.Fatal(err)
			}
			// By a router that is not the bridge, it is taken off the wire.
			g1.Run(t, "ip", "-6", "neigh", "replace", "fe80::99", "lladdr", "52:54:00:99:99:99", "dev", "eth0")
			g1.Run(t, "ip", "-6", "route", "replace", "fd00:ec2::254/128", "via", "fe80::99", "dev", "eth0")
			ask(t, "by a foreign router", g1, metadata6Global, said(mac1, 101))
		})
	}
}

// TestHostIsClosedOverIPv6: nothing but metadata, on no address, and not from further away than the
// link.
func TestHostIsClosedOverIPv6(t *testing.T) {
	m := open(t)
	s := state0()
	s.Networks[0].Allow.Addresses = true
	apply(t, m, s, Options{})
	netnstest.Run(t, "ip", "addr", "add", "2001:db8:1::1/128", "dev", "lo", "nodad")
	t.Cleanup(func() { netnstest.Run(t, "ip", "addr", "del", "2001:db8:1::1/128", "dev", "lo") })
	g1 := guest6(t, "sb1", mac1, ip1)
	g1.Run(t, "ip", "-6", "route", "add", "2001:db8:1::1/128", "via", "fe80::a9fe:a9fe", "dev", "eth0")
	for _, addr := range []string{"[::]:80", "[::]:22"} {
		l, err := net.Listen("tcp6", addr)
		if err != nil {
			t.Fatal(err)
		}
		serveOn(t, l)
	}
	ask(t, "metadata", g1, metadata6Global, said(mac1, 101))
	for _, addr := range []string{"[fd00:ec2::254]:22", "[fe80::a9fe:a9fe%eth0]:22", "[2001:db8:1::1]:80", "[2001:db8:1::1]:22"} {
		ask(t, "another service", g1, addr, "")
	}
	netnstest.Run(t, "ip", "-6", "route", "add", "2001:db8:2::/64", "dev", "seedbed0")
	g1.Run(t, "ip", "addr", "add", "2001:db8:2::2/64", "dev", "eth0", "nodad")
	g1.Run(t, "ip", "-6", "route", "replace", "fd00:ec2::254/128", "dev", "eth0", "src", "2001:db8:2::2")
	ask(t, "from an address that is not of the link", g1, metadata6Global, "")
}

// TestThief6: guest 1 takes guest 2's link-local address, and its neighbour entry, and gets nothing
// of guest 2: neither as a caller nor as the receiver of an answer.
func TestThief6(t *testing.T) {
	m := open(t)
	apply(t, m, state0(), Options{})
	g1, g2 := guest6(t, "sb1", mac1, ip1), guest6(t, "sb2", mac2, ip2)
	serve6(t, "seedbed0", 80)
	ask(t, "the owner", g2, metadata6Link, said(mac2, 102))
	g1.Run(t, "ip", "-6", "addr", "add", linkLocalOf(mac2).String()+"/64", "dev", "eth0", "nodad")
	g1.Run(t, "ip", "-6", "addr", "del", linkLocalOf(mac1).String()+"/64", "dev", "eth0")
	g1.Run(t, "ip", "-6", "route", "replace", "fd00:ec2::254/128", "dev", "eth0")
	// The mark is guest 1's whatever its address says; the server compares the two.
	netnstest.Run(t, "ip", "-6", "neigh", "replace", linkLocalOf(mac2).String(), "lladdr", mac1.String(), "dev", "seedbed0",
		"nud", "permanent")
	ask(t, "with another's address", g1, metadata6Link, said(mac2, 101))
	// The host believes that guest 2's address is guest 1's: the answer to guest 2 goes to neither.
	ask(t, "the owner, robbed of its neighbour entry", g2, metadata6Link, "")
	stopped := func(what string) bool {
		out := netnstest.Run(t, "nft", "list", "chain", "bridge", "seedbed", "answers")
		return regexp.MustCompile(`packets [1-9].* comment "` + what).MatchString(out)
	}
	if !stopped("metadata of another guest, from fe80::a9fe:a9fe") {
		t.Error("no answer was stopped")
	}
	sendMarked(t, linkLocalOf(mac2), 101) // to whom the host believes it is
	if stopped("DHCPv6 of another guest") {
		t.Error("an answer of DHCPv6 to the guest that asked was stopped")
	}
	sendMarked(t, linkLocalOf(mac2), 102)
	if !stopped("DHCPv6 of another guest") {
		t.Error("an answer of DHCPv6 to another guest was not stopped")
	}
	netnstest.Run(t, "ip", "-6", "neigh", "del", linkLocalOf(mac2).String(), "dev", "seedbed0")
	g1.Run(t, "ip", "-6", "addr", "del", linkLocalOf(mac2).String()+"/64", "dev", "eth0")
	ask(t, "the owner afterwards", g2, metadata6Link, said(mac2, 102))
	// The other's MAC does not even reach the bridge.
	g1.Run(t, "ip", "link", "set", "eth0", "address", mac2.String())
	g1.Run(t, "ip", "-6", "addr", "replace", linkLocalOf(mac2).String()+"/64", "dev", "eth0", "nodad")
	ask(t, "with another's MAC and address", g1, metadata6Link, "")
}

// TestWithoutIPv6: a host that has IPv6 switched off is served over IPv4, and over IPv6 once it is
// switched on.
func TestWithoutIPv6(t *testing.T) {
	netnstest.Run(t, "sysctl", "-w", "net.ipv6.conf.all.disable_ipv6=1")
	t.Cleanup(func() { netnstest.Run(t, "sysctl", "-w", "net.ipv6.conf.all.disable_ipv6=0") })
	var log lines
	m := openLog(t, &log)
	for range 3 {
		apply(t, m, state0(), Options{})
	}
	if got := log.count("IPv6 is switched off"); got != 1 {
		t.Errorf("said %d times that there is no IPv6, want once", got)
	}
	if m.HasIPv6("seedbed0") || m.HasIPv6("absent0") {
		t.Error("HasIPv6 where there is none")
	}
	g1 := guest(t, "sb1", mac1, ip1)
	serve(t, metadata)
	ask(t, "over IPv4", g1, metadata, "10.77.0.11 mark 101")
	var problems []string
	for _, c := range m.Check(t.Context()) {
		if !c.OK {
			problems = append(problems, c.Name+": "+c.Detail)
		}
	}
	if d := cmp.Diff([]string(nil), problems); d != "" {
		t.Errorf("checks (-want +got):\n%s", d)
	}
	netnstest.Run(t, "sysctl", "-w", "net.ipv6.conf.all.disable_ipv6=0")
	apply(t, m, state0(), Options{})
	if !m.HasIPv6("seedbed0") {
		t.Error("no IPv6 after it was switched on")
	}
	if out := netnstest.Run(t, "ip", "-6", "addr", "show", "seedbed0"); !strings.Contains(out, "fd00:ec2::254") {
		t.Errorf("no address after IPv6 was switched on:\n%s", out)
	}
}
