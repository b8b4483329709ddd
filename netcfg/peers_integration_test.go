//go:build integration

package netcfg

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"seedbed"
	"seedbed/netcfg/netnstest"
)

var peerMAC = seedbed.MAC{2, 0, 0, 0, 0, 9}

// onBridge is a host on the network of br0, such as a guest of another node.
func onBridge(t *testing.T, link, mac, addr string) *netnstest.Namespace {
	t.Helper()
	n := netnstest.New(t)
	netnstest.Veth(t, link, n, mac)
	netnstest.Run(t, "ip", "link", "set", link, "master", "br0")
	n.Run(t, "ip", "addr", "add", addr+"/24", "dev", "eth0")
	serveIn(t, n, ":8080")
	return n
}

// TestPeers: rules that name a security group mean its members on other nodes as well, as they come and go.
func TestPeers(t *testing.T) {
	m := open(t)
	w := newWire(t, "a bridge")
	s := state0()
	w.bridged(&s, "10.79.0.0/24")
	s.Groups = []seedbed.SecurityGroup{group("aaa", "in tcp from group zzz"), group("db", "in tcp from group app", "out tcp to group app"),
		group("app", "out any")}
	s.Ports[2].Groups, s.Ports[3].Groups = []string{"aaa", "db"}, []string{"app"}
	far := Peer{MAC: peerMAC, Bridge: "sb-lan", Groups: []string{"aaa", "app"}}
	s.Peers = []Peer{far}
	apply(t, m, s, Options{})
	g3 := bridgedGuest(t, "sb3", "02:00:00:00:00:03", "10.79.0.3")
	peer := onBridge(t, "wire9", peerMAC.String(), "10.79.0.9")
	change := func(t *testing.T, d Diff) {
		t.Helper()
		if err := m.Change(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		for _, k := range []string{"tcp4", "tcp6"} {
			netnstest.Run(t, "nft", "flush", "set", "bridge", "seedbed", "flows-"+k)
		}
	}
	reached := func(t *testing.T, what string, want bool) {
		t.Helper()
		in, out := "10.79.0.9 mark 0", "10.79.0.3 mark 0"
		if !want {
			in, out = "", ""
		}
		ask(t, what+", to the guest", peer, "10.79.0.3:8080", in)
		ask(t, what+", from the guest", g3, "10.79.0.9:8080", out)
	}
	reached(t, "a member on another node", true)
	ask(t, "a host that is no guest", w.Namespace, "10.79.0.3:8080", "")
	change(t, Diff{GonePeers: []seedbed.MAC{peerMAC}})
	reached(t, "one that is gone", false)
	change(t, Diff{Peers: []Peer{{MAC: peerMAC, Bridge: "sb-lan", Groups: []string{"other"}}}})
	reached(t, "a member of another group", false)
	change(t, Diff{Peers: []Peer{far}})
	reached(t, "one that came back", true)
	change(t, Diff{Peers: []Peer{{MAC: peerMAC, Bridge: "seedbed0", Groups: []string{"app"}}}})
	reached(t, "one of a network that no other node has", false)

	s.Peers = []Peer{far, {MAC: s.Ports[3].MAC, Bridge: "sb-lan", Groups: []string{"app"}}, {MAC: peerMAC, Bridge: "sb-lan",
		Groups: []string{"db"}}, {Bridge: "sb-lan", MAC: seedbed.MAC{1}, Groups: []string{"app"}}, {MAC: seedbed.MAC{2}, Bridge: "sb-lan"}}
	apply(t, m, s, Options{})
	change(t, Diff{})
	reached(t, "the first of two with one address", true)
	imposter := onBridge(t, "wire4", s.Ports[3].MAC.String(), "10.79.0.44")
	ask(t, "a host with the address of a guest of this node", imposter, "10.79.0.3:8080", "")
	// Once that guest has gone to another node, it is a peer.
	change(t, Diff{Gone: []string{"sb4"}})
	ask(t, "a guest that went to another node", imposter, "10.79.0.3:8080", "10.79.0.44 mark 0")
	change(t, Diff{Ports: s.Ports[3:4]})
	ask(t, "a guest that came back", imposter, "10.79.0.3:8080", "")

	again := open(t)
	before, err := generation()
	if err != nil {
		t.Fatal(err)
	}
	apply(t, again, s, Options{})
	if after, err := generation(); err != nil || after != before {
		t.Errorf("applying the same peers again wrote rules: %v", err)
	}
	reached(t, "after a restart", true)
	netnstest.Run(t, "nft", "flush", "set", "bridge", "seedbed", "peers")
	if err := again.Verify(t.Context()); err != nil {
		t.Fatal(err)
	}
	reached(t, "after a repair", true)
}

// TestGroupsToServices: a guest whose groups let nothing out does not reach another one by the addresses of the node's
// services, whatever the destination of its frames, and still reaches these.
func TestGroupsToServices(t *testing.T) {
	m := open(t)
	s := state0()
	s.Networks[0].DNS = []netip.Addr{seedbed.ResolverAddr}
	s.Networks[0].NTP = []netip.Addr{seedbed.TimeAddr}
	s.Groups = []seedbed.SecurityGroup{group("none")}
	s.Ports[0].Groups, s.Ports[1].Groups = []string{"none"}, nil
	apply(t, m, s, Options{})
	serve(t, "169.254.169.254:80")
	serve(t, resolver)
	g1, g2 := guest(t, "sb1", mac1, ip1), guest(t, "sb2", mac2, ip2)
	for _, addr := range []string{"169.254.169.254", "169.254.169.253", "169.254.169.123"} {
		g1.Run(t, "ip", "route", "replace", addr, "dev", "eth0")
	}
	ask(t, "metadata", g1, metadata, ip1.String()+" mark 101")
	ask(t, "the resolver", g1, resolver, ip1.String()+" mark 101")

	g2.Run(t, "ip", "link", "set", "lo", "up")
	addrs := map[string]string{"169.254.169.254": "4", "169.254.169.253": "4", "169.254.169.123": "4",
		"fd00:ec2::254": "6"}
	for addr, family := range addrs {
		bits := map[string]string{"4": "/32", "6": "/128"}[family]
		g2.Run(t, "ip", "addr", "add", addr+bits, "dev", "lo")
		g1.Run(t, "ip", "neigh", "replace", addr, "lladdr", mac2.String(), "dev", "eth0")
		if family == "6" {
			g1.Run(t, "ip", "route", "replace", addr, "dev", "eth0")
		}
		for _, port := range []string{"9", "53", "80", "123"} {
			if reaches(t, g1, g2, "udp"+family, net.JoinHostPort(addr, port), 200*time.Millisecond) {
				t.Errorf("what was sent to %s, port %s, reached another guest", addr, port)
			}
		}
	}
	s.Ports[0].Groups = nil
	apply(t, m, s, Options{})
	for addr, family := range addrs {
		if !reaches(t, g1, g2, "udp"+family, net.JoinHostPort(addr, "9"), patience) {
			t.Errorf("what a guest that may send anything sends to %s does not reach another guest", addr)
		}
	}
}

// reaches reports whether a guest receives what another sends to an address that it has as well.
func reaches(t *testing.T, from, to *netnstest.Namespace, network, addr string, within time.Duration) bool {
	t.Helper()
	_, port, _ := net.SplitHostPort(addr)
	var l net.PacketConn
	var c net.Conn
	var err, dialErr error
	to.Do(func() { l, err = net.ListenPacket(network, net.JoinHostPort("", port)) })
	from.Do(func() { c, dialErr = net.Dial(network, addr) })
	if err != nil || dialErr != nil {
		t.Fatal(err, dialErr)
	}
	defer l.Close()
	defer c.Close()
	c.Write([]byte("x"))
	l.SetReadDeadline(time.Now().Add(within))
	for b := make([]byte, 64); ; { // frames of an overlay may come to the port as well
		n, _, err := l.ReadFrom(b)
		if err != nil || string(b[:n]) == "x" {
			return err == nil
		}
	}
}
