//go:build integration

package netcfg

import (
	"encoding/binary"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"seedbed"
	"seedbed/netcfg/netnstest"
)

// dropped returns how many packets a rule has dropped.
func dropped(t *testing.T, family nftables.TableFamily, chain, what string) int {
	t.Helper()
	c, err := nftables.New()
	if err != nil {
		t.Fatal(err)
	}
	rules, err := c.GetRules(&nftables.Table{Name: tableName, Family: family}, &nftables.Chain{Name: chain})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rules {
		if !strings.HasPrefix(comment(r), what+" [") {
			continue
		}
		for _, e := range r.Exprs {
			if n, ok := e.(*expr.Counter); ok {
				return int(n.Packets)
			}
		}
	}
	t.Fatalf("no rule %q in chain %s", what, chain)
	return 0
}

// sendMany sends frames from a guest's eth0 and returns how long that took.
func sendMany(t *testing.T, from *netnstest.Namespace, n int, frame func(int) []byte) time.Duration {
	t.Helper()
	var fd int
	from.Do(func() { fd = rawSocket(t) })
	defer unix.Close(fd)
	began := time.Now()
	for i := range n {
		if _, err := unix.Write(fd, frame(i)); err != nil {
			t.Fatal(err)
		}
	}
	return time.Since(began)
}

// TestRateOfDHCP: a guest that sends many requests does not keep those of its neighbours away.
func TestRateOfDHCP(t *testing.T) {
	const many = 2000
	m := open(t)
	apply(t, m, state0(), Options{})
	g1, g2 := guest(t, "sb1", mac1, ip1), guest(t, "sb2", mac2, ip2)
	ask := func(n int) []byte {
		r := dhcpRequest(mac1)
		binary.BigEndian.PutUint32(r[4:], uint32(n))
		src := zeroAddr
		if n%2 == 1 {
			src = ip1
		}
		return ether(broadcast, mac1, unix.ETH_P_IP, ip4(src, everybody, 17, 0, udp(68, 67, r)))
	}
	took := sendMany(t, g1, many, ask)
	atMost := dhcpBurst + int(dhcpRate*(took.Seconds()+1))
	until(t, "the requests have arrived", func() bool {
		return dropped(t, nftables.TableFamilyBridge, "ip4-dhcp", "too many DHCP requests") >= many-atMost
	})

	// The neighbour's request arrives.
	var rx int
	g1.Do(func() { rx = rawSocket(t) })
	t.Cleanup(func() { unix.Close(rx) })
	want := ether(broadcast, mac2, unix.ETH_P_IP, ip4(zeroAddr, everybody, 17, 0, udp(68, 67, dhcpRequest(mac2))))
	mark := ether(broadcast, mac2, unix.ETH_P_IP, ip4(ip2, everybody, 17, 0, udp(1000, 2001, []byte("after it"))))
	sendMany(t, g2, 2, func(n int) []byte { return [][]byte{want, mark}[n] })
	if !receivedBefore(t, rx, want, mark) {
		t.Error("the neighbour's request was lost")
	}
}

// TestRateOfConnections: a guest that begins many connections to the metadata service does not fill
// the queue in which its neighbours' wait, and is served again when it stops.
func TestRateOfConnections(t *testing.T) {
	const many = 40_000
	m := open(t)
	apply(t, m, state0(), Options{})
	g1, g2 := guest6(t, "sb1", mac1, ip1), guest6(t, "sb2", mac2, ip2)
	serve(t, metadata)
	serve6(t, "seedbed0", 80)
	call := func(n int) []byte {
		b := make([]byte, 20)
		binary.BigEndian.PutUint16(b, uint16(10_000+n%50_000))
		b[3], b[12], b[13], b[14] = 80, 5<<4, 2, 16
		return ether(network0().MAC, mac1, unix.ETH_P_IP, ip4(ip1, seedbed.MetadataAddr, unix.IPPROTO_TCP, 0, b))
	}
	call6 := func(n int) []byte { return syn(linkLocalOf(mac1), mac1, uint16(10_000+n%50_000)) }
	for name, tt := range map[string]struct {
		chain, rule string
		frame       func(int) []byte
		addr        string
		said        func(int) string
	}{
		"IPv4": {"ip4-services", "too many connections to metadata", call, metadata,
			func(n int) string { return []netip.Addr{ip1, ip2}[n].String() + " mark " + strconv.Itoa(101+n) }},
		"IPv6": {"ip6", "too many connections to metadata at " + seedbed.MetadataAddr6LinkLocal.String(), call6, metadata6Link,
			func(n int) string { return []string{said(mac1, 101), said(mac2, 102)}[n] }},
	} {
		took := sendMany(t, g1, many, tt.frame)
		atMost := callBurst + int(callRate*(took.Seconds()+1))
		until(t, name+": the connections have arrived", func() bool {
			return dropped(t, nftables.TableFamilyBridge, tt.chain, tt.rule) >= many-atMost
		})
		ask(t, name+": the neighbour", g2, tt.addr, tt.said(1))
		ask(t, name+": the guest itself", g1, tt.addr, tt.said(0))
	}
}

// TestRateOfNewFlowsByWayOfTheNode: a guest of a peer, and one that uses many addresses, does not use up what others may that reach a
// guest by way of the node, nor what its neighbours may.
func TestRateOfNewFlowsByWayOfTheNode(t *testing.T) {
	const prefix, mine = "10.78.0.0/24", 16
	m := open(t)
	s := state0()
	secondNetwork(&s, seedbed.NetworkIsolated, prefix)
	peerNetworks(&s, 0, 1, true)
	s.Networks[1].Allow.Addresses = true
	s.Groups = []seedbed.SecurityGroup{group("web", "in udp 9000")}
	s.Ports[0].Groups = []string{"web"}
	other := netip.MustParseAddr("10.78.0.3")
	s.Ports = append(s.Ports, Port{Tap: "sb4", MAC: seedbed.MAC{2, 0, 0, 0, 0, 4}, Addr: other, Mark: 104, Bridge: "sb-lab"})
	apply(t, m, s, Options{Connections: 16}) // 32 at once, and one a second
	g1, g2 := guest(t, "sb1", mac1, ip1), guest(t, "sb2", mac2, ip2)
	g3, addr := secondGuest(t, prefix)
	g4 := netnstest.New(t)
	netnstest.Veth(t, "sb4", g4, "02:00:00:00:00:04")
	netnstest.Run(t, "ip", "link", "set", "sb4", "master", "sb-lab")
	g4.Run(t, "ip", "addr", "add", other.String()+"/24", "dev", "eth0")
	g4.Run(t, "ip", "route", "add", "default", "via", "10.78.0.1")
	var l net.PacketConn
	var err error
	g1.Do(func() { l, err = net.ListenPacket("udp4", ip1.String()+":9000") })
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	// begin counts what arrives of the flows that a guest begins.
	begin := func(g *netnstest.Namespace, from netip.Addr) (n int) {
		g.Do(func() {
			for range mine {
				sendTo(ip1.String() + ":9000")
			}
		})
		for b := make([]byte, 9); n < mine; {
			l.SetReadDeadline(time.Now().Add(time.Second))
			_, a, err := l.ReadFrom(b)
			if err != nil {
				return n
			}
			if a.(*net.UDPAddr).AddrPort().Addr() == from {
				n++
			}
		}
		return n
	}
	flood := func(from func(int) netip.Addr) func(int) []byte {
		return func(i int) []byte {
			return ether(s.Networks[1].MAC, seedbed.MAC{2, 0, 0, 0, 0, 3}, unix.ETH_P_IP,
				ip4(from(i), ip1, unix.IPPROTO_UDP, 0, udp(uint16(10_000+i), 9000, []byte("x"))))
		}
	}
	const chain = "in4-udp-new"
	sendMany(t, g3, 200, flood(func(int) netip.Addr { return netip.MustParseAddr(addr) }))
	until(t, "a guest of a peer has used up what it may", func() bool {
		return dropped(t, nftables.TableFamilyBridge, chain, "too many new flows from one host") >= 100
	})
	if n := begin(g4, other); n != mine {
		t.Errorf("%d of %d flows of another guest of the peer arrive", n, mine)
	}
	sendMany(t, g3, 400, flood(func(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 78, 0, byte(10 + i%12)}) }))
	until(t, "all by way of the node are used up", func() bool {
		return dropped(t, nftables.TableFamilyBridge, chain, "too many new flows by way of the node") >= 100
	})
	if n := begin(g2, ip2); n != mine {
		t.Errorf("%d of %d flows of a neighbour arrive", n, mine)
	}
}
