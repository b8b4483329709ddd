//go:build integration

package netcfg

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"seedbed"
	"seedbed/netcfg/netnstest"
)

// serveBridge answers as serve does, on one bridge alone.
func serveBridge(t *testing.T, bridge, addr string) {
	t.Helper()
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
		c.Control(func(fd uintptr) { err = unix.BindToDevice(int(fd), bridge) })
		return err
	}}
	l, err := lc.Listen(context.Background(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	serveOn(t, l)
}

// echoBridge says back what it is told, as serveBridge does.
func echoBridge(t *testing.T, bridge, addr string) {
	t.Helper()
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
		c.Control(func(fd uintptr) { err = unix.BindToDevice(int(fd), bridge) })
		return err
	}}
	l, err := lc.Listen(context.Background(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer c.Close()
				io.Copy(c, c)
			})
		}
	})
	t.Cleanup(func() { l.Close(); serving.Wait() })
}

// guestOn is guest6 on another bridge.
func guestOn(t *testing.T, bridge, tap string, mac seedbed.MAC, ip netip.Addr) *netnstest.Namespace {
	t.Helper()
	n := netnstest.New(t)
	netnstest.Veth(t, tap, n, mac.String())
	netnstest.Run(t, "ip", "link", "set", tap, "master", bridge)
	n.Run(t, "ip", "addr", "add", ip.String()+"/24", "dev", "eth0")
	n.Run(t, "ip", "route", "add", "default", "via", gw.String())
	n.Run(t, "ip", "-6", "addr", "flush", "dev", "eth0")
	n.Run(t, "ip", "-6", "addr", "add", linkLocalOf(mac).String()+"/64", "dev", "eth0", "nodad")
	n.Run(t, "ip", "-6", "route", "replace", "fd00:ec2::254/128", "dev", "eth0")
	return n
}

// TestEqualNetworks: two networks with the same prefix and gateway, and guests with the same
// address, each on its own; one of them has NAT.
func TestEqualNetworks(t *testing.T) {
	mac3 := seedbed.MAC{0x52, 0x54, 0, 0, 0, 3}
	for name, tt := range map[string]struct {
		natFirst bool
		strict   string
		port     int
	}{
		"NAT on the first":                {true, "0", 80},
		"NAT on the second":               {false, "0", 80},
		"strict rp_filter elsewhere":      {false, "1", 80},
		"metadata on another port":        {true, "0", 7380},
		"another port, NAT on the second": {false, "0", 7380},
	} {
		t.Run(name, func(t *testing.T) {
			netnstest.Run(t, "sysctl", "-w", "net.ipv4.conf.all.rp_filter="+tt.strict)
			t.Cleanup(func() { netnstest.Run(t, "sysctl", "-w", "net.ipv4.conf.all.rp_filter=0") })
			m := open(t)
			s := state0()
			other := lab()
			other.Prefix, other.Gateway = s.Networks[0].Prefix, s.Networks[0].Gateway
			s.Networks[0].NAT, other.NAT = tt.natFirst, !tt.natFirst
			s.Networks = append(s.Networks, other)
			s.Ports = append(s.Ports, Port{Tap: "sb3", MAC: mac3, Addr: ip1, Mark: 103, Bridge: "seedbed1"})
			apply(t, m, s, Options{MetadataPort: tt.port})
			g1, g3 := guestOn(t, "seedbed0", "sb1", mac1, ip1), guestOn(t, "seedbed1", "sb3", mac3, ip1)
			for _, bridge := range []string{"seedbed0", "seedbed1"} {
				serveBridge(t, bridge, "169.254.169.254:"+strconv.Itoa(tt.port))
				serveBridge(t, bridge, "[fd00:ec2::254]:"+strconv.Itoa(tt.port))
			}
			for range 3 {
				ask(t, "guest on the first", g1, metadata, "10.77.0.11 mark 101")
				ask(t, "guest on the second", g3, metadata, "10.77.0.11 mark 103")
				ask(t, "guest on the first", g1, metadata6Global, said(mac1, 101))
				ask(t, "guest on the second", g3, metadata6Global, said(mac3, 103))
			}
			w := world(t)
			serveIn(t, w, "198.51.100.2:8080")
			inside, outside := g1, g3
			if !tt.natFirst {
				inside, outside = g3, g1
			}
			ask(t, "out of the network with NAT", inside, "198.51.100.2:8080", "198.51.100.1 mark 0")
			ask(t, "out of the network without", outside, "198.51.100.2:8080", "")
			for _, bridge := range []string{"seedbed0", "seedbed1"} {
				if i := slices.IndexFunc(m.Check(t.Context()), func(c seedbed.Check) bool { return c.Name == "bridge "+bridge && !c.OK }); i >= 0 {
					t.Errorf("check of %s: %+v", bridge, m.Check(t.Context())[i])
				}
			}
			// The other way round, on bridges that are there.
			s.Networks[0].NAT, s.Networks[1].NAT = !s.Networks[0].NAT, !s.Networks[1].NAT
			apply(t, m, s, Options{MetadataPort: tt.port})
			ask(t, "out of the network that has NAT now", outside, "198.51.100.2:8080", "198.51.100.1 mark 0")
			ask(t, "out of the network that had it", inside, "198.51.100.2:8080", "")
		})
	}
}

// sourcePorts is how many source ports TestSourcePortsMayBeEqual has used.
var sourcePorts atomic.Int32

// TestSourcePortsMayBeEqual: two connections that differ in nothing but their bridge are two.
// Untracked, and where the port is redirected.
func TestSourcePortsMayBeEqual(t *testing.T) {
	for _, port := range []int{80, 7380} {
		t.Run(fmt.Sprint(port), func(t *testing.T) {
			source := 25_000 + int(sourcePorts.Add(1)) // the table of connections still has those of a run before
			mac3 := seedbed.MAC{0x52, 0x54, 0, 0, 0, 3}
			m := open(t)
			s := state0()
			other := lab()
			other.Prefix, other.Gateway = s.Networks[0].Prefix, s.Networks[0].Gateway
			s.Networks = append(s.Networks, other)
			s.Ports = append(s.Ports, Port{Tap: "sb3", MAC: mac3, Addr: ip1, Mark: 103, Bridge: "seedbed1"})
			apply(t, m, s, Options{MetadataPort: port})
			guests := map[int]*netnstest.Namespace{101: guestOn(t, "seedbed0", "sb1", mac1, ip1), 103: guestOn(t, "seedbed1", "sb3", mac3, ip1)}
			for _, bridge := range []string{"seedbed0", "seedbed1"} {
				echoBridge(t, bridge, fmt.Sprintf("169.254.169.254:%d", port))
			}
			conns := map[int]net.Conn{}
			for range 3 {
				for mark, g := range guests {
					if conns[mark] == nil {
						var err error
						g.Do(func() {
							d := net.Dialer{LocalAddr: &net.TCPAddr{IP: ip1.AsSlice(), Port: source}, Timeout: patience}
							conns[mark], err = d.Dial("tcp4", metadata)
						})
						if err != nil {
							t.Fatal(err)
						}
						defer conns[mark].Close()
					}
					said := fmt.Sprintf("said by %d", mark)
					b := make([]byte, len(said))
					conns[mark].SetDeadline(time.Now().Add(patience))
					if _, err := io.WriteString(conns[mark], said); err != nil {
						t.Fatal(err)
					}
					if _, err := io.ReadFull(conns[mark], b); err != nil || string(b) != said {
						t.Fatalf("%q, %v, want %q", b, err, said)
					}
				}
			}
			if out := netnstest.Run(t, "cat", "/proc/net/nf_conntrack"); strings.Contains(out, fmt.Sprintf("sport=%d ", source)) != (port != 80) {
				t.Errorf("connections are tracked, or are not:\n%s", out)
			}
		})
	}
}

// TestHostsOwnNetwork: a network without NAT may overlap one that the host is in; the host's own
// route wins, and guests are served.
func TestHostsOwnNetwork(t *testing.T) {
	m := open(t)
	peer := netnstest.New(t)
	netnstest.Veth(t, "own0", peer, "52:54:00:ee:00:02")
	netnstest.Run(t, "ip", "addr", "add", "10.77.0.200/24", "dev", "own0")
	peer.Run(t, "ip", "addr", "add", "10.77.0.201/24", "dev", "eth0")
	serveIn(t, peer, ":8080")
	s := state0()
	s.Networks[0].NAT = false
	apply(t, m, s, Options{})
	netnstest.Run(t, "ip", "addr", "del", "10.77.0.200/24", "dev", "own0") // so that its route comes last
	netnstest.Run(t, "ip", "addr", "add", "10.77.0.200/24", "dev", "own0")
	g1 := guest(t, "sb1", mac1, ip1)
	serveBridge(t, "seedbed0", metadata)
	askHere(t, "the host's own network", "10.77.0.201:8080", "10.77.0.200 mark 0")
	ask(t, "a guest", g1, metadata, "10.77.0.11 mark 101")
}

// TestUnmarkedCaller: what comes by a port that is not a guest's reaches the metadata address
// without a mark, from the network's own addresses alone.
func TestUnmarkedCaller(t *testing.T) {
	m := open(t)
	s := state0()
	s.Networks[0].Identity = seedbed.IdentityMAC
	apply(t, m, s, Options{})
	mac9 := seedbed.MAC{0x52, 0x54, 0, 0, 0, 9}
	far := guestOn(t, "seedbed0", "vxport", mac9, netip.MustParseAddr("10.77.0.19"))
	serveBridge(t, "seedbed0", metadata)
	serveBridge(t, "seedbed0", metadata6Global)
	ask(t, "over IPv4", far, metadata, "10.77.0.19 mark 0")
	ask(t, "over IPv6", far, metadata6Global, said(mac9, 0))
	// A router among them may not bring others along.
	netnstest.Run(t, "ip", "route", "add", "10.99.0.0/24", "dev", "seedbed0")
	far.Run(t, "ip", "addr", "add", "10.99.0.5/24", "dev", "eth0")
	far.Run(t, "ip", "route", "replace", "169.254.169.254", "via", gw.String(), "src", "10.99.0.5")
	ask(t, "from an address that is not of the link", far, metadata, "")
}
