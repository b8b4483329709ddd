//go:build integration

package netcfg

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"seedbed"
	"seedbed/netcfg/netnstest"
)

const metadata = "169.254.169.254:80"

func TestMetadataKnowsWhoAsks(t *testing.T) {
	m := open(t)
	apply(t, m, state0(), Options{}) // the elements are there before the ports
	g1, g2 := guest(t, "sb1", mac1, ip1), guest(t, "sb2", mac2, ip2)
	serve(t, metadata)
	for name, tt := range map[string]struct {
		guest *netnstest.Namespace
		want  string
	}{
		"guest 1": {g1, "10.77.0.11 mark 101"},
		"guest 2": {g2, "10.77.0.12 mark 102"},
	} {
		ask(t, name, tt.guest, metadata, tt.want)
	}
	// A gateway that is not the bridge, as on a plain bridged network: the frame is taken off the
	// wire.
	g1.Run(t, "ip", "route", "replace", "169.254.169.254", "via", "10.77.0.200")
	g1.Run(t, "ip", "neigh", "replace", "10.77.0.200", "lladdr", "52:54:00:99:99:99", "dev", "eth0")
	ask(t, "by a foreign gateway", g1, metadata, "10.77.0.11 mark 101")
}

// TestThief: guest 1 takes guest 2's MAC and address, and gets nothing, though guest 2 has just
// spoken and the bridge knows its MAC.
func TestThief(t *testing.T) {
	m := open(t)
	apply(t, m, state0(), Options{})
	g1, g2 := guest(t, "sb1", mac1, ip1), guest(t, "sb2", mac2, ip2)
	serve(t, metadata)
	ask(t, "the owner", g2, metadata, "10.77.0.12 mark 102")
	steal := func(args ...string) { t.Helper(); g1.Run(t, "ip", args...) }
	steal("addr", "del", ip1.String()+"/24", "dev", "eth0")
	steal("addr", "add", ip2.String()+"/24", "dev", "eth0")
	steal("route", "replace", "default", "via", gw.String())
	steal("neigh", "replace", gw.String(), "lladdr", network0().MAC.String(), "dev", "eth0")
	ask(t, "with another's address", g1, metadata, "")
	steal("link", "set", "eth0", "address", mac2.String())
	steal("neigh", "replace", gw.String(), "lladdr", network0().MAC.String(), "dev", "eth0")
	ask(t, "with another's MAC and address", g1, metadata, "")
	ask(t, "the owner afterwards", g2, metadata, "10.77.0.12 mark 102")
}

func TestMetadataOnAnotherPort(t *testing.T) {
	m := open(t)
	apply(t, m, state0(), Options{MetadataPort: 7380})
	g1 := guest(t, "sb1", mac1, ip1)
	serve(t, "169.254.169.254:7380")
	ask(t, "port 80", g1, metadata, "10.77.0.11 mark 101")
	ask(t, "the port itself", g1, "169.254.169.254:7380", "")
}

// TestHostIsClosed: guests reach metadata, DHCP and their DNS server, and no other service of the
// host at any of its addresses.
func TestHostIsClosed(t *testing.T) {
	m := open(t)
	s := state0()
	s.Networks[0].DNS = []netip.Addr{gw}
	apply(t, m, s, Options{})
	g1 := guest(t, "sb1", mac1, ip1)
	netnstest.Run(t, "ip", "addr", "add", "192.0.2.1/32", "dev", "lo")
	t.Cleanup(func() { netnstest.Run(t, "ip", "addr", "del", "192.0.2.1/32", "dev", "lo") })
	serve(t, ":80")
	serve(t, ":22")
	serve(t, ":53")
	ask(t, "metadata", g1, metadata, "10.77.0.11 mark 101")
	ask(t, "its DNS server", g1, "10.77.0.1:53", "10.77.0.11 mark 0")
	for _, addr := range []string{"10.77.0.1:80", "10.77.0.1:22", "169.254.169.254:22", "192.0.2.1:22", "192.0.2.1:53"} {
		ask(t, "another service", g1, addr, "")
	}
	g1.Run(t, "ping", "-c1", "-w30", gw.String())
}

// world is a namespace outside, behind an uplink of the host, that knows the way to the guests.
func world(t *testing.T) *netnstest.Namespace {
	t.Helper()
	n := netnstest.New(t)
	netnstest.Veth(t, "uplink", n, "52:54:00:ee:00:01")
	netnstest.Run(t, "ip", "addr", "add", "198.51.100.1/24", "dev", "uplink")
	n.Run(t, "ip", "addr", "add", "198.51.100.2/24", "dev", "eth0")
	n.Run(t, "ip", "route", "add", "10.0.0.0/8", "via", "198.51.100.1")
	return n
}

func serveIn(t *testing.T, n *netnstest.Namespace, addr string) {
	t.Helper()
	var l net.Listener
	var err error
	n.Do(func() { l, err = net.Listen("tcp4", addr) })
	if err != nil {
		t.Fatal(err)
	}
	serveOn(t, l)
}

func TestNAT(t *testing.T) {
	m := open(t)
	s := state0()
	lab := seedbed.Network{Name: "lab", Bridge: "seedbed1", MAC: seedbed.MAC{0x52, 0x54, 0, 0xb0, 0, 2},
		Prefix: netip.MustParsePrefix("10.78.0.0/24"), Gateway: netip.MustParseAddr("10.78.0.1")}
	s.Networks = append(s.Networks, lab)
	s.Ports = append(s.Ports, Port{Tap: "sb3", MAC: seedbed.MAC{2, 0, 0, 0, 0, 3}, Addr: netip.MustParseAddr("10.78.0.13"),
		Mark: 103, Bridge: "seedbed1"})
	apply(t, m, s, Options{})
	w := world(t)
	serveIn(t, w, "198.51.100.2:8080")
	g1 := guest(t, "sb1", mac1, ip1)
	g3 := netnstest.New(t)
	netnstest.Veth(t, "sb3", g3, "02:00:00:00:00:03")
	netnstest.Run(t, "ip", "link", "set", "sb3", "master", "seedbed1")
	g3.Run(t, "ip", "addr", "add", "10.78.0.13/24", "dev", "eth0")
	g3.Run(t, "ip", "route", "add", "default", "via", "10.78.0.1")
	serveIn(t, g1, ":8080")
	serveIn(t, g3, ":8080")

	for name, tt := range map[string]struct {
		from *netnstest.Namespace
		to   string
		want string
	}{
		"out of a network with NAT":     {g1, "198.51.100.2:8080", "198.51.100.1 mark 0"},
		"out of a network without NAT":  {g3, "198.51.100.2:8080", ""},
		"from outside to a guest":       {w, "10.77.0.11:8080", ""},
		"to a guest of another network": {g1, "10.78.0.13:8080", ""},
		"and the other way round":       {g3, "10.77.0.11:8080", ""},
	} {
		ask(t, name, tt.from, tt.to, tt.want)
	}
	askHere(t, "host to guest", "10.77.0.11:8080", "10.77.0.1 mark 0")
}

// TestBridgedByNetfilter: where br_netfilter hands bridged packets to the inet hooks, guests of one
// network still reach each other and their metadata.
func TestBridgedByNetfilter(t *testing.T) {
	const key = "/proc/sys/net/bridge/bridge-nf-call-iptables"
	before, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(key, []byte("1"), 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.WriteFile(key, before, 0) })
	m := open(t)
	apply(t, m, state0(), Options{MetadataPort: 7380})
	g1, g2 := guest(t, "sb1", mac1, ip1), guest(t, "sb2", mac2, ip2)
	serve(t, "169.254.169.254:7380")
	serveIn(t, g2, ":8080")
	ask(t, "guest to guest", g1, "10.77.0.12:8080", "10.77.0.11 mark 0")
	ask(t, "metadata", g1, metadata, "10.77.0.11 mark 101")
}

// TestConnectionsOutliveApply: a connection through the NAT goes on while the rules are replaced.
func TestConnectionsOutliveApply(t *testing.T) {
	m := open(t)
	apply(t, m, state0(), Options{})
	g1, w := guest(t, "sb1", mac1, ip1), world(t)
	var l net.Listener
	var c net.Conn
	var err error
	w.Do(func() { l, err = net.Listen("tcp4", "198.51.100.2:8080") })
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		if c, err := l.Accept(); err == nil {
			io.Copy(c, c)
			c.Close()
		}
	}()
	g1.Do(func() { c, err = net.DialTimeout("tcp4", "198.51.100.2:8080", patience) })
	if err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(c)
	for i, o := range []Options{{}, {MetadataPort: 7380}, {MetadataPort: 80}, {}} {
		apply(t, open(t), state0(), o)
		c.SetDeadline(time.Now().Add(patience))
		fmt.Fprintf(c, "line %d\n", i)
		if line, err := r.ReadString('\n'); err != nil || strings.TrimSpace(line) != fmt.Sprintf("line %d", i) {
			t.Fatalf("after Apply %d: %q, %v", i, line, err)
		}
	}
	c.Close()
	<-done
}
