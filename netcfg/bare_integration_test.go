//go:build integration

package netcfg

import (
	"net"
	"net/netip"
	"regexp"
	"testing"
	"time"

	"seedbed"
	"seedbed/netcfg/netnstest"
)

// TestBare: in a network without a prefix, guests have the addresses that they choose or that one of them gives the others, also on
// other nodes. The node serves them metadata, and takes nothing else from them.
func TestBare(t *testing.T) {
	s := newSite(t, seedbed.NetworkIsolated)
	for _, l := range []*lists{&s.a, &s.b} {
		n := &l.Networks[0]
		n.Prefix, n.Gateway, n.DHCP, n.DNS = netip.Prefix{}, netip.Addr{}, false, nil
		n.Allow.DHCPServer = true
	}
	bare := func(n byte) Port {
		p := overlayPort(n)
		p.Addr = netip.Addr{}
		return p
	}
	far := func(n byte, node netip.Addr) Peer {
		p := overlayPeer(n, node)
		p.Addr = netip.Addr{}
		return p
	}
	s.a.Ports, s.b.Ports = []Port{bare(3), bare(4)}, []Port{bare(5)}
	s.a.Peers, s.b.Peers = []Peer{far(5, nodeB)}, []Peer{far(3, nodeA), far(4, nodeA)}
	s.apply(t)
	g3, g4, g5 := s.guest(t, 3, false), s.guest(t, 4, false), s.guest(t, 5, true) // with addresses that the nodes do not know
	ask(t, "a guest of this node", g3, "10.81.0.4:8080", "10.81.0.3 mark 0")
	ask(t, "a guest of the other node", g3, "10.81.0.5:8080", "10.81.0.3 mark 0")
	g4.Run(t, "ip", "addr", "add", "198.51.100.4/24", "dev", "eth0")
	g5.Run(t, "ip", "addr", "add", "198.51.100.5/24", "dev", "eth0")
	ask(t, "from another address", g5, "198.51.100.4:8080", "198.51.100.5 mark 0")

	serveOnBridge(t, "sb-wide", metadata)
	g3.Run(t, "ip", "route", "add", "169.254.169.254", "dev", "eth0")
	ask(t, "metadata", g3, metadata, "10.81.0.3 mark 103")
	before := echoesTaken(t)
	g3.Run(t, "ip", "route", "add", nodeA.String(), "dev", "eth0")
	g3.Run(t, "ip", "neigh", "replace", nodeA.String(), "lladdr", "52:54:00:b0:00:08", "dev", "eth0", "nud", "permanent")
	g3.Run(t, "sh", "-c", "ping -c2 -i0.2 -W1 "+nodeA.String()+" || true")
	if after := echoesTaken(t); after != before {
		t.Errorf("pings that the node took from a guest whose address it does not know: %s, and %s before", after, before)
	}

	var server, client net.PacketConn
	var err, clientErr error
	g5.Do(func() { server, err = net.ListenPacket("udp4", ":67") })
	g3.Do(func() { client, clientErr = net.ListenPacket("udp4", ":68") })
	if err != nil || clientErr != nil {
		t.Fatal(err, clientErr)
	}
	defer server.Close()
	defer client.Close()
	b := make([]byte, 100)
	if _, err := client.WriteTo([]byte("discover"), &net.UDPAddr{IP: net.IPv4(10, 81, 0, 255), Port: 67}); err != nil {
		t.Fatal(err)
	}
	server.SetReadDeadline(time.Now().Add(patience))
	_, from, err := server.ReadFrom(b)
	if err != nil {
		t.Fatalf("DHCP of a guest does not reach the guest that serves it on another node: %v", err)
	}
	if _, err := server.WriteTo([]byte("offer"), from); err != nil {
		t.Fatal(err)
	}
	client.SetReadDeadline(time.Now().Add(patience))
	if _, _, err := client.ReadFrom(b); err != nil {
		t.Fatalf("its answer: %v", err)
	}
}

// echoesTaken returns how many requests for an echo the node took so far.
func echoesTaken(t *testing.T) string {
	t.Helper()
	out := netnstest.Run(t, "sh", "-c", "nstat -asz IcmpInEchos 2>/dev/null || grep ^Icmp: /proc/thread-self/net/snmp")
	return regexp.MustCompile(`\s+`).ReplaceAllString(out, " ")
}
