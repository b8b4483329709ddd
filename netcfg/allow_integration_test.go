//go:build integration

package netcfg

import (
	"bytes"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"seedbed"
	"seedbed/netcfg/netnstest"
)

// ip6From is an IPv6 packet; next is the type of the first header behind the fixed one.
func ip6From(src, dst netip.Addr, next byte, payload []byte) []byte {
	h := make([]byte, 40)
	h[0], h[6], h[7] = 0x60, next, 255
	copy(h[4:], be16(uint16(len(payload))))
	copy(h[8:], src.AsSlice())
	copy(h[24:], dst.AsSlice())
	return append(h, payload...)
}

// nd is a neighbour solicitation (135) or advertisement (136) with options.
func nd(typ byte, target netip.Addr, options ...[]byte) []byte {
	return append(append([]byte{typ, 0, 0, 0, 0x20, 0, 0, 0}, target.AsSlice()...), bytes.Join(options, nil)...)
}

func ndOption(typ byte, mac seedbed.MAC) []byte { return append([]byte{typ, 1}, mac[:]...) }

// allowances are the ways in which a network may be open.
var allowances = map[string]seedbed.NetworkPermissions{
	"nothing":   {},
	"addresses": {Addresses: true},
	"dhcp":      {DHCPServer: true},
	"ra":        {RouterAdvertisements: true},
	"claim":     {MetadataAddresses: true},
}

// TestAllowance sends each frame from guest 1 of a network with each allowance, and looks whether
// guest 2 receives it. Another network of the same host is allowed everything all the time.
func TestAllowance(t *testing.T) {
	m := open(t)
	s := state0()
	open := lab()
	open.Allow = seedbed.NetworkPermissions{Addresses: true, DHCPServer: true, RouterAdvertisements: true, MetadataAddresses: true}
	s.Networks[0].Prefix6 = netip.MustParsePrefix("fd12:3456:789a:1::/64")
	open.Prefix6 = netip.MustParsePrefix("fd12:3456:789a:2::/64")
	s.Networks = append(s.Networks, open)
	s.Ports = append(s.Ports, Port{Tap: "sb3", MAC: seedbed.MAC{2, 0, 0, 0, 0, 3}, Addr: netip.MustParseAddr("10.78.0.13"),
		Mark: 103, Bridge: "seedbed1"})
	apply(t, m, s, Options{})
	// Where br_netfilter looks at bridged frames, fragments are put together before guest 2 has
	// them.
	netnstest.Run(t, "sysctl", "-w", "net.bridge.bridge-nf-call-ip6tables=0")
	g1, g2 := guest(t, "sb1", mac1, ip1), guest(t, "sb2", mac2, ip2)
	var tx, rx int
	g2.Do(func() { rx = rawSocket(t) })
	g1.Do(func() { tx = rawSocket(t) })
	t.Cleanup(func() { unix.Close(tx); unix.Close(rx) })

	const always, never = "always", "never"
	ll1, ll2, zero, all := linkLocalOf(mac1), linkLocalOf(mac2), netip.IPv6Unspecified(), netip.MustParseAddr("ff02::1")
	global, own6, another6, gateway6 := netip.MustParseAddr("2001:db8::5"), s.Networks[0].Addr6(mac1), s.Networks[0].Addr6(mac2),
		s.Networks[0].Gateway6()
	arpEther := func(payload []byte) []byte { return ether(broadcast, mac1, unix.ETH_P_ARP, payload) }
	ipEther := func(payload []byte) []byte { return ether(broadcast, mac1, unix.ETH_P_IP, payload) }
	icmp6From := func(src netip.Addr, payload []byte) []byte {
		return ether(seedbed.MAC{0x33, 0x33, 0, 0, 0, 1}, mac1, unix.ETH_P_IPV6, ip6From(src, all, 58, payload))
	}
	udp6 := func(src netip.Addr, sport, dport uint16) []byte {
		return ether(seedbed.MAC{0x33, 0x33, 0, 0, 0, 1}, mac1, unix.ETH_P_IPV6, ip6From(src, all, 17, udp(sport, dport, []byte("hello"))))
	}
	behind := func(next byte, header, payload []byte) []byte {
		return ether(seedbed.MAC{0x33, 0x33, 0, 0, 0, 1}, mac1, unix.ETH_P_IPV6, ip6From(ll1, all, next, append(header, payload...)))
	}
	hopByHop := []byte{58, 0, 1, 4, 0, 0, 0, 0}
	ra := append([]byte{134, 0}, make([]byte, 14)...)
	type frame struct {
		name, by string
		frame    []byte
	}
	frames := []frame{
		{"UDP from another's address", "addresses", ipEther(ip4(ip2, everybody, 17, 0, udp(1000, 2000, []byte("hello"))))},
		{"UDP with another's MAC", never, ether(broadcast, mac2, unix.ETH_P_IP, ip4(ip1, everybody, 17, 0, udp(1000, 2000, []byte("hello"))))},
		{"UDP from the metadata address", "claim", ipEther(ip4(seedbed.MetadataAddr, everybody, 17, 0, udp(1000, 2000, []byte("hello"))))},
		{"ARP for another's address", "addresses", arpEther(arp(2, mac1, ip2, ip1))},
		{"ARP for the gateway's address", "addresses", arpEther(arp(1, mac1, gw, gw))},
		{"ARP with another's MAC inside", never, arpEther(arp(2, mac2, ip1, ip2))},
		{"ARP claim of the metadata address", "claim", arpEther(arp(2, mac1, seedbed.MetadataAddr, ip2))},
		{"gratuitous ARP claim of the metadata address", "claim", arpEther(arp(1, mac1, seedbed.MetadataAddr, seedbed.MetadataAddr))},
		{"ARP question for the metadata address", always, arpEther(arp(1, mac1, ip1, seedbed.MetadataAddr))},
		{"DHCP server", "dhcp", ipEther(ip4(ip1, everybody, 17, 0, udp(67, 68, make([]byte, 300))))},
		{"DHCP server from another port", "dhcp", ipEther(ip4(ip1, everybody, 17, 0, udp(6767, 68, make([]byte, 300))))},
		{"DHCP request for another", "dhcp", ipEther(ip4(ip1, everybody, 17, 0, udp(68, 67, dhcpRequest(mac2))))},
		{"ICMP redirect", "ra", ipEther(ip4(ip1, everybody, 1, 0, append([]byte{5, 1}, make([]byte, 40)...)))},

		{"IPv6 from its link-local address", always, udp6(ll1, 1000, 2000)},
		{"IPv6 from a stable private address", always, udp6(netip.MustParseAddr("fe80::1234:5678:9abc:def0"), 1000, 2000)},
		{"IPv6 from a global address", "addresses", udp6(global, 1000, 2000)},
		{"IPv6 from its own address", always, udp6(own6, 1000, 2000)},
		{"IPv6 from another's address", "addresses", udp6(another6, 1000, 2000)},
		{"IPv6 from its address in another network", "addresses", udp6(open.Addr6(mac1), 1000, 2000)},
		{"IPv6 from the gateway's address", "addresses", udp6(gateway6, 1000, 2000)},
		{"IPv6 from nowhere", "addresses", udp6(zero, 1000, 2000)},
		{"IPv6 from Amazon's metadata address", "claim", udp6(seedbed.MetadataAddr6, 1000, 2000)},
		{"IPv6 from the link-local metadata address", "claim", udp6(seedbed.MetadataAddr6LinkLocal, 1000, 2000)},
		{"solicitation", always, icmp6From(ll1, nd(135, ll2, ndOption(1, mac1)))},
		{"solicitation of the metadata address", always, icmp6From(ll1, nd(135, seedbed.MetadataAddr6, ndOption(1, mac1)))},
		{"solicitation with another's MAC", never, icmp6From(ll1, nd(135, ll2, ndOption(1, mac2)))},
		{"solicitation with another's MAC behind another option", never, icmp6From(ll1, nd(135, ll2, []byte{14, 1, 0, 0, 0, 0,
			0, 0}, ndOption(1, mac2)))},
		{"solicitation behind another header", never, behind(0, hopByHop, nd(135, ll2))},
		{"solicitation from the metadata address", "claim", icmp6From(seedbed.MetadataAddr6LinkLocal, nd(135, ll2, ndOption(1, mac1)))},
		{"duplicate address detection", always, icmp6From(zero, nd(135, ll1))},
		{"duplicate address detection with a nonce", always, icmp6From(zero, nd(135, ll1, []byte{14, 1, 1, 2, 3, 4, 5, 6}))},
		{"duplicate address detection of Amazon's", "claim", icmp6From(zero, nd(135, seedbed.MetadataAddr6))},
		{"duplicate address detection of the link-local one", "claim", icmp6From(zero, nd(135, seedbed.MetadataAddr6LinkLocal))},
		{"advertisement", always, icmp6From(ll1, nd(136, ll1, ndOption(2, mac1)))},
		{"advertisement of its own address", always, icmp6From(own6, nd(136, own6, ndOption(2, mac1)))},
		{"advertisement of its own address, from the link", always, icmp6From(ll1, nd(136, own6, ndOption(2, mac1)))},
		{"advertisement of another's address", "addresses", icmp6From(ll1, nd(136, another6, ndOption(2, mac1)))},
		{"advertisement of the gateway's address", "addresses", icmp6From(own6, nd(136, gateway6, ndOption(2, mac1)))},
		{"solicitation from its own address", always, icmp6From(own6, nd(135, another6, ndOption(1, mac1)))},
		{"solicitation from another's address", "addresses", icmp6From(another6, nd(135, own6, ndOption(1, mac1)))},
		{"duplicate address detection of its own", always, icmp6From(zero, nd(135, own6))},
		{"duplicate address detection of another's", "addresses", icmp6From(zero, nd(135, another6))},
		{"advertisement with another's MAC", never, icmp6From(ll1, nd(136, ll1, ndOption(2, mac2)))},
		{"advertisement of Amazon's", "claim", icmp6From(ll1, nd(136, seedbed.MetadataAddr6, ndOption(2, mac1)))},
		{"advertisement of the link-local one", "claim", icmp6From(ll1, nd(136, seedbed.MetadataAddr6LinkLocal, ndOption(2, mac1)))},
		{"router solicitation", always, icmp6From(ll1, append([]byte{133, 0, 0, 0, 0, 0, 0, 0}, ndOption(1, mac1)...))},
		{"router solicitation with another's MAC", never, icmp6From(ll1, append([]byte{133, 0, 0, 0, 0, 0, 0, 0}, ndOption(1, mac2)...))},
		{"router solicitation from nowhere", always, icmp6From(zero, []byte{133, 0, 0, 0, 0, 0, 0, 0})},
		{"group report from nowhere", always, icmp6From(zero, append([]byte{143, 0}, make([]byte, 26)...))},
		{"router advertisement", "ra", icmp6From(ll1, ra)},
		{"router advertisement behind another header", never, behind(0, hopByHop, ra)},
		{"ICMPv6 redirect", "ra", icmp6From(ll1, append([]byte{137, 0}, make([]byte, 38)...))},
		{"MLD query", "ra", icmp6From(ll1, append([]byte{130, 0}, make([]byte, 22)...))},
		{"IGMP query", "ra", ipEther(ip4(ip1, everybody, 2, 0, []byte{0x11, 1, 0xee, 0xfe, 0, 0, 0, 0}))},
		{"DHCPv6 server", "dhcp", udp6(ll1, 547, 546)},
		{"DHCPv6 server from another port", "dhcp", udp6(ll1, 1547, 546)},
		{"DHCPv6 client", always, udp6(ll1, 546, 547)},
		// The first fragment holds destination options whose end is in the second.
		{"a header chain that is cut short", never, behind(44, []byte{60, 0, 0, 1, 0, 0, 0, 9}, []byte{58, 2, 1, 4, 0, 0, 0, 0})},
		{"the rest of such a chain", never, behind(44, []byte{60, 0, 0, 8, 0, 0, 0, 9}, append(make([]byte, 16), ra...))},
		{"a first fragment of UDP", always, behind(44, []byte{17, 0, 0, 1, 0, 0, 0, 9}, udp(1000, 2000, []byte("hello...")))},
		{"a later fragment of UDP", always, behind(44, []byte{17, 0, 0, 17, 0, 0, 0, 9}, make([]byte, 16))},
		{"fragments to Amazon's", never, ether(broadcast, mac1, unix.ETH_P_IPV6, ip6From(ll1, seedbed.MetadataAddr6, 44,
			append([]byte{6, 0, 0, 1, 0, 0, 0, 9}, make([]byte, 24)...)))},
		{"nothing behind the header", never, ether(broadcast, mac1, unix.ETH_P_IPV6, ip6From(ll1, all, 59, nil))},
	}
	for name, allow := range allowances {
		s.Networks[0].Allow = allow
		apply(t, m, s, Options{})
		for _, f := range frames {
			mark := ipEther(ip4(ip1, everybody, 17, 0, udp(1000, 2001, []byte(name+f.name))))
			for _, b := range [][]byte{f.frame, mark} {
				if _, err := unix.Write(tx, b); err != nil {
					t.Fatalf("%s: %v", f.name, err)
				}
			}
			if got, want := receivedBefore(t, rx, f.frame, mark), f.by == always || f.by == name; got != want {
				t.Errorf("%s, where %s is allowed: received %v, want %v", f.name, name, got, want)
			}
		}
	}
}

func lab() seedbed.Network {
	return seedbed.Network{Name: "lab", Bridge: "seedbed1", MAC: seedbed.MAC{0x52, 0x54, 0, 0xb0, 0, 2},
		Prefix: netip.MustParsePrefix("10.78.0.0/24"), Gateway: netip.MustParseAddr("10.78.0.1")}
}

// flood sends bad and good frames from a guest's eth0 in turns until stop.
type flood struct {
	bad, good [][]byte
	sent      atomic.Int64
	quit      chan struct{}
	done      sync.WaitGroup
}

func startFlood(t *testing.T, from *netnstest.Namespace, good []byte, bad ...[]byte) *flood {
	t.Helper()
	f := &flood{bad: bad, good: [][]byte{good}, quit: make(chan struct{})}
	var fd int
	from.Do(func() { fd = rawSocket(t) })
	f.done.Go(func() {
		defer unix.Close(fd)
		for {
			for _, b := range append(f.bad, f.good...) {
				unix.Write(fd, b) // the interface may be gone for a moment
				f.sent.Add(1)
			}
			select {
			case <-f.quit:
				return
			case <-time.After(100 * time.Microsecond):
			}
		}
	})
	t.Cleanup(f.stop)
	return f
}

func (f *flood) stop() {
	select {
	case <-f.quit:
	default:
		close(f.quit)
	}
	f.done.Wait()
}

// watcher looks at what reaches a guest: forbidden frames are counted, and others.
type watcher struct {
	bad, good atomic.Int64
	idle      atomic.Int64 // how often nothing came for the time of a read
	quit      chan struct{}
	done      sync.WaitGroup
}

func startWatch(t *testing.T, at *netnstest.Namespace, good []byte, bad ...[]byte) *watcher {
	t.Helper()
	w := &watcher{quit: make(chan struct{})}
	var fd int
	at.Do(func() { fd = rawSocket(t) })
	w.done.Go(func() {
		defer unix.Close(fd)
		buf := make([]byte, 2048)
		for {
			select {
			case <-w.quit:
				return
			default:
			}
			n, err := unix.Read(fd, buf)
			if err != nil {
				w.idle.Add(1)
				continue
			}
			if bytes.HasPrefix(buf[:n], good) {
				w.good.Add(1)
			}
			for _, b := range bad {
				if bytes.HasPrefix(buf[:n], b) {
					w.bad.Add(1)
				}
			}
		}
	})
	t.Cleanup(w.stop)
	return w
}

func (w *watcher) stop() {
	select {
	case <-w.quit:
	default:
		close(w.quit)
	}
	w.done.Wait()
}

// until polls for a condition that must come.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

// forbidden are frames that no allowance of this test permits; permitted is one that all do.
func forbidden() [][]byte {
	return [][]byte{
		ether(broadcast, mac1, unix.ETH_P_ARP, arp(2, mac1, seedbed.MetadataAddr, ip2)),
		ether(broadcast, mac2, unix.ETH_P_IP, ip4(ip2, everybody, 17, 0, udp(7, 7, []byte("forged")))),
		ether(broadcast, mac1, unix.ETH_P_IPV6, ip6From(linkLocalOf(mac1), netip.MustParseAddr("ff02::1"), 58, nd(136,
			seedbed.MetadataAddr6, ndOption(2, mac1)))),
	}
}

func permitted() []byte {
	return ether(broadcast, mac1, unix.ETH_P_IP, ip4(ip1, everybody, 17, 0, udp(9, 9, []byte("fine"))))
}

// TestNoOpenMoment: while allowances change, ports come and go, and whole tables are replaced,
// nothing passes that is forbidden before and after.
func TestNoOpenMoment(t *testing.T) {
	m := open(t)
	s := state0()
	apply(t, m, s, Options{})
	g1, g2 := guest(t, "sb1", mac1, ip1), guest(t, "sb2", mac2, ip2)
	w := startWatch(t, g2, permitted(), forbidden()...)
	f := startFlood(t, g1, permitted(), forbidden()...)
	for i := range 30 {
		s.Networks[0].Allow = seedbed.NetworkPermissions{Addresses: i%2 == 0, DHCPServer: i%3 == 0, RouterAdvertisements: i%5 == 0}
		s.Ports[1].Mark = uint32(200 + i)
		at, seen := f.sent.Load(), w.good.Load()
		apply(t, m, s, Options{MetadataPort: []int{80, 7380}[i/10%2]})
		until(t, "frames were sent meanwhile", func() bool { return f.sent.Load() > at+8 && w.good.Load() > seen })
	}
	f.stop()
	w.stop()
	if n := w.bad.Load(); n > 0 {
		t.Errorf("%d forbidden frames of %d passed", n, f.sent.Load())
	}
}

// TestHotPlug: a guest's interface that disappears and appears again is never without its filter,
// whether its port is in the state before, after, or not at all.
func TestHotPlug(t *testing.T) {
	m := open(t)
	s := state0()
	without := s
	without.Ports = s.Ports[1:]
	apply(t, m, s, Options{})
	g2 := guest(t, "sb2", mac2, ip2)
	w := startWatch(t, g2, permitted(), forbidden()...)
	plug := func() (*netnstest.Namespace, *flood) {
		n := netnstest.New(t)
		netnstest.Run(t, "ip", "link", "add", "sb1", "type", "veth", "peer", "name", "eth0", "address", mac1.String(), "netns", n.PID())
		n.Run(t, "ip", "link", "set", "eth0", "up")
		f := startFlood(t, n, permitted(), forbidden()...)
		netnstest.Run(t, "ip", "link", "set", "sb1", "up")
		netnstest.Run(t, "ip", "link", "set", "sb1", "master", "seedbed0")
		return n, f
	}
	unplug := func(f *flood) {
		f.stop()
		netnstest.Run(t, "ip", "link", "del", "sb1")
	}
	passes := func(want bool, f *flood) {
		t.Helper()
		seen, at := w.good.Load(), f.sent.Load()
		until(t, "frames are sent", func() bool { return f.sent.Load() > at+40 })
		if want {
			until(t, "permitted frames pass", func() bool { return w.good.Load() > seen })
		} else if got := w.good.Load(); got != seen {
			t.Errorf("%d frames of a port that is not listed passed", got-seen)
		}
	}
	for range 4 {
		apply(t, m, s, Options{})
		_, f := plug() // known before
		passes(true, f)
		netnstest.Run(t, "ip", "link", "set", "sb1", "nomaster") // as a restart of its hypervisor may do
		netnstest.Run(t, "ip", "link", "set", "sb1", "master", "seedbed0")
		passes(true, f)
		apply(t, m, without, Options{}) // migrated away, and the interface still there
		idle := w.idle.Load()           // the second idle read from here on begins after the frames that were on their way
		until(t, "the frames on their way have arrived", func() bool { return w.idle.Load() > idle+1 })
		passes(false, f)
		unplug(f)
		_, f = plug() // not known yet
		passes(false, f)
		apply(t, m, s, Options{})
		passes(true, f)
		unplug(f)
	}
	w.stop()
	if n := w.bad.Load(); n > 0 {
		t.Errorf("%d forbidden frames passed", n)
	}
}
