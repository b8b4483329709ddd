//go:build integration

package netcfg

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"seedbed"
	"seedbed/netcfg/netnstest"
)

// queued returns how many bytes the node's queue of IPv4 fragments holds.
func queued(t *testing.T) int {
	t.Helper()
	text := netnstest.Run(t, "cat", "/proc/net/sockstat")
	_, line, ok := strings.Cut(text, "FRAG: ")
	var packets, bytes int
	if _, err := fmt.Sscanf(line, "inuse %d memory %d", &packets, &bytes); !ok || err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return bytes
}

// queueSize is the default of net.ipv4.ipfrag_high_thresh, and of the queues of IPv6.
const queueSize = 4 << 20

// fragmentIDs numbers packets: the queue still has those of a test before.
var fragmentIDs atomic.Uint32

// unfinished is the first fragment of a packet, which is never finished, with so many bytes.
func unfinished(from, to netip.Addr, length int) []byte {
	b := ip4(from, to, unix.IPPROTO_UDP, 0x2000, udp(1000, 9, make([]byte, length)))
	return resum(altered(b, 4, be16(uint16(fragmentIDs.Add(1)))...))
}

// unfinished6 is unfinished over IPv6, to all nodes of the link.
func unfinished6(from netip.Addr) []byte {
	header := binary.BigEndian.AppendUint32([]byte{unix.IPPROTO_UDP, 0, 0, 1}, fragmentIDs.Add(1))
	return ip6From(from, netip.MustParseAddr("ff02::1"), unix.IPPROTO_FRAGMENT, append(header, udp(1000, 9, make([]byte, 1400))...))
}

// withOption sets a switch of the kernel for the rest of a test.
func withOption(t *testing.T, key, value string) {
	t.Helper()
	path := "/proc/sys/" + key
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(value), 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.WriteFile(path, before, 0) })
}

// TestFragmentsOfOneGuest: a guest that sends fragments of packets that it never finishes does not
// fill the queue in which the kernel puts together those of the node and of its other guests.
func TestFragmentsOfOneGuest(t *testing.T) {
	const many = 4000
	outside := netip.MustParseAddr("198.51.100.2")
	past := seedbed.MAC{1, 0x80, 0xc2, 0, 0, 0x0e}
	to := func(mac seedbed.MAC, addr netip.Addr, length int) func(int) []byte {
		return func(int) []byte { return ether(mac, mac1, unix.ETH_P_IP, unfinished(ip1, addr, length)) }
	}
	for name, tt := range map[string]struct {
		frame    func(int) []byte
		many     int
		bridgeNF string // whether br_netfilter looks at what guests of one bridge send each other
		most     int    // bytes of the queue that may be taken
	}{
		"to the node":       {to(network0().MAC, gw, 1472), many, "0", queueSize / 4},
		"to all":            {to(broadcast, everybody, 1472), many, "0", queueSize / 4},
		"out":               {to(network0().MAC, outside, 1472), many, "0", queueSize / 4},
		"short":             {to(network0().MAC, gw, 8), 2 * many, "0", queueSize / 4},
		"as long as may be": {to(network0().MAC, gw, 64_000), many / 20, "0", queueSize / 4},
		"later ones": {func(int) []byte {
			b := altered(unfinished(ip1, gw, 1472), 6, be16(0x2000|100)...)
			return ether(network0().MAC, mac1, unix.ETH_P_IP, resum(b))
		}, many, "0", queueSize / 4},
		"to the node's resolver": {func(int) []byte {
			b := altered(unfinished(ip1, seedbed.ResolverAddr, 1472), 22, be16(53)...)
			return ether(network0().MAC, mac1, unix.ETH_P_IP, b)
		}, many, "0", 0},
		"past the bridge":                        {to(past, gw, 1472), many, "0", 0},
		"to the neighbour":                       {to(mac2, ip2, 1472), many, "0", 0},
		"to the neighbour, through br_netfilter": {to(mac2, ip2, 1472), many, "1", queueSize / 4},
		"over IPv6": {func(int) []byte {
			return ether(seedbed.MAC{0x33, 0x33, 0, 0, 0, 1}, mac1, unix.ETH_P_IPV6, unfinished6(linkLocalOf(mac1)))
		}, many, "0", 0},
	} {
		t.Run(name, func(t *testing.T) {
			withOption(t, "net/bridge/bridge-nf-call-iptables", tt.bridgeNF)
			m := open(t)
			s := state0()
			s.Networks[0].DNS = []netip.Addr{seedbed.ResolverAddr}
			apply(t, m, s, Options{})
			g1, g2, w := guest(t, "sb1", mac1, ip1), guest(t, "sb2", mac2, ip2), world(t)
			netnstest.Run(t, "ip", "link", "set", "sb1", "mtu", "65535")
			g1.Run(t, "ip", "link", "set", "eth0", "mtu", "65535")
			netnstest.Run(t, "ip", "addr", "add", "2001:db8::1/64", "dev", "uplink", "nodad")
			w.Run(t, "ip", "addr", "add", "2001:db8::2/64", "dev", "eth0", "nodad")

			before := queued(t)
			sendMany(t, g1, tt.many, tt.frame)
			var fd int
			g1.Do(func() { fd = rawSocket(t) })
			t.Cleanup(func() { unix.Close(fd) })
			settle(t, fd, mac1)
			took := queued(t) - before
			t.Logf("%d bytes of the queue", took)
			if took > tt.most {
				t.Errorf("the guest takes %d bytes of the queue, want at most %d", took, tt.most)
			}
			whole(t, "the neighbour's", g2, w, "198.51.100.2:9000")
			whole(t, "over IPv6 from outside", w, nil, "[2001:db8::1]:9000")
		})
	}
}

// whole sends a datagram that its sender must cut into fragments, to an address of a namespace, or of
// the node. It must arrive.
func whole(t *testing.T, what string, from, at *netnstest.Namespace, addr string) {
	t.Helper()
	do := func(n *netnstest.Namespace, f func()) {
		if n == nil {
			f()
		} else {
			n.Do(f)
		}
	}
	var l net.PacketConn
	var err error
	do(at, func() { l, err = net.ListenPacket("udp", addr) })
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var c net.Conn
	do(from, func() { c, err = net.Dial("udp", addr) })
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write(make([]byte, 4000)); err != nil {
		t.Fatal(err)
	}
	l.SetReadDeadline(time.Now().Add(patience))
	if n, _, err := l.ReadFrom(make([]byte, 5000)); err != nil || n != 4000 {
		t.Errorf("%s datagram in fragments: %d bytes, %v", what, n, err)
	}
}

// TestFragmentsWithoutABound: the bound can be raised and taken away, and what comes from another
// station of the bridge than a guest has none.
func TestFragmentsWithoutABound(t *testing.T) {
	const many = 100 // more than come at once with DefaultFragments
	lan := seedbed.MAC{2, 0, 0, 0, 9, 9}
	for name, tt := range map[string]struct {
		rate int
		tap  string
		mac  seedbed.MAC
	}{
		"none":                               {NoBound, "sb1", mac1},
		"raised":                             {many, "sb1", mac1},
		"of no guest":                        {0, "lan0", lan},
		"of a guest's MAC on another bridge": {0, "lan0", mac2},
	} {
		t.Run(name, func(t *testing.T) {
			m := open(t)
			s := state0()
			if tt.mac == mac2 {
				s.Networks = append(s.Networks, lab())
				s.Ports[1].Bridge, s.Ports[1].Addr = "seedbed1", netip.MustParseAddr("10.78.0.12")
			}
			apply(t, m, s, Options{Fragments: tt.rate})
			from := guest(t, tt.tap, tt.mac, ip1)
			before := queued(t)
			sendMany(t, from, many, func(int) []byte {
				return ether(network0().MAC, tt.mac, unix.ETH_P_IP, unfinished(ip1, gw, 1472))
			})
			until(t, "all are in the queue", func() bool { return queued(t) >= before+many*1500 })
		})
	}
}
