//go:build integration

package netcfg

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"seedbed"
	"seedbed/netcfg/netnstest"
)

// TestTapThatIsNotListed: a guest's interface is closed before its port is in the state and after
// it was taken out, and a foreign port of the bridge is not.
func TestTapThatIsNotListed(t *testing.T) {
	m := open(t)
	s := state0()
	apply(t, m, s, Options{})
	g1, g2 := guest(t, "sb1", mac1, ip1), guest(t, "sb2", mac2, ip2)
	mac3, ip3 := seedbed.MAC{0x52, 0x54, 0, 0, 0, 3}, netip.MustParseAddr("10.77.0.13")
	mac4, ip4 := seedbed.MAC{0x52, 0x54, 0, 0, 0, 4}, netip.MustParseAddr("10.77.0.14")
	mac5, ip5 := seedbed.MAC{0x52, 0x54, 0, 0, 0, 5}, netip.MustParseAddr("10.77.0.15")
	g3, stray, lettered := guest(t, "sb3000", mac3, ip3), guest(t, "stray0", mac4, ip4), guest(t, "sblab1", mac5, ip5)
	serve(t, metadata)
	g2.Do(func() { serve(t, ip2.String()+":8000") })
	peer := ip2.String() + ":8000"

	ask(t, "a listed guest", g1, metadata, "10.77.0.11 mark 101")
	ask(t, "a listed guest to its peer", g1, peer, "10.77.0.11 mark 0")
	ask(t, "a guest that is not listed yet", g3, metadata, "")
	ask(t, "a guest that is not listed yet to its peer", g3, peer, "")
	ask(t, "a foreign port", stray, metadata, "10.77.0.14 mark 0")
	ask(t, "a foreign port to a guest", stray, peer, "10.77.0.14 mark 0")
	ask(t, "a foreign port whose name begins alike", lettered, metadata, "10.77.0.15 mark 0")

	s.Ports = append(s.Ports[1:], Port{Tap: "sb3000", MAC: mac3, Addr: ip3, Mark: 103, Bridge: "seedbed0"})
	apply(t, m, s, Options{})
	ask(t, "the new guest, once listed", g3, metadata, "10.77.0.13 mark 103")
	ask(t, "the guest that was taken out", g1, metadata, "")
	ask(t, "the guest that was taken out to its peer", g1, peer, "")
}

// TestTapThatIsNotListedPastTheBridge: frames to a link-local group address do not come by
// prerouting.
func TestTapThatIsNotListedPastTheBridge(t *testing.T) {
	m := open(t)
	apply(t, m, lists{Networks: []seedbed.Network{network0()}}, Options{})
	g := guest(t, "sb1", mac1, ip1)
	netnstest.Run(t, "sysctl", "-w", "net.ipv4.conf.sb1.rp_filter=0")
	var tx int
	g.Do(func() { tx = rawSocket(t) })
	t.Cleanup(func() { unix.Close(tx) })
	host, err := net.ListenPacket("udp4", ":5353")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { host.Close() })
	send := func(last byte, text string) {
		t.Helper()
		group := seedbed.MAC{1, 0x80, 0xc2, 0, 0, last}
		if _, err := unix.Write(tx, ether(group, mac1, unix.ETH_P_IP, ip4(ip1, gw, 17, 0, udp(1000, 5353, []byte(text))))); err != nil {
			t.Fatal(err)
		}
	}
	for last := range byte(16) {
		send(last, fmt.Sprintf("past the bridge to :%02x", last))
	}
	netnstest.Run(t, "nft", "delete", "table", "inet", "seedbed")
	send(2, "past the bridge's own rules")
	netnstest.Run(t, "nft", "delete", "table", "bridge", "seedbed")
	send(2, "without rules")
	host.SetReadDeadline(time.Now().Add(patience))
	buf := make([]byte, 100)
	n, _, err := host.ReadFrom(buf)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(buf[:n]); got != "without rules" {
		t.Errorf("the host received %q", got)
	}
}

// TestBridgeNamedLikeATap: what the host itself sends comes from the bridge, not from a port,
// whatever its name is.
func TestBridgeNamedLikeATap(t *testing.T) {
	m := open(t)
	s := state0()
	s.Networks[0].Bridge, s.Ports[0].Bridge, s.Ports[1].Bridge = "sb900", "sb900", "sb900"
	apply(t, m, s, Options{})
	g := netnstest.New(t)
	netnstest.Veth(t, "sb1", g, mac1.String())
	netnstest.Run(t, "ip", "link", "set", "sb1", "master", "sb900")
	g.Run(t, "ip", "addr", "add", ip1.String()+"/24", "dev", "eth0")
	g.Run(t, "ip", "route", "add", "default", "via", gw.String())
	serve(t, metadata)
	ask(t, "guest to host", g, metadata, "10.77.0.11 mark 101")
	g.Do(func() { serve(t, ip1.String()+":8000") })
	askHere(t, "host to guest", ip1.String()+":8000", gw.String()+" mark 0")
	if out := netnstest.Run(t, "nft", "list", "chain", "bridge", "seedbed", "pre"); !strings.Contains(out,
		"a guest's port that is not listed") {
		t.Errorf("the rule is not listed:\n%s", out)
	} else {
		t.Log(out)
	}
}
