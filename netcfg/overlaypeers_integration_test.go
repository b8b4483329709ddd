//go:build integration

package netcfg

import (
	"encoding/binary"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"

	"seedbed"
	"seedbed/netcfg/netnstest"
)

// joinedSite is a site with three overlays, of which the first two are peers: wide and deep, and third. Guests 3, 6 and 8 are on
// this node, one in each, and 4, 5 and 7 on the other.
type joinedSite struct {
	*site
	guests map[byte]*netnstest.Namespace
	six    map[byte]string // where they listen over IPv6
}

// placed are the guests of a joinedSite: their overlays, and whether they are on the other node.
var placed = map[byte]struct {
	overlay int
	far     bool
}{3: {0, false}, 4: {0, true}, 5: {1, true}, 6: {1, false}, 7: {2, true}, 8: {2, false}}

// joinedNet is the i-th overlay.
func joinedNet(i int, kind seedbed.NetworkKind) seedbed.Network {
	n := overlayNet(kind)
	n.Name, n.Bridge = []string{"wide", "deep", "third"}[i], []string{"sb-wide", "sb-deep", "sb-third"}[i]
	n.VNI, n.MAC[5] = testVNI+i, n.MAC[5]+byte(i)
	n.Prefix = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 81 + byte(i), 0, 0}), 24)
	n.Gateway = n.Prefix.Addr().Next()
	n.Prefix6 = netip.PrefixFrom(netip.AddrFrom16([16]byte{0xfd, 0x12, 0x34, 0x56, 0x78, 0x9a, 0, byte(i + 1)}), 64)
	return n
}

func joinedAddr(n byte) netip.Addr {
	return netip.AddrFrom4([4]byte{10, 81 + byte(placed[n].overlay), 0, n})
}

func newJoinedSite(t *testing.T, kinds [2]seedbed.NetworkKind) *joinedSite {
	t.Helper()
	s := &joinedSite{site: newSite(t, kinds[0]), guests: map[byte]*netnstest.Namespace{}, six: map[byte]string{}}
	s.a.Networks, s.b.Networks = nil, nil
	for i, kind := range append(kinds[:], seedbed.NetworkIsolated) {
		s.a.Networks, s.b.Networks = append(s.a.Networks, joinedNet(i, kind)), append(s.b.Networks, joinedNet(i, kind))
	}
	for n := byte(3); n <= 8; n++ {
		at := placed[n]
		p := overlayPort(n)
		p.Addr, p.Bridge = joinedAddr(n), s.a.Networks[at.overlay].Bridge
		peer := Peer{MAC: p.MAC, Addr: p.Addr, Bridge: p.Bridge, Node: nodeA}
		if at.far {
			peer.Node = nodeB
			s.b.Ports, s.a.Peers = append(s.b.Ports, p), append(s.a.Peers, peer)
		} else {
			s.a.Ports, s.b.Peers = append(s.a.Ports, p), append(s.b.Peers, peer)
		}
	}
	return s
}

// peer makes the first two overlays peers on both nodes, or ends that.
func (s *joinedSite) peer(t *testing.T, on bool) {
	t.Helper()
	peerNetworks(&s.a, 0, 1, on)
	peerNetworks(&s.b, 0, 1, on)
	s.apply(t)
}

// boot makes the guests.
func (s *joinedSite) boot(t *testing.T, all ...byte) {
	t.Helper()
	for _, n := range all {
		at := placed[n]
		network := s.a.Networks[at.overlay]
		p := overlayPort(n)
		p.Addr, p.Bridge = joinedAddr(n), network.Bridge
		g := s.guestAt(t, p, network.Gateway, at.far)
		s.guests[n], s.six[n] = g, listen6(t, g, network.Addr6(p.MAC))
	}
}

// asks asks one guest of another, by both versions of IP.
func (s *joinedSite) asks(t *testing.T, when string, from, to byte, want bool) {
	t.Helper()
	v4, v6 := "", ""
	if want {
		host, _, _ := strings.Cut(strings.TrimPrefix(s.six[from], "["), "]")
		v4, v6 = joinedAddr(from).String()+" mark 0", host+" mark 0"
	}
	name := when + ": guest " + string('0'+rune(from)) + " of guest " + string('0'+rune(to))
	ask(t, name, s.guests[from], joinedAddr(to).String()+":8080", v4)
	ask(t, name+" over IPv6", s.guests[from], s.six[to], v6)
}

// TestOverlayPeers: guests of two overlays that are peers reach each other on all nodes, by IPv4 and IPv6, and those of a third
// reach nobody. It ends with the peering.
func TestOverlayPeers(t *testing.T) {
	nat, isolated := seedbed.NetworkNAT, seedbed.NetworkIsolated
	for name, tt := range map[string]struct {
		kinds    [2]seedbed.NetworkKind
		bridgeNF string
	}{
		"nat":                                 {[2]seedbed.NetworkKind{nat, nat}, "0"},
		"isolated":                            {[2]seedbed.NetworkKind{isolated, isolated}, "0"},
		"NAT and isolated, with br_netfilter": {[2]seedbed.NetworkKind{nat, isolated}, "1"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newJoinedSite(t, tt.kinds)
			for _, key := range []string{"net/bridge/bridge-nf-call-iptables", "net/bridge/bridge-nf-call-ip6tables"} {
				if tt.bridgeNF == "1" || exists("/proc/sys/"+key) {
					withOption(t, key, tt.bridgeNF)
					s.far.Do(func() { withOption(t, key, tt.bridgeNF) })
				}
			}
			s.apply(t)
			s.boot(t, 3, 4, 5, 6, 7)
			s.asks(t, "before", 3, 5, false)
			s.asks(t, "before", 5, 3, false)
			s.peer(t, true)
			for _, way := range [][2]byte{{3, 5}, {5, 3}, {6, 4}, {4, 6}, {3, 6}, {5, 4}, {3, 4}} {
				s.asks(t, "peers", way[0], way[1], true)
			}
			for _, way := range [][2]byte{{3, 7}, {7, 3}, {7, 5}, {6, 7}} {
				s.asks(t, "a third overlay", way[0], way[1], false)
			}
			if !answers(true, s.guests[3], joinedAddr(5).String(), "-s", "1422", "-M", "do") ||
				!answers(true, s.guests[5], joinedAddr(3).String(), "-s", "3000") {
				t.Error("guests of peers on other nodes do not answer a ping")
			}
			tracked := regexp.MustCompile(`src=10\.(81\.0\.\d+ dst=10\.82|82\.0\.\d+ dst=10\.81)\.`)
			if out := netnstest.Run(t, "sh", "-c", "cat /proc/net/nf_conntrack 2>/dev/null || true"); tracked.MatchString(out) {
				t.Errorf("connections of peers are tracked:\n%s", out)
			}
			s.noRequests(t)

			// A guest moves to the other node.
			netnstest.Run(t, "ip", "link", "del", "sb3")
			moved := s.a.Ports[0]
			s.a.Ports, s.b.Ports = s.a.Ports[1:], append(s.b.Ports, moved)
			s.a.Peers = append(s.a.Peers, Peer{MAC: moved.MAC, Addr: moved.Addr, Bridge: moved.Bridge, Node: nodeB})
			s.b.Peers = s.b.Peers[1:]
			s.apply(t)
			s.guests[3] = s.guestAt(t, moved, overlayGW, true)
			s.six[3] = listen6(t, s.guests[3], s.a.Networks[0].Addr6(moved.MAC))
			s.asks(t, "after it moved", 3, 6, true)
			s.asks(t, "after it moved", 6, 3, true)

			s.peer(t, false)
			for _, way := range [][2]byte{{3, 6}, {6, 3}, {4, 6}} {
				s.asks(t, "after", way[0], way[1], false)
			}
			s.asks(t, "within the overlay, after", 5, 6, true)
		})
	}
}

// noRequests shows that what a node asks and says for itself in the overlay of a peer does not cross.
func (s *joinedSite) noRequests(t *testing.T) {
	t.Helper()
	var fd int
	s.far.Do(func() { fd = rawSocketOn(t, "eth0") })
	defer unix.Close(fd)
	gateway := s.a.Networks[1].MAC
	b := make([]byte, 2000)
	crossed := map[uint16]int{}
	var sent time.Time
	began := time.Now()
	for time.Since(began) < time.Second || crossed[unix.ETH_P_IP] == 0 && time.Since(began) < patience {
		if time.Since(sent) > 200*time.Millisecond {
			sent = time.Now()
			s.guests[3].Do(func() { sendTo("10.82.0.77:9"); sendTo("10.82.0.5:9") })
			netnstest.Try("ping", "-c1", "-W0.01", "-I", "sb-deep", "10.82.0.5")
			netnstest.Try("ping", "-c1", "-W0.01", "-b", "-I", "sb-deep", "10.82.0.255")
		}
		const inner = 14 + 20 + 8 + 8
		n, _, err := unix.Recvfrom(fd, b, 0)
		if err != nil || n < inner+34 || seedbed.MAC(b[inner+6:inner+12]) != gateway {
			continue
		}
		typ := binary.BigEndian.Uint16(b[inner+12:])
		if crossed[typ]++; typ != unix.ETH_P_IP || b[inner]&1 != 0 || [4]byte(b[inner+14+12:]) != joinedAddr(3).As4() {
			t.Errorf("a frame of the gateway crosses: % x", b[inner:n])
		}
	}
	if crossed[unix.ETH_P_IP] == 0 {
		t.Error("nothing of the gateway crosses: the test proves nothing")
	}
}

// TestOverlayPeersStrangers: what comes by an overlay with the MAC of its gateway is from a node, and from a known guest of a peer.
// No guest sends it.
func TestOverlayPeersStrangers(t *testing.T) {
	s := newJoinedSite(t, [2]seedbed.NetworkKind{seedbed.NetworkNAT, seedbed.NetworkNAT})
	s.b.Networks, s.b.Ports, s.b.Peers = nil, nil, nil
	s.a.Groups = []seedbed.SecurityGroup{group("web", "in udp 9000 from 10.82.0.5/32"), group("named", "in udp from group deep"),
		group("deep")}
	peerNetworks(&s.a, 0, 1, true)
	further := netip.MustParseAddr("10.82.0.55")
	five := slices.IndexFunc(s.a.Peers, func(p Peer) bool { return p.Addr == joinedAddr(5) })
	s.a.Peers[five].Secondary, s.a.Peers[five].Groups = []netip.Addr{further}, []string{"deep"}
	apply(t, s.here, s.a, Options{})
	s.boot(t, 3, 6)
	s.far.Run(t, "ip", "addr", "add", "192.0.2.66/24", "dev", "eth0")
	g3, wide, deep := s.guests[3], s.a.Networks[0], s.a.Networks[1]
	send := func(from netip.Addr, vni int, frame []byte) func() {
		return func() {
			var err error
			s.far.Do(func() { err = sendVXLAN(from, nodeA, vni, frame) })
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	good := udpFrame(wide.MAC, overlayMAC(3), joinedAddr(5), joinedAddr(3))
	of := func(a netip.Addr) []byte { return udpFrame(wide.MAC, overlayMAC(3), a, joinedAddr(3)) }
	for what, frame := range map[string][]byte{"a guest of a peer": good, "its secondary address": of(further)} {
		if !receives(t, g3, patience, send(nodeB, testVNI, frame)) {
			t.Fatalf("a frame of %s does not arrive", what)
		}
	}
	short := 300 * time.Millisecond
	for what, send := range map[string]func(){
		"of a host that is not a node":         send(netip.MustParseAddr("192.0.2.66"), testVNI, good),
		"of the gateway of the peer":           send(nodeB, testVNI, udpFrame(deep.MAC, overlayMAC(3), joinedAddr(5), joinedAddr(3))),
		"of an unknown MAC":                    send(nodeB, testVNI, udpFrame(overlayMAC(9), overlayMAC(3), joinedAddr(5), joinedAddr(3))),
		"from an address that no guest has":    send(nodeB, testVNI, of(netip.MustParseAddr("10.82.0.99"))),
		"from a guest of this node":            send(nodeB, testVNI, of(joinedAddr(6))),
		"from a guest of the network itself":   send(nodeB, testVNI, of(joinedAddr(4))),
		"from a guest of a third overlay":      send(nodeB, testVNI, of(joinedAddr(7))),
		"from the gateway":                     send(nodeB, testVNI, of(wide.Gateway)),
		"from the gateway of the peer":         send(nodeB, testVNI, of(deep.Gateway)),
		"from the metadata address":            send(nodeB, testVNI, of(seedbed.MetadataAddr)),
		"from outside":                         send(nodeB, testVNI, of(netip.MustParseAddr("198.51.100.2"))),
		"to all":                               send(nodeB, testVNI, udpFrame(wide.MAC, broadcast, joinedAddr(5), joinedAddr(3))),
		"in the overlay of the sender's guest": send(nodeB, testVNI+1, good),
	} {
		if receives(t, g3, short, send) {
			t.Errorf("a frame %s arrives", what)
		}
	}
	raw := func(n byte, frame []byte) func() {
		return func() {
			s.guests[n].Do(func() {
				fd := rawSocket(t)
				defer unix.Close(fd)
				unix.Write(fd, frame)
			})
		}
	}
	// From a guest of this node, whose port passes its own.
	if !receives(t, s.guests[6], patience, raw(3, udpFrame(overlayMAC(3), wide.MAC, joinedAddr(3), joinedAddr(6)))) {
		t.Error("a frame of a guest to a peer does not arrive")
	}
	for what, frame := range map[string][]byte{
		"as the gateway": udpFrame(deep.MAC, overlayMAC(6), joinedAddr(4), joinedAddr(6)),
		"from the address of a guest of the peer": udpFrame(overlayMAC(3), wide.MAC, joinedAddr(5), joinedAddr(6)),
		"from the address of a neighbour":         udpFrame(overlayMAC(3), wide.MAC, joinedAddr(4), joinedAddr(6)),
	} {
		if receives(t, s.guests[6], short, raw(3, frame)) {
			t.Errorf("a frame of a guest %s arrives", what)
		}
	}

	// Security groups decide, by prefix and not by the groups of the peer. What one allowed goes on, so that one is the last.
	for _, name := range []string{"deep", "named", "web"} {
		s.a.Ports[0].Groups = []string{name}
		apply(t, s.here, s.a, Options{})
		within, want := short, name == "web"
		if want {
			within = patience
		}
		if receives(t, g3, within, send(nodeB, testVNI, good)) != want || receives(t, g3, short, send(nodeB, testVNI, of(further))) {
			t.Errorf("in the group %s, a frame arrives: want %t, and none of another address", name, want)
		}
	}
	s.a.Ports[0].Groups = nil
	apply(t, s.here, s.a, Options{})

	// The node learns of guests, and forgets them.
	gone := Diff{GonePeers: []seedbed.MAC{overlayMAC(5)}}
	if err := s.here.Change(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	if receives(t, g3, short, send(nodeB, testVNI, good)) {
		t.Error("a frame of a guest that is gone arrives")
	}
	if err := s.here.Change(t.Context(), Diff{Peers: s.a.Peers[five : five+1]}); err != nil {
		t.Fatal(err)
	}
	if !receives(t, g3, patience, send(nodeB, testVNI, good)) {
		t.Error("a frame of a guest that came back does not arrive")
	}
	peerNetworks(&s.a, 0, 1, false)
	apply(t, s.here, s.a, Options{})
	if receives(t, g3, short, send(nodeB, testVNI, good)) {
		t.Error("a frame arrives after the end of the peering")
	}

	// Of an overlay and a network that ends at its node, nothing crosses.
	s.a.Networks[1].VNI = 0
	peerNetworks(&s.a, 0, 1, true)
	netnstest.Run(t, "ip", "link", "del", "sb6")
	if err := s.here.Cleanup(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	apply(t, s.here, s.a, Options{})
	netnstest.Run(t, "ip", "link", "set", "sb3", "master", "sb-wide")
	if !receives(t, g3, patience, send(nodeB, testVNI, udpFrame(overlayMAC(4), overlayMAC(3), joinedAddr(4), joinedAddr(3)))) {
		t.Error("a frame within the overlay does not arrive: the test proves nothing")
	}
	if receives(t, g3, short, send(nodeB, testVNI, good)) {
		t.Error("a frame of a network that is not an overlay arrives")
	}
}

// TestPeersOutside: a host outside does not pass for a guest of a peer towards guests of a routed overlay, be they on this node or
// on another.
func TestPeersOutside(t *testing.T) {
	s := newJoinedSite(t, [2]seedbed.NetworkKind{seedbed.NetworkNAT, seedbed.NetworkRouted})
	s.apply(t)
	s.peer(t, true)
	s.boot(t, 3, 4, 5, 6)
	for _, key := range []string{"all", "wire"} {
		netnstest.Run(t, "sysctl", "-w", "net.ipv4.conf."+key+".rp_filter=0")
	}
	for _, way := range [][2]byte{{3, 5}, {5, 3}, {6, 4}, {4, 6}, {3, 6}, {4, 5}} {
		s.asks(t, "peers", way[0], way[1], true)
	}
	wire, err := net.InterfaceByName("wire")
	if err != nil {
		t.Fatal(err)
	}
	send := func(typ uint16, packet []byte) func() {
		frame := ether(seedbed.MAC(wire.HardwareAddr), seedbed.MAC{2, 0, 0, 0, 9, 9}, typ, packet)
		return func() {
			s.far.Do(func() {
				fd := rawSocketOn(t, "eth0")
				defer unix.Close(fd)
				if _, err := unix.Write(fd, frame); err != nil {
					t.Error(err)
				}
			})
		}
	}
	from := func(a netip.Addr, to byte) func() {
		return send(unix.ETH_P_IP, ip4(a, joinedAddr(to), unix.IPPROTO_UDP, 0, udp(9000, 9000, []byte("x"))))
	}
	if !receives(t, s.guests[6], patience, from(netip.MustParseAddr("198.51.100.9"), 6)) {
		t.Fatal("what comes from outside does not arrive: the test proves nothing")
	}
	for _, source := range []byte{3, 4} {
		for _, to := range []byte{5, 6} {
			if receives(t, s.guests[to], 300*time.Millisecond, from(joinedAddr(source), to)) {
				t.Errorf("what a host outside sends with the address of guest %d arrives at guest %d", source, to)
			}
		}
	}
	v6 := ip6(unix.IPPROTO_UDP, udp(9000, 9000, []byte("x")))
	copy(v6[8:], s.a.Networks[0].Addr6(overlayMAC(4)).AsSlice())
	copy(v6[24:], s.a.Networks[1].Addr6(overlayMAC(6)).AsSlice())
	const what = "from outside with an IPv6 address of a peer"
	until(t, "the node drops it over IPv6", func() bool {
		send(unix.ETH_P_IPV6, v6)()
		return dropped(t, nftables.TableFamilyINet, "forward", what) > 0
	})
}
