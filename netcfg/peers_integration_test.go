//go:build integration

package netcfg

import (
	"testing"

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
	s.Groups = []seedbed.SecurityGroup{group("db", "in tcp from group app", "out tcp to group app"), group("app", "out any")}
	s.Ports[2].Groups, s.Ports[3].Groups = []string{"db"}, []string{"app"}
	far := Peer{MAC: peerMAC, Bridge: "sb-lan", Groups: []string{"app"}}
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
