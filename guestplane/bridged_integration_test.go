//go:build integration

package guestplane

import (
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"seedbed"
	"seedbed/netcfg/netnstest"
)

// onWire is a host on the network behind the bridge br0 of the node.
func onWire(t *testing.T) *netnstest.Namespace {
	t.Helper()
	far := netnstest.New(t)
	netnstest.Veth(t, "wire", far, "52:54:00:ee:00:02")
	netnstest.Run(t, "ip", "link", "add", "br0", "type", "bridge")
	t.Cleanup(func() { netnstest.Run(t, "ip", "link", "del", "br0") })
	netnstest.Run(t, "ip", "link", "set", "wire", "master", "br0")
	netnstest.Run(t, "ip", "link", "set", "br0", "up")
	return far
}

// TestUplinkIsTaken: a network whose uplink the kernel does not attach keeps no guest of another network from being served, and is
// attached once it can be.
func TestUplinkIsTaken(t *testing.T) {
	p := realPlane(t)
	far, away := netnstest.New(t), netnstest.New(t)
	netnstest.Veth(t, "wire", far, "52:54:00:ee:00:02")
	// In another namespace, it is not seen before the kernel refuses.
	netnstest.Run(t, "ip", "link", "add", "link", "wire", "name", "vm0", "type", "macvlan", "mode", "bridge")
	netnstest.Run(t, "ip", "link", "set", "vm0", "netns", away.PID())
	n := seedbed.Network{Name: "lan", Kind: seedbed.NetworkBridged, Uplink: "wire",
		Bridge: "sb-lan", MAC: seedbed.MAC{0x52, 0x54, 0, 0xb0, 0, 3}}
	one, another := record(7, "default", "10.77.0.7"), record(8, "default", "10.77.0.8")
	serveState(t, p, stateWith([]seedbed.Network{network0()}, one))
	state := stateWith([]seedbed.Network{network0(), n}, one, another)
	serveState(t, p, state)
	attach(t, another, "seedbed0", another.NICs[0].ID.Tap()).served(t, "beside a network without its uplink", ask4)
	if err := p.Held(); err != nil {
		t.Errorf("the state is not acknowledged: %v", err)
	}
	attached := func() bool {
		return strings.Contains(netnstest.Run(t, "ip", "-o", "link", "show", "wire"), " master sb-lan ")
	}
	if !slices.ContainsFunc(p.host.Check(t.Context()), func(c seedbed.Check) bool {
		return c.Name == "bridge sb-lan" && !c.OK && strings.Contains(c.Detail, "network lan does not reach its uplink wire")
	}) || attached() {
		t.Errorf("no check says that the uplink is taken: %+v", p.host.Check(t.Context()))
	}
	away.Run(t, "ip", "link", "del", "vm0")
	if err := p.restore(t.Context()); err != nil || !attached() {
		t.Errorf("once the uplink is free: %v, attached %t", err, attached())
	}
}

// TestBridgedNetwork: on a bridged network, guests get their addresses from the node, whatever DHCP server is on it, or
// from that server, and their metadata from the node in both cases. Where the node gives addresses, it knows the names of
// guests of all nodes.
func TestBridgedNetwork(t *testing.T) {
	const beside = " & echo started; cat >/dev/null; kill $!; wait"
	for name, server := range map[string]string{
		"udhcpd": `busybox udhcpd -f "$0"` + beside,
		"dnsmasq": `dnsmasq -k --conf-file=/dev/null --port=0 --interface=eth0 --bind-interfaces --dhcp-range=10.79.0.100,10.79.0.150 ` +
			`--dhcp-option=3,10.79.0.1 --dhcp-leasefile="$0.leases" --pid-file= --user=root` + beside,
	} {
		t.Run(name, func(t *testing.T) { testBridgedNetwork(t, server) })
	}
}

// testBridgedNetwork tests beside a DHCP server, which is a shell script with the name of a configuration.
func testBridgedNetwork(t *testing.T, server string) {
	p := realPlane(t)
	far := onWire(t)
	far.Run(t, "ip", "addr", "add", "10.79.0.1/24", "dev", "eth0")
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	leases := write("leases", "")
	conf := write("udhcpd.conf", "start 10.79.0.100\nend 10.79.0.150\ninterface eth0\nlease_file "+leases+"\npidfile "+dir+
		"/pid\noption router 10.79.0.1\noption subnet 255.255.255.0\n")
	far.Do(func() {
		netnstest.Background(t, "sh", "-c", server, conf)
	})
	configure := write("configure", "#!/bin/sh\n[ \"$1\" = bound ] || exit 0\necho \"got $ip by $serverid, router $router\"\n"+
		"ip addr add $ip/24 dev eth0\n[ -z \"$router\" ] || ip route add default via $router\n")

	for name, tt := range map[string]struct {
		network seedbed.Network
		addr    string
		want    string
	}{
		"addresses of the node": {seedbed.Network{DHCP: true, Prefix: netip.MustParsePrefix("10.79.0.0/24"),
			DNS: []netip.Addr{seedbed.ResolverAddr}, Gateway: netip.MustParseAddr("10.79.0.1")}, "10.79.0.7",
			"got 10.79.0.7 by 169.254.169.254, router 10.79.0.1"},
		"addresses from elsewhere": {seedbed.Network{}, "", "got 10.79.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			n := tt.network
			n.Name, n.Kind, n.Bridge, n.MAC, n.Uplink = "lan", seedbed.NetworkBridged, "sb-lan", seedbed.MAC{0x52, 0x54, 0, 0xb0, 0, 3}, "br0"
			g := record(7, "lan", "10.79.0.7")
			if tt.addr == "" {
				g.NICs[0].Addr = netip.Addr{}
			}
			other := record(8, "lan", "10.79.0.8")
			serveState(t, p, withPeers(stateWith([]seedbed.Network{network0(), n}, g), other.Peer("hv2", []string{"lan"})))
			ns := netnstest.New(t)
			tap := g.NICs[0].ID.Tap()
			netnstest.Veth(t, tap, ns, g.NICs[0].MAC.String())
			netnstest.Run(t, "ip", "link", "set", tap, "master", "sb-lan")
			out := ns.Run(t, "busybox", "udhcpc", "-i", "eth0", "-n", "-q", "-f", "-t", "10", "-s", configure)
			if !strings.Contains(out, tt.want) {
				t.Errorf("udhcpc:\n%s\nwant %q", out, tt.want)
			}
			who := person{g, ns}
			who.served(t, "after DHCP", ask4, ask6link)
			if tt.addr != "" {
				for _, of := range []seedbed.Guest{g, other} {
					got := who.asks(t, "udp", "169.254.169.253", seedbed.DNSLabel(of.Name)+".lan.internal.", dns.TypeA)
					if want := of.NICs[0].Addr.String(); got != want {
						t.Errorf("%s has the address %s, want %s", of.Name, got, want)
					}
				}
			}
			netnstest.Run(t, "ip", "link", "del", tap)
		})
	}
}

// TestIPv6BridgedElsewhere: where addresses come from elsewhere, guests choose those of a prefix that a foreign router advertises, and
// send to the metadata service from these. Two such networks may have the same addresses.
func TestIPv6BridgedElsewhere(t *testing.T) {
	p := realPlane(t)
	far, second := onWire(t), netnstest.New(t)
	netnstest.Veth(t, "wire2", second, "52:54:00:ee:00:04")
	for _, router := range []*netnstest.Namespace{far, second} {
		router.Run(t, "sysctl", "-w", "net.ipv6.conf.eth0.accept_dad=0", "net.ipv6.conf.all.forwarding=1")
		router.Run(t, "ip", "-6", "addr", "add", "fe80::9/64", "dev", "eth0", "nodad")
		advertises(t, router, "prefix "+prefix6.String()+" {};")
	}
	n := seedbed.Network{Name: "lan", Kind: seedbed.NetworkBridged, Uplink: "br0",
		Bridge: "sb-lan", MAC: seedbed.MAC{0x52, 0x54, 0, 0xb0, 0, 3}}
	other := n
	other.Name, other.Bridge, other.Uplink, other.MAC[5] = "lan2", "sb-lan2", "wire2", 4
	g, g2 := record(7, "lan", "10.77.0.7"), record(8, "lan2", "10.77.0.8")
	g.NICs[0].Addr, g2.NICs[0].Addr = netip.Addr{}, netip.Addr{}
	serveState(t, p, stateWith([]seedbed.Network{n, other}, g, g2))
	one, two := boot6(t, g, n.Bridge), boot6(t, g2, other.Bridge)
	for _, who := range []person{one, two} {
		eventually(t, func() string {
			return cmp.Diff("fd00:ec2::254, fd12:3456:789a:1::/64, default via fe80::9", who.routes6(t))
		})
	}
	const same = "fd12:3456:789a:1::77" // which its owner cannot tell
	two.ns.Run(t, "ip", "-6", "addr", "flush", "dev", "eth0", "scope", "global")
	for _, who := range []person{one, two} {
		who.served(t, "with an address of the wire", ask6, ask6link)
		who.ns.Run(t, "ip", "-6", "addr", "add", same+"/64", "dev", "eth0", "nodad", "preferred_lft", "forever")
		who.ns.Run(t, "ip", "-6", "route", "replace", "fd00:ec2::254/128", "dev", "eth0", "src", same)
	}
	one.served(t, "with an address that a guest elsewhere has", ask6)
	two.served(t, "with an address that a guest elsewhere has", ask6)
	far.Run(t, "ip", "-6", "route", "replace", "fd00:ec2::254/128", "dev", "eth0")
	if pings(t, far, "fd00:ec2::254") {
		t.Error("the host on the wire gets an echo of fd00:ec2::254")
	}
	// The node itself does not reach such addresses by the bridges, and the rules go with the networks. Another installation has its own.
	netnstest.Run(t, "ip", "link", "add", "other0", "type", "bridge")
	t.Cleanup(func() { netnstest.Run(t, "ip", "link", "del", "other0") })
	netnstest.Run(t, "ip", "link", "set", "other0", "alias", "seedbed:lan@other")
	netnstest.Run(t, "ip", "-6", "rule", "add", "oif", "other0", "lookup", "99539949", "priority", "33000")
	if out := netnstest.Run(t, "sh", "-c", "ip -6 route get "+same+" || true"); strings.Contains(out, "sb-lan") {
		t.Errorf("what the node itself sends goes to guests: %s", out)
	}
	netnstest.Run(t, "ip", "link", "del", g.NICs[0].ID.Tap())
	netnstest.Run(t, "ip", "link", "del", g2.NICs[0].ID.Tap())
	serveState(t, p, stateWith([]seedbed.Network{network0()}))
	if out := netnstest.Run(t, "ip", "-6", "rule"); strings.Contains(out, "sb-lan") || !strings.Contains(out, "oif other0") {
		t.Errorf("rules of networks that are no more, or none of another installation:\n%s", out)
	}
}
