//go:build integration

package netcfg

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"seedbed"
	"seedbed/netcfg/netnstest"
)

// forwarding returns a forward in the text form of its listen.
func forwarding(t *testing.T, listen string, port uint16) seedbed.Forward {
	t.Helper()
	l, err := seedbed.ParseListen(listen)
	if err != nil {
		t.Fatal(err)
	}
	return seedbed.Forward{Listen: l, Port: port}
}

// forwarded is a node with a world outside, whose guest sb1 has forwards, a neighbour sb2, and a guest sb3 of another
// network of a kind.
func forwarded(
	t *testing.T, kind seedbed.NetworkKind, o Options, listens ...string,
) (m *Manager, s lists, w, g1, g2, g3 *netnstest.Namespace) {
	t.Helper()
	m, s = open(t), state0()
	for _, l := range listens {
		s.Ports[0].Forwards = append(s.Ports[0].Forwards, forwarding(t, l, 8080))
	}
	w, g1, g2, g3 = around(t, m, &s, kind, o)
	return m, s, w, g1, g2, g3
}

// around adds a network of a kind to a state and applies it, with a world outside that does not know the way to guests, the
// guests sb1 and sb2, and sb3 in the network.
func around(t *testing.T, m *Manager, s *lists, kind seedbed.NetworkKind, o Options) (w, g1, g2, g3 *netnstest.Namespace) {
	t.Helper()
	secondNetwork(s, kind, "10.78.0.0/24")
	w = world(t)
	w.Run(t, "ip", "route", "del", "10.0.0.0/8")
	apply(t, m, *s, o)
	serveIn(t, w, "198.51.100.2:9000")
	g1, g2 = guest(t, "sb1", mac1, ip1), guest(t, "sb2", mac2, ip2)
	serveIn(t, g1, ":8080")
	g3, _ = secondGuest(t, "10.78.0.0/24")
	return w, g1, g2, g3
}

// TestForwards asks a guest by a port of its node: from outside, from the node, from a guest beside it, from itself and
// from guests of other networks. With br_netfilter, the bridge does not send a guest its own packets.
func TestForwards(t *testing.T) {
	const gateway = "10.77.0.1 mark 0"
	for name, tt := range map[string]struct {
		kind           seedbed.NetworkKind
		bridgeNF       string
		itself, others string
	}{
		"nat":             {seedbed.NetworkNAT, "0", gateway, gateway},
		"routed":          {seedbed.NetworkRouted, "0", gateway, gateway},
		"isolated":        {seedbed.NetworkIsolated, "0", gateway, ""},
		"nat, bridged":    {seedbed.NetworkNAT, "1", "", gateway},
		"routed, bridged": {seedbed.NetworkRouted, "1", "", gateway},
	} {
		t.Run(name, func(t *testing.T) {
			if key := "net/bridge/bridge-nf-call-iptables"; tt.bridgeNF == "1" || exists("/proc/sys/"+key) {
				withOption(t, key, tt.bridgeNF)
			}
			_, _, w, g1, g2, g3 := forwarded(t, tt.kind, Options{}, "tcp:8000-8001", "tcp:198.51.100.1:8002")
			serve(t, "169.254.169.254:80")
			for _, port := range []string{"8000", "8002"} {
				at := "198.51.100.1:" + port
				ask(t, "from outside", w, at, "198.51.100.2 mark 0")
				askHere(t, "from the node", at, gateway)
				for range 3 { // a redirect would send the second another way
					ask(t, "from a neighbour", g2, at, gateway)
				}
				ask(t, "from itself", g1, at, tt.itself)
				ask(t, "from another network", g3, at, tt.others)
			}
			for _, at := range []string{"198.51.100.1:8001", "198.51.100.1:8003"} {
				ask(t, "a port to which nobody listens", w, at, "")
			}
			ask(t, "the gateway", g2, "10.77.0.1:8000", "")
			ask(t, "an address at which it is not", g2, "10.77.0.1:8002", "")
			ask(t, "metadata", g2, metadata, ip2.String()+" mark 102")
			ask(t, "out", g1, "198.51.100.2:9000", "198.51.100.1 mark 0")
			askHere(t, "the node itself", "127.0.0.1:8000", "")
		})
	}
}

// TestForwardOfMetadataPorts forwards the ports of metadata, DHCP and DNS: guests still reach those of the node.
func TestForwardOfMetadataPorts(t *testing.T) {
	for _, port := range []int{0, 8775} {
		t.Run(fmt.Sprint(port), func(t *testing.T) {
			_, _, w, _, g2, _ := forwarded(t, seedbed.NetworkNAT, Options{MetadataPort: port}, "tcp:80", "udp:67", "tcp:8775")
			at := "169.254.169.254:80"
			if port != 0 {
				at = fmt.Sprintf("169.254.169.254:%d", port)
			}
			serve(t, at)
			ask(t, "metadata", g2, metadata, ip2.String()+" mark 102")
			ask(t, "from outside", w, "198.51.100.1:80", "198.51.100.2 mark 0")
			l, err := net.ListenPacket("udp4", "10.77.0.1:67")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			g2.Do(func() {
				c, err := net.Dial("udp4", "10.77.0.1:67")
				if err != nil {
					t.Error(err)
					return
				}
				defer c.Close()
				dhcp := make([]byte, 240)
				copy(dhcp[28:], mac2[:]) // chaddr
				c.Write(dhcp)
			})
			l.SetDeadline(time.Now().Add(patience))
			if _, _, err := l.ReadFrom(make([]byte, 300)); err != nil {
				t.Error("DHCP:", err)
			}
		})
	}
}

// TestForwardsChange moves a port from one guest to another and takes it away, while connections go on: they end with their
// forward.
func TestForwardsChange(t *testing.T) {
	m, s, w, g1, g2, _ := forwarded(t, seedbed.NetworkNAT, Options{}, "tcp:8000")
	for _, g := range []*netnstest.Namespace{g1, g2} {
		g.Do(func() {
			l, err := net.Listen("tcp4", ":7000")
			if err != nil {
				t.Error(err)
				return
			}
			t.Cleanup(func() { l.Close() })
			go func() {
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					go io.Copy(c, c)
				}
			}()
		})
	}
	move := func(to int) {
		t.Helper()
		s.Ports[0].Forwards, s.Ports[1].Forwards = nil, nil
		if to >= 0 {
			s.Ports[to].Forwards = []seedbed.Forward{forwarding(t, "tcp:8000", 7000)}
		}
		if err := m.Change(t.Context(), Diff{Ports: s.Ports[:2]}); err != nil {
			t.Fatal(err)
		}
	}
	dial := func(from *netnstest.Namespace) net.Conn {
		t.Helper()
		var c net.Conn
		var err error
		from.Do(func() { c, err = net.DialTimeout("tcp", "198.51.100.1:8000", patience) })
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	echoes := func(what string, c net.Conn, want bool) {
		t.Helper()
		wait := patience
		if !want {
			wait = 400 * time.Millisecond
		}
		c.SetDeadline(time.Now().Add(wait))
		c.Write([]byte("x"))
		if _, err := c.Read(make([]byte, 1)); (err == nil) != want {
			t.Errorf("%s: %v, want an answer: %t", what, err, want)
		}
	}
	restarted := open(t) // lists the rules
	apply(t, restarted, s, Options{})
	move(0)
	first, near := dial(w), dial(g2)
	echoes("first", first, true)
	echoes("of a neighbour", near, true)
	s.Networks[0].MTU = 1400
	if err := m.Apply(t.Context(), s.state(), Options{}); err != nil {
		t.Fatal(err)
	}
	echoes("after another change", first, true)
	move(1)
	echoes("after the move", first, false)
	echoes("of a neighbour, after the move", near, false)
	second := dial(w)
	echoes("second", second, true)
	move(-1)
	echoes("after the removal", second, false)
	ask(t, "of no forward", w, "198.51.100.1:8000", "")
	if rules := netnstest.Run(t, "nft", "list", "table", "inet", "seedbed"); !strings.Contains(rules, "dnat ip to") {
		t.Error("nft does not show the rules:\n" + rules)
	}
}

// TestForwardsByGroup checks that security groups decide on what a forward brings, by where it comes from.
func TestForwardsByGroup(t *testing.T) {
	m, s, w, _, g2, _ := forwarded(t, seedbed.NetworkNAT, Options{}, "tcp:8000", "udp:8000")
	s.Groups = []seedbed.SecurityGroup{group("web", "in tcp 8080 from 198.51.100.0/24")}
	s.Ports[0].Groups = []string{"web"}
	apply(t, m, s, Options{})
	ask(t, "from outside", w, "198.51.100.1:8000", "198.51.100.2 mark 0")
	ask(t, "from a neighbour", g2, "198.51.100.1:8000", "")
	s.Groups[0].Rules = nil
	apply(t, m, s, Options{})
	ask(t, "without a rule", w, "198.51.100.1:8000", "")
}

// TestForwardsUDP sends datagrams to a guest, with fragments. The guest learns that one did not arrive which it sent back.
func TestForwardsUDP(t *testing.T) {
	_, _, w, g1, _, _ := forwarded(t, seedbed.NetworkNAT, Options{}, "udp:8000")
	var l, errs net.PacketConn
	var err error
	g1.Do(func() { errs, err = net.ListenPacket("ip4:icmp", "0.0.0.0") })
	if err != nil {
		t.Fatal(err)
	}
	defer errs.Close()
	g1.Do(func() { l, err = net.ListenPacket("udp4", ":8080") })
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		b := make([]byte, 1<<16)
		for {
			n, from, err := l.ReadFrom(b)
			if err != nil {
				return
			}
			l.WriteTo(b[:n], from)
		}
	}()
	for _, size := range []int{1, 5000} {
		var c net.Conn
		w.Do(func() { c, err = net.Dial("udp4", "198.51.100.1:8000") })
		if err != nil {
			t.Fatal(err)
		}
		c.SetDeadline(time.Now().Add(patience))
		c.Write(make([]byte, size))
		if n, err := c.Read(make([]byte, 1<<16)); n != size || err != nil {
			t.Errorf("%d bytes came back of %d: %v", n, size, err)
		}
		to := c.LocalAddr()
		c.Close()
		if size > 1 {
			continue
		}
		if _, err := l.WriteTo([]byte("late"), to); err != nil {
			t.Error(err)
		}
		errs.SetDeadline(time.Now().Add(patience))
		b := make([]byte, 1<<10)
		if n, _, err := errs.ReadFrom(b); err != nil || n < 8 || b[0] != 3 {
			t.Errorf("ICMP % x: %v; want that the port is unreachable", b[:max(n, 0)], err)
		}
	}
}

// TestForwardsOfEqualNetworks has an isolated network with the addresses of the guest's: what its guests send does not
// reach a forward.
func TestForwardsOfEqualNetworks(t *testing.T) {
	m, s, w, _, _, _ := forwarded(t, seedbed.NetworkNAT, Options{}, "tcp:8000")
	s.Networks[1].Kind, s.Networks[1].NAT = seedbed.NetworkIsolated, false
	s.Networks[1].Prefix, s.Networks[1].Gateway = s.Networks[0].Prefix, s.Networks[0].Gateway
	s.Ports[2].Addr = netip.MustParseAddr("10.77.0.3")
	apply(t, m, s, Options{})
	g := netnstest.New(t)
	netnstest.Veth(t, "sb4", g, "02:00:00:00:00:04")
	s.Ports = append(s.Ports, Port{Tap: "sb4", MAC: seedbed.MAC{2, 0, 0, 0, 0, 4}, Addr: ip2, Mark: 104, Bridge: "sb-lab"})
	apply(t, m, s, Options{})
	netnstest.Run(t, "ip", "link", "set", "sb4", "master", "sb-lab")
	g.Run(t, "ip", "addr", "add", ip2.String()+"/24", "dev", "eth0")
	g.Run(t, "ip", "route", "add", "default", "via", "10.77.0.1")
	ask(t, "from an isolated network", g, "198.51.100.1:8000", "")
	ask(t, "from outside", w, "198.51.100.1:8000", "198.51.100.2 mark 0")
}

// TestACLs checks that the ACLs of a network confine guests in open and add to what guests in default receive, that other groups are
// not changed by them, and that nothing is closed without a drop.
func TestACLs(t *testing.T) {
	m, s, w, g1, g2, _ := forwarded(t, seedbed.NetworkNAT, Options{}, "tcp:8000")
	serveIn(t, w, "198.51.100.2:8081")
	acl := func(d seedbed.Direction, rules ...string) seedbed.NetworkACL {
		return seedbed.NetworkACL{Direction: d, Accepts: group("", rules...).Rules, Drop: len(rules) == 0}
	}
	s.Groups = []seedbed.SecurityGroup{group("default"), group("web", "in tcp 8080")}
	const in, out = seedbed.DirectionIn, seedbed.DirectionOut
	for _, tt := range []struct {
		name                          string
		acls                          []seedbed.NetworkACL
		group                         string
		outside, neighbour, one, more bool // reach the guest from there, and the guest reaches two ports there
	}{
		{"none", nil, "", true, true, true, true},
		{"accepted alone", []seedbed.NetworkACL{acl(in, "in tcp 22"), acl(out, "out tcp 8081")}, "", true, true, true, true},
		{"dropped in", []seedbed.NetworkACL{acl(in, "in tcp 22"), acl(in)}, "", false, true, true, true},
		{"dropped but for a port", []seedbed.NetworkACL{acl(in, "in tcp 8080 from 198.51.100.0/24"), acl(in)}, "open", true, true, true, true},
		{"accepted too late", []seedbed.NetworkACL{acl(in), acl(in, "in tcp 8080")}, "", false, true, true, true},
		{"dropped out", []seedbed.NetworkACL{acl(out, "out tcp 8081"), acl(out)}, "", true, true, true, false},
		{"of default", nil, "default", false, false, false, false},
		{"of default, accepted", []seedbed.NetworkACL{acl(in, "in tcp 8080 from 198.51.100.0/24")}, "default", true, false, false, false},
		{"of another group", []seedbed.NetworkACL{acl(out, "out any"), acl(in)}, "web", true, true, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s.Networks[0].ACLs, s.Ports[0].Groups = tt.acls, nil
			if tt.group != "" {
				s.Ports[0].Groups = []string{tt.group}
			}
			apply(t, m, s, Options{})
			for _, f := range []string{"4", "6"} {
				netnstest.Run(t, "nft", "flush", "set", "bridge", "seedbed", "flows-tcp"+f)
			}
			reach := func(what string, from *netnstest.Namespace, to string, want bool) {
				t.Helper()
				from.Do(func() {
					c, err := net.DialTimeout("tcp4", to, map[bool]time.Duration{true: patience, false: 400 * time.Millisecond}[want])
					if err == nil {
						c.Close()
					}
					if (err == nil) != want {
						t.Errorf("%s: %v, want %t", what, err, want)
					}
				})
			}
			reach("from outside", w, "198.51.100.1:8000", tt.outside)
			reach("from a neighbour", g2, ip1.String()+":8080", tt.neighbour)
			reach("to one port", g1, "198.51.100.2:8081", tt.one)
			reach("to another port", g1, "198.51.100.2:9000", tt.more)
		})
	}
}
