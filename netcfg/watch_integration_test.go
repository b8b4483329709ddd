//go:build integration

package netcfg

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
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
	g1.Run(t, "ping", "-c1", "-W2", gw.String())

	if err := m.Cleanup(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	if out := netnstest.Run(t, "nft", "list", "ruleset") + netnstest.Run(t, "ip", "addr"); strings.Contains(out, "seedbed") || strings.Contains(out, "169.254") {
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
	g1.Run(t, "ping", "-c1", "-W2", gw.String())
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

func TestPortHolder(t *testing.T) {
	m := open(t)
	me, err := os.ReadFile("/proc/self/comm")
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("%s (pid %d)", strings.TrimSpace(string(me)), os.Getpid())
	asked := netip.MustParseAddrPort("169.254.169.254:8099")
	for name, tt := range map[string]struct{ network, addr, want string }{
		"nobody":             {"", "", ""},
		"every IPv4 address": {"tcp4", "0.0.0.0:8099", want},
		"dual stack":         {"tcp", "[::]:8099", want},
		"IPv6 alone":         {"tcp6", "[::]:8099", ""},
		"another address":    {"tcp4", "127.0.0.1:8099", ""},
		"another port":       {"tcp4", "0.0.0.0:8098", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.addr != "" {
				l, err := net.Listen(tt.network, tt.addr)
				if err != nil {
					t.Fatal(err)
				}
				defer l.Close()
			}
			if got, err := m.PortHolder(asked); err != nil || got != tt.want {
				t.Errorf("PortHolder = %q, %v, want %q", got, err, tt.want)
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
		done <- m.Follow(ctx, []string{"seedbed0", "absent0"}, func(b string, up bool) { events <- event{b, up} })
	}()
	next := func(want event) {
		t.Helper()
		select {
		case got := <-events:
			if got != want {
				t.Fatalf("event %v, want %v", got, want)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("no event, want %v", want)
		}
	}
	next(event{"seedbed0", true})
	next(event{"absent0", false})
	netnstest.Run(t, "ip", "link", "del", "seedbed0")
	next(event{"seedbed0", false})
	apply(t, m, state0(), Options{})
	next(event{"seedbed0", true})
	g1.Run(t, "ping", "-c1", "-W2", gw.String())
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
	if got, want := bad(), "tcp_fwmark_accept, ip_forward, other firewalls, bridge seedbed0"; got != want {
		t.Errorf("not OK: %s, want %s", got, want)
	}
}
