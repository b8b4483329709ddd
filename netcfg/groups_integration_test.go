//go:build integration

package netcfg

import (
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"seedbed"
	"seedbed/netcfg/netnstest"
)

func group(name string, rules ...string) seedbed.SecurityGroup {
	g := seedbed.SecurityGroup{Name: name}
	for _, text := range rules {
		r, err := seedbed.ParseSecurityRule(text)
		if err != nil {
			panic(err)
		}
		g.Rules = append(g.Rules, r)
	}
	return g
}

// TestGroups applies rules to two guests, and asks by TCP, UDP and ping between them, the node and a host outside.
func TestGroups(t *testing.T) {
	m := open(t)
	s := state0()
	set := func(t *testing.T, one, two []string, groups ...seedbed.SecurityGroup) {
		t.Helper()
		s.Groups, s.Ports[0].Groups, s.Ports[1].Groups = groups, one, two
		apply(t, m, s, Options{})
		for _, f := range []string{"4", "6"} {
			for _, k := range []string{"tcp", "udp", "echo", "other"} {
				netnstest.Run(t, "nft", "flush", "set", "bridge", "seedbed", "flows-"+k+f)
			}
		}
	}
	apply(t, m, s, Options{})
	w := world(t)
	serveIn(t, w, "198.51.100.2:8080")
	serve(t, "169.254.169.254:80")
	g1, g2 := guest(t, "sb1", mac1, ip1), guest(t, "sb2", mac2, ip2)
	for _, g := range []*netnstest.Namespace{g1, g2} {
		for _, at := range []string{":8080", ":8090"} {
			serveIn(t, g, at)
			g.Do(func() {
				l, err := net.Listen("tcp6", "[::]"+at)
				if err != nil {
					t.Fatal(err)
				}
				serveOn(t, l)
			})
		}
	}
	one, two := ip1.String(), ip2.String()
	tcp := func(t *testing.T, from *netnstest.Namespace, to string, want bool) {
		t.Helper()
		from.Do(func() {
			wait := patience
			if !want {
				wait = 400 * time.Millisecond
			}
			c, err := net.DialTimeout("tcp", to, wait)
			if err == nil {
				c.Close()
			}
			if (err == nil) != want {
				t.Errorf("TCP to %s: %v, want %t", to, err, want)
			}
		})
	}
	ping := func(t *testing.T, from *netnstest.Namespace, to string, want bool) {
		t.Helper()
		from.Do(func() {
			if err := netnstest.Try("ping", "-c1", map[bool]string{true: "-W20", false: "-W1"}[want], to); (err == nil) != want {
				t.Errorf("ping to %s: %v, want %t", to, err, want)
			}
		})
	}
	t.Run("open", func(t *testing.T) {
		set(t, []string{"open"}, nil)
		tcp(t, g1, two+":8080", true)
		tcp(t, g2, one+":8080", true)
	})
	t.Run("nothing", func(t *testing.T) {
		set(t, []string{"none"}, []string{"open"}, group("none"))
		tcp(t, g1, two+":8080", false)
		tcp(t, g2, one+":8080", false)
		tcp(t, g1, "198.51.100.2:8080", false)
		ping(t, g1, "10.77.0.1", false)
		ask(t, "metadata", g1, metadata, one+" mark 101")
		var l net.PacketConn
		g2.Do(func() {
			var err error
			if l, err = net.ListenPacket("udp4", ":67"); err != nil {
				t.Fatal(err)
			}
		})
		defer l.Close()
		g1.Do(func() {
			c, err := net.DialUDP("udp4", &net.UDPAddr{Port: 68}, &net.UDPAddr{IP: ip2.AsSlice(), Port: 67})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			c.Write([]byte("x"))
		})
		l.SetReadDeadline(time.Now().Add(400 * time.Millisecond))
		if _, _, err := l.ReadFrom(make([]byte, 1)); err == nil {
			t.Error("what looks like DHCP reached another guest")
		}
	})
	t.Run("a group that is not known", func(t *testing.T) {
		set(t, []string{"gone"}, nil)
		tcp(t, g1, two+":8080", false)
		tcp(t, g2, one+":8080", false)
	})
	t.Run("a group that is not understood", func(t *testing.T) {
		newer := group("newer", "in any", "out any")
		newer.Rules[0].Protocol = "quic"
		set(t, []string{"newer"}, nil, newer)
		tcp(t, g1, two+":8080", false)
		tcp(t, g2, one+":8080", false)
	})
	t.Run("out alone", func(t *testing.T) {
		set(t, []string{"client"}, nil, group("client", "out any"))
		tcp(t, g1, two+":8080", true)
		tcp(t, g1, "198.51.100.2:8080", true)
		ping(t, g1, two, true)
		tcp(t, g2, one+":8080", false)
		ping(t, g2, one, false)
	})
	t.Run("in by port and prefix", func(t *testing.T) {
		set(t, []string{"web", "admin"}, nil, group("web", "in tcp 8080 from 10.77.0.12/32", "in tcp 8090 from 10.77.0.128/25"),
			group("admin", "in tcp 8000-8089 from 10.77.0.0/30"))
		tcp(t, g2, one+":8080", true)
		tcp(t, g2, one+":8090", false)
		tcp(t, g1, two+":8080", false)
		askHere(t, "from the node", one+":8080", "10.77.0.1 mark 0")
		askHere(t, "from the node", one+":8090", "")
	})
	t.Run("ICMP types", func(t *testing.T) {
		set(t, []string{"pinged"}, nil, group("pinged", "in icmp 8 from any"))
		ping(t, g2, one, true)
		ping(t, g1, two, false)
		tcp(t, g2, one+":8080", false)
	})
	t.Run("members of groups", func(t *testing.T) {
		set(t, []string{"db"}, []string{"app"}, group("db", "in tcp 8080 from group app"), group("app", "out tcp to group db"))
		tcp(t, g2, one+":8080", true)
		tcp(t, g2, one+":8090", false)
		tcp(t, g2, "198.51.100.2:8080", false)
		set(t, []string{"db"}, []string{"app", "open"}, group("db", "in tcp 8080 from group app"), group("app"))
		tcp(t, g2, one+":8080", true)
		set(t, []string{"db"}, []string{"open"}, group("db", "in tcp 8080 from group app"), group("app"))
		tcp(t, g2, one+":8080", false)
	})
	t.Run("overlapping rules", func(t *testing.T) {
		set(t, []string{"a", "b"}, nil, group("a", "in any from 10.77.0.0/24", "in tcp 8080 from any", "in tcp 80-9000 from 10.0.0.0/8"),
			group("b", "in tcp 8080 from 10.77.0.12/32"))
		tcp(t, g2, one+":8080", true)
		tcp(t, g2, one+":8090", true)
	})
	t.Run("an error about a flow", func(t *testing.T) {
		set(t, []string{"client"}, nil, group("client", "out udp"))
		g1.Do(func() {
			c, err := net.Dial("udp", two+":9")
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			c.Write([]byte("x"))
			c.SetReadDeadline(time.Now().Add(patience))
			if _, err := c.Read(make([]byte, 1)); err == nil || !strings.Contains(err.Error(), "refused") {
				t.Errorf("UDP to a closed port: %v, want that it is refused", err)
			}
		})
	})
	t.Run("fragments", func(t *testing.T) {
		const long = "3000"
		pinged := func(want bool) {
			t.Helper()
			g2.Do(func() {
				if err := netnstest.Try("ping", "-c1", map[bool]string{true: "-W20", false: "-W1"}[want], "-s", long, one); (err == nil) != want {
					t.Errorf("a ping of %s bytes: %v, want %t", long, err, want)
				}
			})
		}
		set(t, []string{"pinged"}, nil, group("pinged", "in icmp 8 from any"))
		pinged(true)
		set(t, []string{"web"}, nil, group("web", "in tcp"))
		pinged(false)
	})
	t.Run("IPv6", func(t *testing.T) {
		link := func(n *netnstest.Namespace) string {
			out := n.Run(t, "ip", "-6", "-br", "addr", "show", "dev", "eth0", "scope", "link")
			return strings.Split(strings.Fields(out)[2], "/")[0]
		}
		l1, l2 := "["+link(g1)+"%eth0]", "["+link(g2)+"%eth0]"
		set(t, []string{"web"}, []string{"app"}, group("web", "in tcp 8080 from fe80::/10", "in tcp 8090 from group app"),
			group("app", "out any"))
		tcp(t, g2, l1+":8080", true)
		tcp(t, g2, l1+":8090", true)
		tcp(t, g1, l2+":8080", false)
		ping(t, g2, link(g1)+"%eth0", false)
		set(t, []string{"web"}, nil, group("web", "in icmp6 128 from any"))
		ping(t, g2, link(g1)+"%eth0", true)
		tcp(t, g2, l1+":8080", false)
	})
}

// TestGroupsKeepConnections changes rules and groups under a connection that stays, and begins another that does not.
func TestGroupsKeepConnections(t *testing.T) {
	m := open(t)
	s := state0()
	s.Groups = []seedbed.SecurityGroup{group("web", "in tcp 8080 from any")}
	s.Ports[0].Groups = []string{"web"}
	apply(t, m, s, Options{})
	g1, g2 := guest(t, "sb1", mac1, ip1), guest(t, "sb2", mac2, ip2)
	var l net.Listener
	g1.Do(func() {
		var err error
		if l, err = net.Listen("tcp4", ":8080"); err != nil {
			t.Fatal(err)
		}
	})
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { // an echo server
				b := make([]byte, 1)
				for {
					if _, err := c.Read(b); err != nil {
						return
					}
					c.Write(b)
				}
			}()
		}
	}()
	var c net.Conn
	g2.Do(func() {
		var err error
		if c, err = net.DialTimeout("tcp4", ip1.String()+":8080", patience); err != nil {
			t.Fatal(err)
		}
	})
	defer c.Close()
	alive := func(what string) {
		t.Helper()
		c.SetDeadline(time.Now().Add(patience))
		if _, err := c.Write([]byte("x")); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if _, err := c.Read(make([]byte, 1)); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	alive("at first")
	s.Groups = []seedbed.SecurityGroup{group("web")}
	apply(t, m, s, Options{})
	alive("without the rule")
	other := Port{Tap: "sb1", MAC: mac1, Addr: ip1, Mark: 101, Bridge: "seedbed0", Groups: []string{"other"}}
	if err := m.Change(t.Context(), Diff{Ports: []Port{other}}); err != nil {
		t.Fatal(err)
	}
	alive("in another group")
	g2.Do(func() {
		if c, err := net.DialTimeout("tcp4", ip1.String()+":8080", 400*time.Millisecond); err == nil {
			c.Close()
			t.Error("a new connection passed")
		}
	})
	if err := m.Verify(t.Context()); err != nil {
		t.Fatal(err)
	}
	alive("after the filters were compared")
	before := ruleset(t)
	apply(t, m, lists{Networks: s.Networks, Groups: s.Groups, Ports: slices.Concat([]Port{other}, s.Ports[1:])}, Options{})
	if d := cmp.Diff(before, ruleset(t)); d != "" {
		t.Errorf("the same state changed the filters:\n%s", d)
	}
}

// TestGroupsFlood has a guest begin more flows than it may. Those that it has, and the flows of others, are not affected.
func TestGroupsFlood(t *testing.T) {
	m := open(t)
	s := state0()
	s.Groups = []seedbed.SecurityGroup{group("all", "in any", "out any"), group("client", "out any")}
	s.Ports[0].Groups, s.Ports[1].Groups = []string{"client"}, []string{"all"}
	apply(t, m, s, Options{Connections: 16}) // 32 at once with the ping, and one a second
	// With br_netfilter, the node tracks connections between guests too, and bounds them by itself.
	netnstest.Try("sysctl", "-w", "net.bridge.bridge-nf-call-iptables=0")
	g1, g2 := guest(t, "sb1", mac1, ip1), guest(t, "sb2", mac2, ip2)
	serveIn(t, g2, ":8080")
	var l net.PacketConn
	g2.Do(func() {
		var err error
		if l, err = net.ListenPacket("udp4", ":9"); err != nil {
			t.Fatal(err)
		}
	})
	defer l.Close()
	began := time.Now()
	g1.Run(t, "ping", "-c1", "-W20", ip2.String()) // so that no packet waits for ARP
	var first net.Conn
	g1.Do(func() {
		for i := range 200 {
			c, err := net.Dial("udp4", ip2.String()+":9")
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if i == 0 {
				first = c
			}
			c.Write([]byte("new"))
		}
		first.Write([]byte("old"))
	})
	passed, old := 0, false
	for b := make([]byte, 8); ; {
		l.SetReadDeadline(time.Now().Add(400 * time.Millisecond))
		n, _, err := l.ReadFrom(b)
		if err != nil {
			break
		}
		if old = old || string(b[:n]) == "old"; string(b[:n]) == "new" {
			passed++
		}
	}
	if most := 33 + int(time.Since(began).Seconds()); passed < 31 || passed > most || !old {
		t.Errorf("%d new flows passed, want 31 to %d; a packet of the first one after that: %t", passed, most, old)
	}
	ask(t, "a further flow", g1, ip2.String()+":8080", "")
	netnstest.Run(t, "ping", "-c1", "-W5", ip2.String()) // another port's flow
}

// TestGroupsOnWire: a host on a bridged network does not pass for a guest whose security group a rule names.
func TestGroupsOnWire(t *testing.T) {
	m := open(t)
	w := newWire(t, "an interface")
	s := state0()
	w.bridged(&s, "10.79.0.0/24")
	s.Groups = []seedbed.SecurityGroup{group("db", "in tcp from group app"), group("app", "out any")}
	s.Ports[2].Groups, s.Ports[3].Groups = []string{"db"}, []string{"app"}
	apply(t, m, s, Options{})
	bridgedGuest(t, "sb3", "02:00:00:00:00:03", "10.79.0.3")
	g4 := bridgedGuest(t, "sb4", "02:00:00:00:00:04", "10.79.0.4")
	ask(t, "a member", g4, "10.79.0.3:8080", "10.79.0.4 mark 0")
	ask(t, "a host on the network", w.Namespace, "10.79.0.3:8080", "")
	netnstest.Run(t, "ip", "link", "set", "sb4", "down") // so that the host alone has the MAC
	w.Run(t, "ip", "link", "set", w.device, "address", "02:00:00:00:00:04")
	w.Run(t, "ip", "addr", "flush", "dev", w.device)
	w.Run(t, "ip", "addr", "add", "10.79.0.4/24", "dev", w.device)
	w.Run(t, "ip", "neigh", "replace", "10.79.0.3", "lladdr", "02:00:00:00:00:03", "dev", w.device)
	ask(t, "a host with the MAC of a member", w.Namespace, "10.79.0.3:8080", "")
}
