//go:build integration

package netcfg

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"

	"seedbed"
	"seedbed/internal/sample"
	"seedbed/netcfg/netnstest"
)

// A sight says who saw a frame of a guest.
type sight uint8

const (
	// neighbour: another guest of the bridge received it.
	neighbour sight = 1 << iota
	// bridged: it came out of the bridge on the node's side.
	bridged
	// node: the node's IPv4, IPv6 or ARP took it after all rules.
	node
	// answered: the node sent the guest a frame because of it.
	answered

	nobody sight = 0
)

func (s sight) String() string {
	var all []string
	for i, name := range []string{"neighbour", "bridge", "node", "answer"} {
		if s&(1<<i) != 0 {
			all = append(all, name)
		}
	}
	if len(all) == 0 {
		return "nobody"
	}
	return strings.Join(all, ", ")
}

// hostile is a guest that sends any frame, on a bridge with a neighbour. Neither sends anything of
// its own.
type hostile struct {
	t              *testing.T
	tx, rx, bridge int // sockets of the guest, its neighbour, and the node at the bridge
	sent, node     int // pings, and packets that the node took so far
}

func newHostile(t *testing.T) *hostile {
	t.Helper()
	m := open(t)
	apply(t, m, state0(), Options{})
	for _, family := range []string{"ip", "ip6", "arp"} { // fragments would be put together on their way
		if key := "/proc/sys/net/bridge/bridge-nf-call-" + family + "tables"; exists(key) {
			netnstest.Run(t, "sh", "-c", "echo 0 >"+key)
		}
	}
	silent := func(tap string, mac seedbed.MAC) *netnstest.Namespace {
		n := netnstest.New(t)
		n.Run(t, "sysctl", "-w", "net.ipv6.conf.default.disable_ipv6=1", "net.ipv6.conf.all.disable_ipv6=1")
		netnstest.Veth(t, tap, n, mac.String())
		n.Run(t, "ip", "link", "set", "eth0", "arp", "off")
		netnstest.Run(t, "ip", "link", "set", tap, "master", "seedbed0")
		return n
	}
	h := &hostile{t: t}
	silent("sb1", mac1).Do(func() { h.tx = rawSocket(t) })
	silent("sb2", mac2).Do(func() { h.rx = rawSocket(t) })
	h.bridge = rawSocketOn(t, "seedbed0")
	t.Cleanup(func() { unix.Close(h.tx); unix.Close(h.rx); unix.Close(h.bridge) })
	// The node knows the guest, which does not answer ARP, and has another address elsewhere.
	netnstest.Run(t, "ip", "neigh", "replace", ip1.String(), "lladdr", mac1.String(), "dev", "seedbed0", "nud", "permanent")
	netnstest.Run(t, "ip", "neigh", "replace", linkLocalOf(mac1).String(), "lladdr", mac1.String(), "dev", "seedbed0", "nud", "permanent")
	netnstest.Run(t, "ip", "addr", "add", "192.0.2.1/32", "dev", "lo")
	t.Cleanup(func() { netnstest.Run(t, "ip", "addr", "del", "192.0.2.1/32", "dev", "lo") })
	// What comes after all of Seedbed's rules is counted.
	for _, family := range []string{"inet", "arp"} {
		netnstest.Run(t, "nft", "add table "+family+" probe; add counter "+family+" probe taken; "+
			"add chain "+family+` probe input { type filter hook input priority 100; }; `+
			"add rule "+family+` probe input iifname { "sb1", "sb2", "seedbed0" } counter name taken`)
		t.Cleanup(func() { netnstest.Run(t, "nft", "delete", "table", family, "probe") })
	}
	fine := ether(broadcast, mac1, unix.ETH_P_IP, ip4(ip1, everybody, 17, 0, udp(1000, 2000, []byte("hello"))))
	if got := h.see(fine); got != neighbour|bridged {
		t.Fatalf("a frame to all was seen by %s", got)
	}
	return h
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// taken returns how many packets the node has taken.
func (h *hostile) taken() int {
	h.t.Helper()
	c, err := nftables.New()
	if err != nil {
		h.t.Fatal(err)
	}
	n := 0
	for _, family := range []nftables.TableFamily{nftables.TableFamilyINet, nftables.TableFamilyARP} {
		objs, err := c.GetObjects(&nftables.Table{Name: "probe", Family: family})
		if err != nil || len(objs) != 1 {
			h.t.Fatalf("%d counters, %v", len(objs), err)
		}
		n += int(objs[0].(*nftables.CounterObj).Packets)
	}
	return n
}

// ping is an echo request that every party sees: it is sent to all, and the node answers it.
func (h *hostile) ping() []byte {
	h.sent++
	text := fmt.Sprintf("ping %08d", h.sent)
	b := append([]byte{8, 0, 0, 0, 0x5e, 0xed, byte(h.sent >> 8), byte(h.sent)}, text...)
	var sum uint32
	for i := 0; i+1 < len(b); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	if len(b)%2 == 1 {
		sum += uint32(b[len(b)-1]) << 8
	}
	for sum>>16 != 0 {
		sum = sum>>16 + sum&0xffff
	}
	binary.BigEndian.PutUint16(b[2:], ^uint16(sum))
	return ether(broadcast, mac1, unix.ETH_P_IP, ip4(ip1, gw, 1, 0, b))
}

// see sends a frame and then a ping, and returns who saw the frame by the time when all saw the ping.
func (h *hostile) see(frame []byte) sight {
	h.t.Helper()
	seen, _ := h.seeAny([][]byte{frame})
	return seen
}

// seeAny is see for several frames: it returns who saw any of them, and the first that was received.
func (h *hostile) seeAny(frames [][]byte) (seen sight, which []byte) {
	h.t.Helper()
	if h.node == 0 {
		h.node = h.taken()
	}
	ping := h.ping()
	for _, f := range append(slices.Clone(frames), ping) {
		if _, err := unix.Write(h.tx, f); err != nil {
			h.t.Fatalf("send % x: %v", f, err)
		}
	}
	for at, fd := range map[sight]int{neighbour: h.rx, bridged: h.bridge} {
		for _, got := range h.until(fd, ping) {
			if isOneOf(frames, got) {
				seen |= at
				which = got
			}
		}
	}
	answer := ping[14+20+4:] // the echo reply has another type and checksum
	for _, got := range h.until(h.tx, answer) {
		if bytes.Equal(got[:6], mac1[:]) { // the node also sends to groups, when it likes
			seen |= answered
			which = got
		}
	}
	taken := h.taken()
	if taken > h.node+1 {
		seen |= node
	}
	h.node = taken
	return seen, which
}

// isOneOf reports whether got is one of the frames, with another destination or without its tags.
func isOneOf(frames [][]byte, got []byte) bool {
	return slices.ContainsFunc(frames, func(f []byte) bool {
		return bytes.Equal(f[6:12], got[6:12]) && bytes.Contains(f, got[14:])
	})
}

// until returns the frames that a socket receives before the one that contains last.
func (h *hostile) until(fd int, last []byte) [][]byte {
	h.t.Helper()
	var all [][]byte
	buf := make([]byte, 4096)
	for end := time.Now().Add(patience); time.Now().Before(end); {
		n, from, err := unix.Recvfrom(fd, buf, 0)
		if err != nil || n < 14 {
			continue
		}
		if l, ok := from.(*unix.SockaddrLinklayer); ok && l.Pkttype == unix.PACKET_OUTGOING {
			continue
		}
		if bytes.Contains(buf[:n], last) {
			return all
		}
		all = append(all, slices.Clone(buf[:n]))
	}
	h.t.Fatal("a ping did not arrive")
	return nil
}

// TestEveryEtherType: of all values of the type or length field, with nothing in the frame that a
// guest may send, none passes.
func TestEveryEtherType(t *testing.T) {
	h := newHostile(t)
	for _, to := range []seedbed.MAC{broadcast, mac2, network0().MAC} {
		for first := 0; first < 1<<16; first += 512 {
			var frames [][]byte
			for typ := first; typ < first+512; typ++ {
				frames = append(frames, ether(to, mac1, uint16(typ), make([]byte, 46)))
			}
			if seen, which := h.seeAny(frames); seen != nobody {
				t.Errorf("types %#04x to %#04x, to %s: seen by %s: % x", first, first+511, to, seen, which)
			}
		}
	}
}

// TestHostileFrames sends each frame of the table and compares who saw it.
func TestHostileFrames(t *testing.T) {
	h := newHostile(t)
	var table strings.Builder
	for _, class := range hostileFrames() {
		fmt.Fprintf(&table, "\n%s\n", class.name)
		for _, f := range class.frames {
			got := h.see(f.frame)
			fmt.Fprintf(&table, "  %-60s %s\n", f.name, got)
			if got != f.want {
				t.Errorf("%s: %s: seen by %s, want %s", class.name, f.name, got, f.want)
			}
		}
	}
	t.Log(table.String())
}

// random returns a frame of guest 1 that breaks one of its bounds in a random way: the source of the frame, the source of its IPv4 or IPv6
// packet, the sender of its ARP packet, or its type.
func random(rng *rand.Rand) []byte {
	some := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		return b
	}
	to := []seedbed.MAC{broadcast, mac2, network0().MAC}[rng.IntN(3)]
	to4 := []netip.Addr{everybody, ip2, gw}[rng.IntN(3)]
	// Neither is the guest's own address, nor the one of a host without an address.
	from4 := netip.AddrFrom4([4]byte{byte(1 + rng.IntN(9)), byte(rng.Uint32()), byte(rng.Uint32()), byte(rng.Uint32())})
	if rng.IntN(2) == 0 {
		from4 = []netip.Addr{ip2, gw, everybody}[rng.IntN(3)]
	}
	switch rng.IntN(5) {
	case 0:
		from := seedbed.MAC(some(6))
		from[0], from[5] = from[0]&^1|2, mac1[5]+1
		return ether(to, from, unix.ETH_P_IP, fineUDP)
	case 1:
		return ether(to, mac1, unix.ETH_P_IP, ip4(from4, to4, byte(rng.Uint32()), 0, some(8+rng.IntN(64))))
	case 2:
		return ether(to, mac1, unix.ETH_P_ARP, arp(uint16(1+rng.IntN(2)), mac1, from4, to4))
	case 3:
		from := netip.AddrFrom16([16]byte(append([]byte{0x20, 1}, some(14)...)))
		return ether(to, mac1, unix.ETH_P_IPV6, ip6From(from, linkLocalOf(mac2), byte(rng.Uint32()), some(8+rng.IntN(64))))
	}
	typ := uint16(rng.Uint32())
	if typ == unix.ETH_P_IP || typ == unix.ETH_P_IPV6 || typ == unix.ETH_P_ARP {
		typ++
	}
	return ether(to, mac1, typ, some(46+rng.IntN(64)))
}

// TestManyHostileFrames sends random frames of a guest that it may not send, a million of them with SEEDBED_LONG. Nobody sees one, none is
// answered, and what the guest may send between them arrives at its neighbour and is answered by the node (see seeAny).
func TestManyHostileFrames(t *testing.T) {
	h := newHostile(t)
	count, seed := 10_000, uint64(time.Now().UnixNano())
	if sample.Long() {
		count = 1_000_000
	}
	rng := rand.New(rand.NewPCG(seed, 0))
	for sent := 0; sent < count && !t.Failed(); {
		var frames [][]byte
		for range 512 {
			frames = append(frames, random(rng))
		}
		if seen, which := h.seeAny(frames); seen != nobody {
			t.Errorf("seed %d, frames %d to %d: seen by %s: % x", seed, sent, sent+len(frames), seen, which)
		}
		sent += len(frames)
	}
}
