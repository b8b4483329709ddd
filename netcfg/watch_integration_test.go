//go:build integration

package netcfg

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"seedbed"
	"seedbed/netcfg/netnstest"
)

func TestCleanup(t *testing.T) {
	m := open(t)
	apply(t, m, state0(), Options{})
	g1 := guest(t, "sb1", mac1, ip1)
	netnstest.Veth(t, "foreign", netnstest.New(t), "52:54:00:aa:00:01")
	netnstest.Run(t, "ip", "link", "set", "foreign", "master", "seedbed0")

	before := ruleset(t)
	err := m.Cleanup(t.Context(), false)
	if !errors.Is(err, seedbed.ErrInUse) || !strings.Contains(err.Error(), "seedbed0 has foreign, sb1") {
		t.Errorf("Cleanup gave %v, want ErrInUse that names foreign and sb1", err)
	}
	if d := cmp.Diff(before, ruleset(t)); d != "" {
		t.Errorf("a refused Cleanup changed rules:\n%s", d)
	}
	g1.Run(t, "ping", "-c1", "-w30", gw.String())

	if err := m.Cleanup(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	if out := netnstest.Run(t, "nft", "list", "ruleset") + netnstest.Run(t, "ip", "addr"); strings.Contains(out, "seedbed") ||
		strings.Contains(out, "169.254") {
		t.Errorf("left behind:\n%s", out)
	}
	if err := m.Cleanup(t.Context(), false); err != nil {
		t.Errorf("a second Cleanup: %v", err)
	}
}

func TestNeighbour(t *testing.T) {
	m := open(t)
	apply(t, m, state0(), Options{})
	g1 := guest(t, "sb1", mac1, ip1)
	g1.Run(t, "ping", "-c1", "-w30", gw.String())
	br, err := net.InterfaceByName("seedbed0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				if got, err := m.Neighbour(t.Context(), br.Index, ip1); err != nil || got != mac1 {
					t.Errorf("Neighbour(%s) = %s, %v", ip1, got, err)
					return
				}
				if got, err := m.Neighbour(t.Context(), br.Index, ip2); !errors.Is(err, seedbed.ErrNotFound) {
					t.Errorf("Neighbour(%s) = %s, %v, want ErrNotFound", ip2, got, err)
					return
				}
			}
		})
	}
	wg.Wait()
	if _, err := m.Neighbour(t.Context(), 4711, ip1); !errors.Is(err, seedbed.ErrNotFound) {
		t.Errorf("on an interface that does not exist: %v, want ErrNotFound", err)
	}
}

func TestFreePrefixAvoidsRoutes(t *testing.T) {
	m := open(t)
	free := func(want string) {
		t.Helper()
		if got, err := m.FreePrefix(t.Context()); err != nil || got.String() != want {
			t.Errorf("FreePrefix = %v, %v, want %s", got, err, want)
		}
	}
	del := func(args ...string) { t.Cleanup(func() { netnstest.Run(t, "ip", args...) }) }
	netnstest.Run(t, "ip", "link", "add", "fp0", "type", "ifb")
	del("link", "del", "fp0")
	netnstest.Run(t, "ip", "link", "set", "fp0", "up")
	netnstest.Run(t, "ip", "addr", "add", "192.0.2.9/24", "dev", "fp0")
	netnstest.Run(t, "ip", "route", "add", "default", "via", "192.0.2.1")
	free("10.213.0.0/24")
	netnstest.Run(t, "ip", "addr", "add", "10.213.0.200/28", "dev", "fp0")
	free("10.213.1.0/24")
	netnstest.Run(t, "ip", "route", "add", "10.213.1.77/32", "via", "192.0.2.1", "table", "4242")
	free("10.213.2.0/24")
	netnstest.Run(t, "ip", "route", "add", "unreachable", "10.0.0.0/8")
	del("route", "del", "unreachable", "10.0.0.0/8")
	free("192.168.213.0/24")
}

// TestPortHolder: who keeps an address from being bound, other than ourselves.
func TestPortHolder(t *testing.T) {
	m := open(t)
	if _, err := net.Listen("tcp4", "169.254.169.254:8099"); err == nil {
		t.Fatal("the address is there before the bridge")
	}
	apply(t, m, state0(), Options{})
	own, err := net.Listen("tcp4", "169.254.169.254:8099")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := m.PortHolder(netip.MustParseAddrPort("169.254.169.254:8099")); err != nil || got != "" {
		t.Errorf("our own listener: %q, %v", got, err)
	}
	own.Close()
	const listen = "import socket,sys; s = socket.socket(getattr(socket, sys.argv[1])); s.setsockopt(1, 2, 1); s.setsockopt(41, 26, " +
		"int(sys.argv[4])) if sys.argv[1] == 'AF_INET6' else 0; " +
		"s.bind((sys.argv[2], int(sys.argv[3]))); s.listen(); print('ready', flush=True); sys.stdin.read()"
	for name, tt := range map[string]struct {
		family, addr, port, v6only string
		v4, v6                     bool
	}{
		"every IPv4 address": {"AF_INET", "0.0.0.0", "8099", "0", true, false},
		"dual stack":         {"AF_INET6", "::", "8099", "0", true, true},
		"IPv6 alone":         {"AF_INET6", "::", "8099", "1", false, true},
		"the IPv6 address":   {"AF_INET6", "fd00:ec2::254", "8099", "1", false, true},
		"another address":    {"AF_INET", "127.0.0.1", "8099", "0", false, false},
		"another port":       {"AF_INET", "0.0.0.0", "8098", "0", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			other := netnstest.Background(t, "python3", "-c", listen, tt.family, tt.addr, tt.port, tt.v6only)
			for addr, held := range map[string]bool{"169.254.169.254:8099": tt.v4, "[fd00:ec2::254]:8099": tt.v6} {
				h, err := m.PortHolder(netip.MustParseAddrPort(addr))
				want := ""
				if held {
					want = fmt.Sprintf("python3 (pid %d)", other.PID)
				}
				if err != nil || h != want {
					t.Errorf("PortHolder(%s) = %q, %v, want %q", addr, h, err, want)
				}
			}
		})
	}
}

// TestFollow: a bridge that somebody removes is reported, and Apply puts the guests back on it.
func TestFollow(t *testing.T) {
	m := open(t)
	apply(t, m, state0(), Options{})
	g1 := guest(t, "sb1", mac1, ip1)

	type event struct {
		bridge string
		up     bool
	}
	events := make(chan event, 100)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		done <- m.Follow(ctx, []string{"seedbed0", "absent0"}, nil, func(b string, up bool) { events <- event{b, up} })
	}()
	next := func(want event) {
		t.Helper()
		select {
		case got := <-events:
			if got != want {
				t.Fatalf("event %v, want %v", got, want)
			}
		case <-time.After(patience):
			t.Fatalf("no event, want %v", want)
		}
	}
	next(event{"seedbed0", true})
	next(event{"absent0", false})
	netnstest.Run(t, "ip", "link", "del", "seedbed0")
	next(event{"seedbed0", false})
	apply(t, m, state0(), Options{})
	next(event{"seedbed0", true})
	g1.Run(t, "ping", "-c1", "-w30", gw.String())
	netnstest.Run(t, "ip", "link", "set", "sb1", "nomaster") // gives RTM_DELLINK in family AF_BRIDGE
	netnstest.Run(t, "ip", "link", "set", "seedbed0", "down")
	next(event{"seedbed0", false})
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Follow ended with %v", err)
	}
}

func TestCheck(t *testing.T) {
	m := open(t)
	netnstest.Run(t, "sysctl", "-w", "net.ipv4.tcp_fwmark_accept=0")
	for _, c := range m.Check(t.Context()) {
		if !c.OK {
			t.Errorf("before there is a network: %+v", c)
		}
	}
	apply(t, m, state0(), Options{})
	bad := func() string {
		var out []string
		for _, c := range m.Check(t.Context()) {
			if !c.OK {
				out = append(out, c.Name)
			}
		}
		return strings.Join(out, ", ")
	}
	if got := bad(); got != "" {
		t.Errorf("not OK: %s\n%v", got, m.Check(t.Context()))
	}
	if out := netnstest.Run(t, "nft", "list", "ruleset"); strings.Contains(out, "seedbed-probe") {
		t.Errorf("the probe is seen:\n%s", out)
	}
	netnstest.Run(t, "sysctl", "-w", "net.ipv4.ip_forward=0", "net.ipv4.tcp_fwmark_accept=0", "net.ipv4.conf.seedbed0.rp_filter=1")
	netnstest.Run(t, "nft", "add table ip filter; add chain ip filter FORWARD { type filter hook forward priority 0; policy drop; }")
	t.Cleanup(func() { netnstest.Run(t, "nft", "delete table ip filter") })
	if got, want := bad(), "tcp_fwmark_accept, other firewalls, ip_forward, bridge seedbed0"; got != want {
		t.Errorf("not OK: %s, want %s", got, want)
	}
}

func TestHasLink(t *testing.T) {
	m := open(t)
	netnstest.Run(t, "ip", "link", "add", "sb4000000000", "type", "ifb")
	for range 2 {
		for name, want := range map[string]bool{"sb4000000000": true, "sb4": false, "sb400000000": false, "lo": true} {
			if got, err := m.HasLink(t.Context(), name); got != want || err != nil {
				t.Errorf("%s: %v, %v, want %v", name, got, err, want)
			}
		}
	}
	netnstest.Run(t, "ip", "link", "del", "sb4000000000")
	if got, err := m.HasLink(t.Context(), "sb4000000000"); got || err != nil {
		t.Errorf("after it went: %v, %v", got, err)
	}
	if _, err := m.HasLink(t.Context(), "a name that is too long"); !errors.Is(err, seedbed.ErrInvalid) {
		t.Errorf("a name that no link has: %v", err)
	}
}
