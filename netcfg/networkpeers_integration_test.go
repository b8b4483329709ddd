//go:build integration

package netcfg

import (
	"context"
	"io"
	"net"
	"net/netip"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"seedbed"
	"seedbed/netcfg/netnstest"
)

// peerNetworks peers two networks of a state, or ends that.
func peerNetworks(s *lists, one, other int, on bool) {
	s.Networks[one].Peers, s.Networks[other].Peers = nil, nil
	if on {
		s.Networks[one].Peers, s.Networks[other].Peers = []string{s.Networks[other].Name}, []string{s.Networks[one].Name}
	}
}

// listen6 answers as serveIn does, at an IPv6 address that the namespace gets, with a default route.
func listen6(t *testing.T, g *netnstest.Namespace, addr netip.Addr) string {
	t.Helper()
	g.Run(t, "sysctl", "-w", "net.ipv6.conf.eth0.accept_dad=0")
	g.Run(t, "ip", "-6", "addr", "add", addr.String()+"/64", "dev", "eth0", "nodad")
	g.Run(t, "ip", "-6", "route", "replace", "default", "via", "fe80::a9fe:a9fe", "dev", "eth0")
	to := netip.AddrPortFrom(addr, 8080).String()
	var l net.Listener
	var err error
	g.Do(func() { l, err = net.Listen("tcp6", to) })
	if err != nil {
		t.Fatal(err)
	}
	serveOn(t, l)
	return to
}

// echoIn says back what it is told in a namespace.
func echoIn(t *testing.T, g *netnstest.Namespace, addr string) {
	t.Helper()
	var l net.Listener
	var err error
	g.Do(func() { l, err = net.Listen("tcp4", addr) })
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		defer context.AfterFunc(t.Context(), func() { c.Close() })() // its other end is out of reach by then
		io.Copy(c, c)
	}()
	t.Cleanup(func() { l.Close(); <-done })
}

// TestNetworkPeers: guests of two peers reach each other with their own addresses, by IPv4 and IPv6, and those of a third network,
// which has the addresses of one of them, reach nobody. A connection ends with the peering.
func TestNetworkPeers(t *testing.T) {
	const prefix = "10.78.0.0/24"
	nat, routed, isolated := seedbed.NetworkNAT, seedbed.NetworkRouted, seedbed.NetworkIsolated
	for name, tt := range map[string]struct {
		kinds    [2]seedbed.NetworkKind
		bridgeNF string
	}{
		"NAT and NAT":                         {[2]seedbed.NetworkKind{nat, nat}, "0"},
		"NAT and routed":                      {[2]seedbed.NetworkKind{nat, routed}, "0"},
		"NAT and isolated":                    {[2]seedbed.NetworkKind{nat, isolated}, "0"},
		"isolated":                            {[2]seedbed.NetworkKind{isolated, isolated}, "0"},
		"NAT, with br_netfilter":              {[2]seedbed.NetworkKind{nat, nat}, "1"},
		"NAT and isolated, with br_netfilter": {[2]seedbed.NetworkKind{nat, isolated}, "1"},
		"isolated, with br_netfilter":         {[2]seedbed.NetworkKind{isolated, isolated}, "1"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, key := range []string{"net/bridge/bridge-nf-call-iptables", "net/bridge/bridge-nf-call-ip6tables"} {
				if tt.bridgeNF == "1" || exists("/proc/sys/"+key) {
					withOption(t, key, tt.bridgeNF)
				}
			}
			m := open(t)
			s := state0()
			s.Networks[0].Kind, s.Networks[0].NAT = tt.kinds[0], tt.kinds[0] == nat
			p := netip.MustParsePrefix(prefix)
			s.Networks = append(s.Networks, seedbed.Network{Name: "twin", Kind: isolated, Bridge: "sb-twin",
				MAC: seedbed.MAC{0x52, 0x54, 0, 0xb0, 0, 3}, Prefix: p, Gateway: p.Addr().Next()})
			apply(t, m, s, Options{}) // the twin's route is older
			secondNetwork(&s, tt.kinds[1], prefix)
			s.Networks[0].Prefix6 = netip.MustParsePrefix("fd12:3456:789a:1::/64")
			s.Networks[2].Prefix6 = netip.MustParsePrefix("fd12:3456:789a:2::/64")
			s.Ports = append(s.Ports, Port{Tap: "sb5", MAC: seedbed.MAC{2, 0, 0, 0, 0, 5}, Addr: netip.MustParseAddr("10.78.0.9"), Mark: 105,
				Bridge: "sb-twin"})
			apply(t, m, s, Options{})
			w := world(t)
			serveIn(t, w, "198.51.100.2:8080")
			g1 := guest(t, "sb1", mac1, ip1)
			serveIn(t, g1, ":8080")
			g3, addr := secondGuest(t, prefix)
			six1 := listen6(t, g1, s.Networks[0].Addr6(mac1))
			six3 := listen6(t, g3, s.Networks[2].Addr6(s.Ports[2].MAC))
			g5 := netnstest.New(t)
			netnstest.Veth(t, "sb5", g5, "02:00:00:00:00:05")
			netnstest.Run(t, "ip", "link", "set", "sb5", "master", "sb-twin")
			g5.Run(t, "ip", "addr", "add", "10.78.0.9/24", "dev", "eth0")
			g5.Run(t, "ip", "route", "add", "default", "via", "10.78.0.1")
			serveIn(t, g5, ":8080")
			apart := func(when string) {
				ask(t, when+": to the other network", g1, addr+":8080", "")
				ask(t, when+": back", g3, ip1.String()+":8080", "")
				ask(t, when+": over IPv6", g1, six3, "")
				ask(t, when+": back over IPv6", g3, six1, "")
			}
			out := ""
			if tt.kinds[0] == nat {
				out = "198.51.100.1 mark 0"
			}
			apart("before")
			peerNetworks(&s, 0, 2, true)
			apply(t, m, s, Options{})
			ask(t, "to a peer", g1, addr+":8080", ip1.String()+" mark 0")
			ask(t, "from a peer", g3, ip1.String()+":8080", addr+" mark 0")
			ask(t, "to a peer over IPv6", g1, six3, s.Networks[0].Addr6(mac1).String()+" mark 0")
			ask(t, "from a peer over IPv6", g3, six1, s.Networks[2].Addr6(s.Ports[2].MAC).String()+" mark 0")
			if !answers(true, g1, addr) || !answers(true, g3, ip1.String(), "-s", "3000") {
				t.Error("peers do not answer a ping")
			}
			ask(t, "to a third network", g1, "10.78.0.9:8080", "")
			ask(t, "from a third network", g5, ip1.String()+":8080", "")
			ask(t, "outside", g1, "198.51.100.2:8080", out)
			if tt.kinds[1] != routed {
				ask(t, "from outside", w, addr+":8080", "")
			}
			tracked := regexp.MustCompile(` src=` + regexp.QuoteMeta(ip1.String()) + ` dst=` + regexp.QuoteMeta(addr) + ` `)
			if out := netnstest.Run(t, "sh", "-c", "cat /proc/net/nf_conntrack 2>/dev/null || true"); tracked.MatchString(out) {
				t.Errorf("connections of peers are tracked:\n%s", out)
			}

			echoIn(t, g3, ":8081")
			var c net.Conn
			var err error
			g1.Do(func() { c, err = net.DialTimeout("tcp", addr+":8081", patience) })
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			says := func() error {
				if _, err := c.Write([]byte("x")); err != nil {
					return err
				}
				_, err := io.ReadFull(c, make([]byte, 1))
				return err
			}
			c.SetDeadline(time.Now().Add(patience))
			if err := says(); err != nil {
				t.Error(err)
			}
			peerNetworks(&s, 0, 2, false)
			apply(t, m, s, Options{})
			c.SetDeadline(time.Now().Add(time.Second))
			if err := says(); !os.IsTimeout(err) {
				t.Errorf("a connection after the end of the peering: %v, want that nothing comes", err)
			}
			apart("after")
			ask(t, "outside, after", g1, "198.51.100.2:8080", out)
		})
	}
}

// TestUnknownGuestsOfPeers: the node does not ask on the link for an address of a peer that no guest has, and what goes to a peer
// does not leave by another route of the node.
func TestUnknownGuestsOfPeers(t *testing.T) {
	m := open(t)
	s := state0()
	secondNetwork(&s, seedbed.NetworkIsolated, "10.80.0.0/16")
	peerNetworks(&s, 0, 1, true)
	apply(t, m, s, Options{})
	w := world(t)
	serveIn(t, w, "198.51.100.2:8080")
	g1 := guest(t, "sb1", mac1, ip1)
	_, addr := secondGuest(t, "10.80.0.0/16")
	ask(t, "to a guest", g1, addr+":8080", ip1.String()+" mark 0")
	for _, link := range []string{"seedbed0", "sb1"} {
		ifi, err := net.InterfaceByName(link)
		if err != nil {
			t.Fatal(err)
		}
		g1.Run(t, "ip", "neigh", "replace", gw.String(), "lladdr", ifi.HardwareAddr.String(), "dev", "eth0", "nud", "permanent")
		if echoes(g1, "10.80.77.7") {
			t.Error("an address that no guest has answers")
		}
		if out := netnstest.Run(t, "ip", "neigh", "show", "dev", "sb-lab"); strings.Contains(out, "10.80.77.7") {
			t.Errorf("by %s, the node asks for an address that no guest has:\n%s", link, out)
		}
	}
	w.Run(t, "ip", "addr", "add", "10.80.5.5/32", "dev", "lo")
	netnstest.Run(t, "ip", "route", "add", "10.80.5.5/32", "via", "198.51.100.2")
	ask(t, "by another route", g1, "10.80.5.5:8080", "")
	if out := w.Run(t, "cat", "/proc/net/arp"); strings.Contains(out, ip1.String()) {
		t.Errorf("a guest's address left the node:\n%s", out)
	}
}
