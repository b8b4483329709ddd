//go:build integration

package netcfg

import (
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"seedbed"
	"seedbed/netcfg/netnstest"
)

// TestTunnelRules: by the interface of the tunnels, a node gets the frames of overlays and nothing else, and forwards nothing. Its
// packets are not tracked, and guests keep their connections from its port. It needs no kernel with WireGuard: another interface has
// the name.
func TestTunnelRules(t *testing.T) {
	s := encrypted(t)
	s.a.Networks[0].FloatingUplink = "wire"
	s.a.Networks[0].Floating = []seedbed.AddrRange{{First: netip.MustParseAddr("192.0.2.50"), Last: netip.MustParseAddr("192.0.2.59")}}
	s.a.Ports = []Port{overlayPort(3), overlayPort(4)}
	s.a.Ports[1].Floating = netip.MustParseAddr("192.0.2.50")
	node, outside, name := netnstest.New(t), netnstest.New(t), tunnelPrefix+linkDigits("")
	own, inner, stranger := s.a.Tunnels[nodeA].Key.Addr(), s.a.Tunnels[nodeB].Key.Addr(), netip.MustParseAddr("fd00::99")
	netnstest.Veth(t, name, node, wireMAC)
	netnstest.Veth(t, "out", outside, wireMAC)
	netnstest.Run(t, "sysctl", "-w", "net.ipv6.conf.all.forwarding=1")
	mac, err := net.InterfaceByName(name)
	if err != nil {
		t.Fatal(err)
	}
	netnstest.Run(t, "ip", "addr", "add", own.String()+"/128", "dev", name, "nodad")
	netnstest.Run(t, "ip", "addr", "add", "2001:db8:9::1/64", "dev", "out", "nodad")
	for _, a := range []netip.Addr{inner, stranger} {
		node.Run(t, "ip", "addr", "add", a.String()+"/128", "dev", "eth0", "nodad")
		netnstest.Run(t, "ip", "-6", "route", "add", a.String(), "dev", name)
		netnstest.Run(t, "ip", "-6", "neigh", "add", a.String(), "lladdr", wireMAC, "dev", name)
	}
	node.Run(t, "ip", "-6", "route", "add", "default", "via", own.String(), "dev", "eth0", "onlink", "src", inner.String())
	node.Run(t, "ip", "-6", "neigh", "add", own.String(), "lladdr", mac.HardwareAddr.String(), "dev", "eth0")
	outside.Run(t, "ip", "addr", "add", "2001:db8:9::2/64", "dev", "eth0", "nodad")
	outside.Run(t, "ip", "-6", "route", "add", "default", "via", "2001:db8:9::1")
	serve6 := func() {
		var l net.Listener
		if l, err = net.Listen("tcp6", ":8081"); err == nil {
			serveOn(t, l)
		}
	}
	serve6()
	node.Do(serve6)
	outside.Do(serve6)
	if err != nil {
		t.Fatal(err)
	}
	here := func(from netip.Addr, port string, send func() error) bool {
		t.Helper()
		l, err := net.ListenPacket("udp6", net.JoinHostPort(own.String(), port))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		node.Do(func() { err = send() })
		if err != nil {
			t.Fatal(err)
		}
		l.SetReadDeadline(time.Now().Add(500 * time.Millisecond))
		_, at, err := l.ReadFrom(make([]byte, 99))
		return err == nil && at.(*net.UDPAddr).AddrPort().Addr() == from
	}
	frame := func(from netip.Addr, vni int) bool {
		return here(from, "4789", func() error { return sendVXLAN(from, own, vni, []byte("frame")) })
	}
	of := func(a netip.Addr) string { return net.JoinHostPort(a.String(), "8081") }
	ask(t, "the node, without rules", node, of(own), inner.String()+" mark 0")
	ask(t, "a host behind the node, without rules", node, "[2001:db8:9::2]:8081", inner.String()+" mark 0")
	ask(t, "what is in a tunnel, without rules", outside, of(inner), "2001:db8:9::2 mark 0")

	apply(t, s.here, s.a, s.aOptions)
	ask(t, "the node", node, of(own), "")
	ask(t, "another address of the node", node, "[2001:db8:9::1]:8081", "")
	ask(t, "a host behind the node", node, "[2001:db8:9::2]:8081", "")
	ask(t, "what is in a tunnel", outside, of(inner), "")
	ask(t, "the node, past the tunnels", outside, "[2001:db8:9::1]:8081", "2001:db8:9::2 mark 0")
	if !frame(inner, testVNI) || frame(stranger, testVNI) || frame(inner, testVNI+1) {
		t.Error("not the frames of a node's overlay alone arrive")
	}

	// Another firewall of the node must let them in.
	t.Cleanup(func() { netnstest.Try("nft", "delete", "table", "ip6", "host") })
	for rule, lost := range map[string]bool{"ct state established accept": true, `iifname "sw-*" udp dport 4789 accept`: false,
		"udp dport { 53, 4789 } accept": false} {
		netnstest.Run(t, "nft", "add table ip6 host; delete table ip6 host; add table ip6 host;"+
			"add chain ip6 host input { type filter hook input priority 0; policy drop; }; add rule ip6 host input "+rule)
		if s.problem(t, "host input drops by default") != lost {
			t.Errorf("with the rule %s: %+v", rule, s.here.Check(t.Context()))
		}
	}
	netnstest.Run(t, "nft", "delete", "table", "ip6", "host")
	s.a.Ports[0].Forwards = []seedbed.Forward{{Listen: seedbed.Listen{Protocol: "udp", First: 51821, Last: 51821}, Port: 51821}}
	apply(t, s.here, s.a, s.aOptions)
	if !s.problem(t, "the tunnels to the other nodes take what comes to this port") {
		t.Errorf("checks with a forward of the port: %+v", s.here.Check(t.Context()))
	}

	// The port of the tunnels, on the wire.
	netnstest.Run(t, "nft", "add table inet probe; add chain inet probe in { type filter hook input priority 10; };"+
		"add chain inet probe out { type filter hook output priority 10; };"+
		"add rule inet probe in udp dport 51821 ct state untracked counter; add rule inet probe out udp sport 51821 ct state untracked counter")
	t.Cleanup(func() { netnstest.Try("nft", "delete", "table", "inet", "probe") })
	g3, g4 := s.guest(t, 3, false), s.guest(t, 4, false)
	s.far.Run(t, "ip", "addr", "add", "192.0.2.77/24", "dev", "eth0")
	far, far2 := udpAt(t, s.far, "192.0.2.2:51822"), udpAt(t, s.far, "192.0.2.77:51822")
	for port, kept := range map[string]bool{"51821": false, "5000": true} {
		c := udpAt(t, g3, "10.81.0.3:"+port)
		from := passes(t, c, "192.0.2.2:51822", far)
		if from.Addr() != nodeA || (from.Port() == 51821 || from.Port() == 5000) != kept {
			t.Errorf("the connection of a guest from port %s comes from %s", port, from)
		}
		passes(t, far, from.String(), c)
	}
	passes(t, far, "192.0.2.50:51821", udpAt(t, g4, "10.81.0.4:51821")) // a floating address has its own ports
	var port net.PacketConn
	if port, err = net.ListenPacket("udp4", "192.0.2.1:51821"); err != nil {
		t.Fatal(err)
	}
	defer port.Close()
	passes(t, far, "192.0.2.1:51821", port)
	passes(t, far2, "192.0.2.1:51821", port)
	passes(t, port, "192.0.2.77:51822", far2)
	counters := netnstest.Run(t, "nft", "list", "table", "inet", "probe")
	if !strings.Contains(counters, "dport 51821 ct state untracked counter packets 2 ") ||
		!strings.Contains(counters, "sport 51821 ct state untracked counter packets 1 ") {
		t.Errorf("packets of tunnels are tracked:\n%s", counters)
	}
}

// passes sends a datagram, and returns where it comes from.
func passes(t *testing.T, from net.PacketConn, to string, at net.PacketConn) netip.AddrPort {
	t.Helper()
	if _, err := from.WriteTo([]byte("x"), net.UDPAddrFromAddrPort(netip.MustParseAddrPort(to))); err != nil {
		t.Fatal(err)
	}
	at.SetReadDeadline(time.Now().Add(patience))
	_, who, err := at.ReadFrom(make([]byte, 9))
	if err != nil {
		t.Fatalf("from %s to %s: %v", from.LocalAddr(), to, err)
	}
	return who.(*net.UDPAddr).AddrPort()
}
