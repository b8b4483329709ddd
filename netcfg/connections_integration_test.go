//go:build integration

package netcfg

import (
	"encoding/binary"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/nftables"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"seedbed"
	"seedbed/netcfg/netnstest"
)

// tracked returns how many connections with a text are in the node's table.
func tracked(t *testing.T, text string) int {
	t.Helper()
	return strings.Count(netnstest.Run(t, "cat", "/proc/net/nf_conntrack"), text)
}

// forgetConnections empties the node's table, which has those of tests before.
func forgetConnections(t *testing.T) {
	t.Helper()
	c, err := netlink.Dial(unix.NETLINK_NETFILTER, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const ctnetlink, remove = 1, 2 // NFNL_SUBSYS_CTNETLINK, IPCTNL_MSG_CT_DELETE
	_, err = c.Execute(netlink.Message{Header: netlink.Header{Type: ctnetlink<<8 | remove, Flags: netlink.Request | netlink.Acknowledge},
		Data: make([]byte, 4)}) // struct nfgenmsg
	if err != nil {
		t.Fatal(err)
	}
}

// TestConnectionsOfOneGuest: a guest has no more connections in the node's table than it may, through
// NAT and to the node together. Its neighbour's are not counted with it, and those that it has go on.
func TestConnectionsOfOneGuest(t *testing.T) {
	const most, many = 64, 1000
	m := open(t)
	s := state0()
	s.Networks[0].DNS = []netip.Addr{gw}
	apply(t, m, s, Options{Connections: most})
	g1, g2, w := guest(t, "sb1", mac1, ip1), guest(t, "sb2", mac2, ip2), world(t)
	serveIn(t, w, "198.51.100.2:8080")
	forgetConnections(t)
	outside := netip.MustParseAddr("198.51.100.2")
	toBridge := func(src, dst netip.Addr, mac seedbed.MAC, sport, dport uint16) []byte {
		return ether(network0().MAC, mac, unix.ETH_P_IP, ip4(src, dst, 17, 0, udp(sport, dport, []byte("hello"))))
	}
	ping := func(n int) []byte {
		b := []byte{8, 0, 0, 0, 0, 0, 0, 1}
		binary.BigEndian.PutUint16(b[4:], uint16(n))
		binary.BigEndian.PutUint16(b[2:], ^uint16(0x0801+n))
		return ether(network0().MAC, mac1, unix.ETH_P_IP, ip4(ip1, gw, 1, 0, b))
	}
	for name, frame := range map[string]func(int) []byte{
		"out":      func(n int) []byte { return toBridge(ip1, outside, mac1, uint16(20_000+n), 9) },
		"the DNS":  func(n int) []byte { return toBridge(ip1, gw, mac1, uint16(20_000+n), 53) },
		"the node": ping,
		"elsewhere": func(n int) []byte {
			return toBridge(ip1, netip.AddrFrom4([4]byte{198, 51, 100, byte(3 + n%200)}), mac1, 9, uint16(n))
		},
	} {
		refused := func() int {
			n := 0
			for _, chain := range []string{"forward", "input"} {
				n += dropped(t, nftables.TableFamilyINet, chain, "too many connections")
			}
			return n
		}
		before := refused()
		sendMany(t, g1, many, frame)
		until(t, name+": the frames have arrived", func() bool { return refused() >= before+many-2*most })
		if n := tracked(t, "src="+ip1.String()+" "); n > most {
			t.Errorf("%s: %d connections of one guest, want at most %d", name, n, most)
		}
	}
	if n := tracked(t, "src="+ip1.String()+" "); n < most/2 {
		t.Errorf("%d connections of the guest: nothing was tried", n)
	}
	ask(t, "the neighbour", g2, "198.51.100.2:8080", "198.51.100.1 mark 0")
	ask(t, "one more of the guest", g1, "198.51.100.2:8080", "")

	rules := ruleset(t)
	if err := m.Verify(t.Context()); err != nil {
		t.Fatal(err)
	}
	if apply(t, open(t), s, Options{Connections: most}); ruleset(t) != rules {
		t.Error("what the kernel counted of guests makes the rules others")
	}
	netnstest.Run(t, "nft", "flush", "set", "inet", "seedbed", "connections")
	ask(t, "the guest, when none is counted any more", g1, "198.51.100.2:8080", "198.51.100.1 mark 0")
}
