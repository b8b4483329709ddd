//go:build integration

package netcfg

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"seedbed"
	"seedbed/netcfg/netnstest"
)

const (
	resolver = "169.254.169.253:53"
	wireMAC  = "52:54:00:ee:00:02"
	wireAddr = "10.79.0.254" // also the router of that network
)

// wire is a network that bridged networks reach, and a host on it.
type wire struct {
	*netnstest.Namespace
	uplink string
	vlan   int
	device string // the host's own interface
}

// wires are the ways to reach a network. VLANs are not in every kernel; see TestDebianKernel of internal/e2e.
func wires(t *testing.T) []string {
	all := []string{"a bridge", "an interface"}
	netnstest.Run(t, "ip", "link", "add", "probe", "type", "bridge") // loopback has none
	defer netnstest.Run(t, "ip", "link", "del", "probe")
	if netnstest.Try("ip", "link", "add", "link", "probe", "name", "probe.9", "type", "vlan", "id", "9") == nil {
		all = append(all, "a VLAN of a bridge", "a VLAN of an interface")
	}
	return all
}

func newWire(t *testing.T, way string) wire {
	t.Helper()
	w := wire{netnstest.New(t), "wire", 0, "eth0"}
	netnstest.Veth(t, "wire", w.Namespace, wireMAC)
	if strings.HasSuffix(way, "bridge") {
		w.uplink = "br0"
		netnstest.Run(t, "ip", "link", "add", "br0", "type", "bridge")
		t.Cleanup(func() { netnstest.Run(t, "ip", "link", "del", "br0") })
		netnstest.Run(t, "ip", "link", "set", "wire", "master", "br0")
		netnstest.Run(t, "ip", "link", "set", "br0", "up")
	}
	if strings.HasPrefix(way, "a VLAN") {
		w.vlan, w.device = 5, "eth0.5"
		w.Run(t, "ip", "link", "add", "link", "eth0", "name", "eth0.5", "type", "vlan", "id", "5")
		w.Run(t, "ip", "link", "set", "eth0.5", "up")
	}
	w.Run(t, "ip", "addr", "add", wireAddr+"/24", "dev", w.device)
	serveIn(t, w.Namespace, wireAddr+":8080")
	return w
}

// bridged adds a network that is bridged to w, with the ports sb3 and sb4 of the addresses .3 and .4. Without a prefix,
// the addresses come from elsewhere.
func (w wire) bridged(s *lists, prefix string) {
	n := seedbed.Network{Name: "lan", Kind: seedbed.NetworkBridged, Bridge: "sb-lan", MAC: seedbed.MAC{0x52, 0x54, 0, 0xb0, 0, 3},
		Uplink: w.uplink, VLAN: w.vlan}
	ports := []Port{
		{Tap: "sb3", MAC: seedbed.MAC{2, 0, 0, 0, 0, 3}, Mark: 103, Bridge: "sb-lan"},
		{Tap: "sb4", MAC: seedbed.MAC{2, 0, 0, 0, 0, 4}, Mark: 104, Bridge: "sb-lan"},
	}
	if prefix != "" {
		n.DNS = []netip.Addr{seedbed.ResolverAddr}
		n.Prefix, n.Gateway = netip.MustParsePrefix(prefix), netip.MustParseAddr(wireAddr)
		ports[0].Addr, ports[1].Addr = netip.MustParseAddr("10.79.0.3"), netip.MustParseAddr("10.79.0.4")
	}
	s.Networks, s.Ports = append(s.Networks, n), append(s.Ports, ports...)
}

// bridgedGuest is the guest of a port, with a default route by the router of the network.
func bridgedGuest(t *testing.T, tap, mac, addr string) *netnstest.Namespace {
	t.Helper()
	g := netnstest.New(t)
	netnstest.Veth(t, tap, g, mac)
	netnstest.Run(t, "ip", "link", "set", tap, "master", "sb-lan")
	g.Run(t, "ip", "addr", "add", addr+"/24", "dev", "eth0")
	g.Run(t, "ip", "route", "add", "default", "via", wireAddr)
	serveIn(t, g, ":8080")
	return g
}

// TestBridged asks in every direction on a bridged network, whose router is a foreign host, with addresses of ours and
// with those from elsewhere.
func TestBridged(t *testing.T) {
	for _, way := range wires(t) {
		for name, prefix := range map[string]string{"ours": "10.79.0.0/24", "from elsewhere": ""} {
			t.Run(way+", "+name, func(t *testing.T) {
				m := open(t)
				w := newWire(t, way)
				s := state0()
				w.bridged(&s, prefix)
				apply(t, m, s, Options{})
				g3, g4 := bridgedGuest(t, "sb3", "02:00:00:00:00:03", "10.79.0.3"), bridgedGuest(t, "sb4", "02:00:00:00:00:04", "10.79.0.4")
				ask(t, "out", g3, wireAddr+":8080", "10.79.0.3 mark 0")
				ask(t, "in", w.Namespace, "10.79.0.3:8080", wireAddr+" mark 0")
				ask(t, "to a neighbour", g3, "10.79.0.4:8080", "10.79.0.3 mark 0")
				overheard := w.overhear(t)
				serveOnBridge(t, "sb-lan", metadata)
				ask(t, "metadata by the router", g3, metadata, "10.79.0.3 mark 103")
				g4.Run(t, "ip", "route", "add", "169.254.169.254", "dev", "eth0")
				ask(t, "metadata on the link", g4, metadata, "10.79.0.4 mark 104")
				ask(t, "another port of the metadata address", g4, "169.254.169.254:8080", "")
				if prefix != "" {
					serveOnBridge(t, "sb-lan", resolver)
					ask(t, "the resolver by the router", g3, resolver, "10.79.0.3 mark 103")
					g4.Run(t, "ip", "route", "add", "169.254.169.253", "dev", "eth0")
					ask(t, "the resolver on the link", g4, resolver, "10.79.0.4 mark 104")
				}
				if frames := overheard(); len(frames) > 0 {
					t.Errorf("what the network saw of requests for metadata and names: %v", frames)
				}
				w.Run(t, "ip", "route", "add", "169.254.169.253", "dev", w.device)
				w.Run(t, "ip", "neigh", "replace", "169.254.169.253", "lladdr", "52:54:00:b0:00:03", "dev", w.device)
				ask(t, "the resolver from the network", w.Namespace, resolver, "")
				w.forges(t, g3, prefix == "")
				w.Run(t, "ip", "route", "add", "169.254.169.254", "dev", w.device)
				w.Run(t, "ip", "neigh", "replace", "169.254.169.254", "lladdr", "52:54:00:b0:00:03", "dev", w.device)
				ask(t, "metadata from the network", w.Namespace, metadata, "")
				want := ""
				if prefix == "" {
					want = "10.79.0.33 mark 103"
				}
				g3.Run(t, "ip", "addr", "flush", "dev", "eth0")
				g3.Run(t, "ip", "addr", "add", "10.79.0.33/24", "dev", "eth0")
				g3.Run(t, "ip", "route", "add", "default", "via", wireAddr)
				ask(t, "metadata with another address", g3, metadata, want)

				apply(t, m, state0(), Options{}) // guests are attached, so the bridge stays
				for table, set := range map[string]string{"inet": "wired", "arp": "wired", "bridge": "uplinks"} {
					if out := netnstest.Run(t, "nft", "list", "set", table, "seedbed", set); !strings.Contains(out, "elements") {
						t.Errorf("a bridge without a network is open to its uplink:\n%s", out)
					}
				}
				netnstest.Run(t, "ip", "link", "del", "sb3")
				netnstest.Run(t, "ip", "link", "del", "sb4")
				apply(t, m, state0(), Options{})
				links := netnstest.Run(t, "ip", "-o", "link")
				for _, gone := range []string{"su-", "sp-"} {
					if strings.Contains(links, gone) {
						t.Errorf("a link is left:\n%s", links)
					}
				}
			})
		}
	}
}

// serveOnBridge answers at an address on one bridge, as the metadata server listens.
func serveOnBridge(t *testing.T, bridge, addr string) {
	t.Helper()
	c := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) (err error) {
		raw.Control(func(fd uintptr) { err = unix.BindToDevice(int(fd), bridge) })
		return err
	}}
	l, err := c.Listen(t.Context(), "tcp4", addr)
	if err != nil {
		t.Fatal(err)
	}
	serveOn(t, l)
}

// forges has the host on the network send to a guest from the address of the resolver.
func (w wire) forges(t *testing.T, g *netnstest.Namespace, arrives bool) {
	t.Helper()
	w.Run(t, "ip", "addr", "add", "169.254.169.253/32", "dev", w.device)
	defer w.Run(t, "ip", "addr", "del", "169.254.169.253/32", "dev", w.device)
	var to net.PacketConn
	var from net.Conn
	var err, dialErr error
	g.Do(func() { to, err = net.ListenPacket("udp4", ":5353") })
	w.Do(func() {
		d := net.Dialer{LocalAddr: &net.UDPAddr{IP: net.IPv4(169, 254, 169, 253), Port: 53}}
		from, dialErr = d.Dial("udp4", "10.79.0.3:5353")
	})
	if err != nil || dialErr != nil {
		t.Fatal(err, dialErr)
	}
	defer to.Close()
	defer from.Close()
	from.Write([]byte("x"))
	wait := 400 * time.Millisecond
	if arrives {
		wait = patience
	}
	to.SetReadDeadline(time.Now().Add(wait))
	if _, _, err := to.ReadFrom(make([]byte, 1)); (err == nil) != arrives {
		t.Errorf("from the resolver's address on the network: %v, want that it arrives: %t", err, arrives)
	}
}

// overhear returns a function that returns the frames since on the network which are from the node's bridge, or about
// the addresses of its services.
func (w wire) overhear(t *testing.T) func() []string {
	t.Helper()
	var fd int
	w.Do(func() { fd = rawSocketOn(t, w.device) })
	return func() (heard []string) {
		defer unix.Close(fd)
		b := make([]byte, 2000)
		for end := time.Now().Add(time.Second); time.Now().Before(end); {
			n, _, err := unix.Recvfrom(fd, b, 0)
			if err != nil || n < 14 {
				continue
			}
			frame := string(b[:n])
			if strings.Contains(frame, "\x52\x54\x00\xb0\x00\x03") || strings.Contains(frame, "\xa9\xfe\xa9") {
				heard = append(heard, net.HardwareAddr(b[6:12]).String()+" "+strings.ToUpper(frame[12:14]))
			}
		}
		return heard
	}
}

// TestEqualBridged: two bridged networks with equal prefixes, whose guests have equal addresses, beside a network with
// NAT of that prefix.
func TestEqualBridged(t *testing.T) {
	m := open(t)
	a, b := newWire(t, "a bridge"), netnstest.New(t)
	netnstest.Veth(t, "other", b, "52:54:00:ee:00:09")
	b.Run(t, "ip", "addr", "add", wireAddr+"/24", "dev", "eth0")
	s := state0()
	s.Networks[0].Prefix, s.Networks[0].Gateway = netip.MustParsePrefix("10.79.0.0/24"), netip.MustParseAddr("10.79.0.1")
	s.Ports = nil
	a.bridged(&s, "10.79.0.0/24")
	second, port := s.Networks[1], s.Ports[0]
	second.Name, second.Bridge, second.Uplink, second.MAC[5] = "lan2", "sb-lan2", "far", 4
	port.Tap, port.MAC[5], port.Mark, port.Bridge = "sb5", 5, 105, "sb-lan2"
	s.Networks, s.Ports = append(s.Networks, second), append(s.Ports, port)
	apply(t, m, s, Options{Uplinks: map[string]string{"far": "other"}})
	serveOnBridge(t, "sb-lan", metadata)
	serveOnBridge(t, "sb-lan2", metadata)
	g3 := bridgedGuest(t, "sb3", "02:00:00:00:00:03", "10.79.0.3")
	g5 := bridgedGuest(t, "sb5", "02:00:00:00:00:05", "10.79.0.3")
	netnstest.Run(t, "ip", "link", "set", "sb5", "master", "sb-lan2")
	for range 5 {
		ask(t, "metadata of one", g3, metadata, "10.79.0.3 mark 103")
		ask(t, "metadata of the other", g5, metadata, "10.79.0.3 mark 105")
	}
}

// TestUplinkRefused: an interface that the node itself uses does not become a port of the bridge, and the other networks
// are applied.
func TestUplinkRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		before func(t *testing.T)
		uplink string
		mtu    int
		reason string
	}{
		"it does not exist": {uplink: "absent0", reason: "absent0, the uplink of network lan, does not exist on this node"},
		"it has an address": {before: func(t *testing.T) { netnstest.Run(t, "ip", "addr", "add", "192.0.2.1/24", "dev", "wire") },
			uplink: "wire", reason: "has the address 192.0.2.1/24 of this node, which would lose it"},
		"it is a port": {before: func(t *testing.T) {
			netnstest.Run(t, "ip", "link", "add", "br9", "type", "bridge")
			t.Cleanup(func() { netnstest.Run(t, "ip", "link", "del", "br9") })
			netnstest.Run(t, "ip", "link", "set", "wire", "master", "br9")
		}, uplink: "wire", reason: "is a port of another interface"},
		"it has a macvlan": {before: func(t *testing.T) {
			netnstest.Run(t, "ip", "link", "add", "link", "wire", "name", "vm0", "type", "macvlan", "mode", "bridge")
			t.Cleanup(func() { netnstest.Run(t, "ip", "link", "del", "vm0") })
		}, uplink: "wire", reason: "is that of macvlan vm0"},
		"its link cannot be made": {before: func(t *testing.T) {
			name := uplinkPrefix + linkDigits("sb-lan")
			netnstest.Run(t, "ip", "link", "add", name, "type", "bridge")
			t.Cleanup(func() { netnstest.Run(t, "ip", "link", "del", name) })
			netnstest.Run(t, "ip", "link", "add", "br9", "type", "bridge")
			t.Cleanup(func() { netnstest.Run(t, "ip", "link", "del", "br9") })
		}, uplink: "br9", reason: "exists and was not made by Seedbed for network lan"},
		"it is ours":      {uplink: "seedbed0", reason: "is Seedbed's own"},
		"its MTU is less": {uplink: "wire", mtu: 9000, reason: "MTU 9000 of network lan is more than the 1500 of its uplink wire"},
	} {
		t.Run(name, func(t *testing.T) {
			m := open(t)
			w := newWire(t, "an interface")
			s := state0()
			apply(t, m, s, Options{})
			if tt.before != nil {
				tt.before(t)
			}
			w.uplink = tt.uplink
			w.bridged(&s, "10.79.0.0/24")
			s.Networks[1].MTU = tt.mtu
			err := m.Apply(t.Context(), s.state(), Options{})
			if _, only := errors.AsType[*LeftOut](err); !only || !strings.Contains(err.Error(), tt.reason) || !errors.Is(err, seedbed.ErrConflict) {
				t.Errorf("Apply = %v, want a LeftOut, ErrConflict: %s", err, tt.reason)
			}
			serve(t, "169.254.169.254:80")
			ask(t, "metadata of another network", guest(t, "sb1", mac1, ip1), metadata, "10.77.0.11 mark 101")
			checks := m.Check(t.Context())
			if !slices.ContainsFunc(checks, func(c seedbed.Check) bool { return !c.OK && strings.Contains(c.Detail, tt.reason) }) {
				t.Errorf("no check says %q: %+v", tt.reason, checks)
			}
		})
	}
}

// TestUplinkGoesAway: while the node's bridge is gone, guests have their metadata and each other. When it is there
// again, they are attached to it.
func TestUplinkGoesAway(t *testing.T) {
	m := open(t)
	w := newWire(t, "a bridge")
	s := state0()
	w.bridged(&s, "")
	apply(t, m, s, Options{})
	serveOnBridge(t, "sb-lan", metadata)
	g3, g4 := bridgedGuest(t, "sb3", "02:00:00:00:00:03", "10.79.0.3"), bridgedGuest(t, "sb4", "02:00:00:00:00:04", "10.79.0.4")
	g3.Run(t, "ip", "route", "add", "169.254.169.254", "dev", "eth0")
	told := make(chan bool, 100)
	go m.Follow(t.Context(), nil, []string{"br0"}, func(_ string, up bool) { told <- up })
	if up := <-told; up {
		t.Error("a bridge of the node is told as one of ours")
	}
	netnstest.Run(t, "ip", "link", "del", "br0")
	if err := m.Restore(t.Context()); err != nil {
		t.Errorf("Restore = %v without the uplink of one network", err)
	}
	if !slices.ContainsFunc(m.Check(t.Context()), func(c seedbed.Check) bool {
		return !c.OK && strings.Contains(c.Detail, "does not exist on this node")
	}) {
		t.Error("no check says that the uplink is gone")
	}
	ask(t, "metadata without the uplink", g3, metadata, "10.79.0.3 mark 103")
	ask(t, "a neighbour without the uplink", g3, "10.79.0.4:8080", "10.79.0.3 mark 0")
	netnstest.Run(t, "ip", "link", "add", "br0", "type", "bridge")
	netnstest.Run(t, "ip", "link", "set", "wire", "master", "br0")
	netnstest.Run(t, "ip", "link", "set", "br0", "up")
	select {
	case <-told:
	case <-time.After(patience):
		t.Error("nobody is told that the bridge is there again")
	}
	if err := m.Restore(t.Context()); err != nil {
		t.Error(err)
	}
	ask(t, "out", g4, wireAddr+":8080", "10.79.0.4 mark 0")
}

// TestUplinkCrash starts from what a crash leaves between any two steps, and from what others change.
func TestUplinkCrash(t *testing.T) {
	m := open(t)
	w := newWire(t, "a bridge")
	s := state0()
	w.bridged(&s, "")
	port, peer := uplinkPrefix+linkDigits("sb-lan"), peerPrefix+linkDigits("sb-lan")
	pair := []string{"link", "add", port, "type", "veth", "peer", "name", peer}
	for name, steps := range map[string][][]string{
		"a pair without aliases":  {pair},
		"a half attached pair":    {pair, {"link", "set", port, "alias", "seedbed:lan@"}, {"link", "set", peer, "master", "br0"}},
		"of a network that went":  {{"link", "add", "su-0123456789ab", "type", "veth", "peer", "name", "sp-0123456789ab"}},
		"another kind of link":    {{"link", "add", port, "type", "veth", "peer", "name", "sp-other"}},
		"detached from its peers": {pair, {"link", "set", port, "up"}},
	} {
		t.Run(name, func(t *testing.T) {
			apply(t, m, state0(), Options{})
			for _, args := range steps {
				netnstest.Run(t, "ip", args...)
			}
			apply(t, m, s, Options{})
			g3 := bridgedGuest(t, "sb3", "02:00:00:00:00:03", "10.79.0.3")
			ask(t, "out", g3, wireAddr+":8080", "10.79.0.3 mark 0")
			if links := netnstest.Run(t, "ip", "-o", "link"); strings.Count(links, " su-")+strings.Count(links, " sp-") != 2 {
				t.Errorf("more than one pair:\n%s", links)
			}
			before := ruleset(t)
			apply(t, m, s, Options{})
			if after := ruleset(t); after != before {
				t.Error("a second Apply changed rules")
			}
		})
	}
	if err := m.Cleanup(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	links := netnstest.Run(t, "ip", "-o", "link")
	if strings.Contains(links, " su-") || strings.Contains(links, " sp-") || !strings.Contains(links, " br0") {
		t.Errorf("after the cleanup:\n%s", links)
	}
}
