//go:build integration

package guestplane

import (
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

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
	n := seedbed.Network{Name: "lan", Kind: seedbed.NetworkBridged, Bridge: "sb-lan", MAC: seedbed.MAC{0x52, 0x54, 0, 0xb0, 0, 3}, Uplink: "wire"}
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
		netnstest.Background(t, "sh", "-c", `busybox udhcpd -f "$0" & echo started; cat >/dev/null; kill $!; wait`, conf)
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
