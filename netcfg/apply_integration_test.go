//go:build integration

package netcfg

import (
	"errors"
	"fmt"
	"math/bits"
	"net/netip"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"seedbed"
	"seedbed/netcfg/netnstest"
)

func TestApplyMakesTheBridge(t *testing.T) {
	m := open(t)
	apply(t, m, state0(), Options{})

	out := netnstest.Run(t, "ip", "-d", "addr", "show", "seedbed0")
	for _, want := range []string{
		"UP", "52:54:00:b0:00:01", "alias seedbed:default", "forward_delay 0 ", "stp_state 0 ",
		"inet 10.77.0.1/24 brd 10.77.0.255 scope global", "inet 169.254.169.254/32 scope link",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	for path, want := range map[string]string{
		"net/ipv4/tcp_fwmark_accept":            "1",
		"net/ipv4/ip_forward":                   "1",
		"net/ipv4/conf/seedbed0/accept_local":   "1",
		"net/ipv4/conf/seedbed0/rp_filter":      "0",
		"net/ipv4/conf/seedbed0/route_localnet": "0",
	} {
		b, err := os.ReadFile("/proc/sys/" + path)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.TrimSpace(string(b)); got != want {
			t.Errorf("%s is %s, want %s", path, got, want)
		}
	}
}

// TestApplyTwiceChangesNothing: handles would change with anything that is written again, and so
// would the interface index.
func TestApplyTwiceChangesNothing(t *testing.T) {
	m := open(t)
	apply(t, m, state0(), Options{})
	// The kernel settles these by itself, some time after a change.
	settling := regexp.MustCompile(`(NO-CARRIER,|,LOWER_UP)| state \S+| tentative`)
	listed := func() string { return settling.ReplaceAllString(netnstest.Run(t, "ip", "addr"), "") }
	rules, links := ruleset(t), listed()
	for name, again := range map[string]*Manager{"same manager": m, "after a restart": open(t)} {
		apply(t, again, state0(), Options{})
		if d := cmp.Diff(rules, ruleset(t)); d != "" {
			t.Errorf("%s: rules changed (-before +after):\n%s", name, d)
		}
		if d := cmp.Diff(links, listed()); d != "" {
			t.Errorf("%s: links changed (-before +after):\n%s", name, d)
		}
	}
}

// TestApplyWritesOnlyTheDifference: the rules keep their handles while ports come, change and go.
func TestApplyWritesOnlyTheDifference(t *testing.T) {
	m := open(t)
	s := state0()
	apply(t, m, s, Options{})
	handles := netnstest.Run(t, "nft", "-a", "list", "chain", "bridge", "seedbed", "pre")

	s.Ports[0].Mark, s.Ports[1].Addr = 555, netip.MustParseAddr("10.77.0.99")
	s.Ports = append(s.Ports, Port{Tap: "sb3", MAC: seedbed.MAC{2, 0, 0, 0, 0, 3}, Addr: netip.MustParseAddr("10.77.0.13"),
		Mark: 103, Bridge: "seedbed0"})
	apply(t, m, s, Options{})
	// nft shows marks in the wrong byte order, since the library cannot tell it the right one.
	want := netnstest.Run(t, "nft", "list", "map", "bridge", "seedbed", "who")
	for _, e := range []string{`"sb1" . 52:54:00:00:00:01 : 0x2b020000`, `"sb3" . 02:00:00:00:00:03 : 0x67000000`} {
		if !strings.Contains(want, e) {
			t.Errorf("no element %s in\n%s", e, want)
		}
	}
	if out := netnstest.Run(t, "nft", "list", "set", "bridge", "seedbed", "addrs"); !strings.Contains(out,
		`"sb2" . 10.77.0.99`) || strings.Contains(out, "10.77.0.12") {
		t.Errorf("addrs after a change:\n%s", out)
	}

	s.Ports = s.Ports[2:]
	apply(t, m, s, Options{})
	if out := netnstest.Run(t, "nft", "list", "table", "bridge", "seedbed"); strings.Contains(out, `"sb1"`) {
		t.Errorf("sb1 is still known:\n%s", out)
	}
	if d := cmp.Diff(handles, netnstest.Run(t, "nft", "-a", "list", "chain", "bridge", "seedbed", "pre")); d != "" {
		t.Errorf("the rules were written again (-before +after):\n%s", d)
	}
}

func TestApplyRepairs(t *testing.T) {
	m := open(t)
	apply(t, m, state0(), Options{})
	good := stripHandles(ruleset(t))
	for name, damage := range map[string][]string{
		"a table gone":   {"nft", "delete", "table", "bridge", "seedbed"},
		"a chain empty":  {"nft", "flush", "chain", "inet", "seedbed", "input"},
		"a set empty":    {"nft", "flush", "set", "bridge", "seedbed", "addrs"},
		"a rule more":    {"nft", "insert", "rule", "inet", "seedbed", "input", "accept"},
		"the alias gone": {"ip", "link", "set", "seedbed0", "alias", ""},
		"an address off": {"ip", "addr", "del", "10.77.0.1/24", "dev", "seedbed0"},
		"an address on":  {"ip", "addr", "add", "10.77.0.5/24", "dev", "seedbed0"},
		"down":           {"ip", "link", "set", "seedbed0", "down"},
	} {
		netnstest.Run(t, damage[0], damage[1:]...)
		apply(t, m, state0(), Options{})
		if d := cmp.Diff(good, stripHandles(ruleset(t))); d != "" {
			t.Errorf("%s (-good +after):\n%s", name, d)
		}
		out := netnstest.Run(t, "ip", "-d", "addr", "show", "seedbed0")
		for _, want := range []string{",UP", "52:54:00:b0:00:01", "alias seedbed:default", "10.77.0.1/24", "169.254.169.254/32"} {
			if !strings.Contains(out, want) {
				t.Errorf("%s: no %q in\n%s", name, want, out)
			}
		}
		if strings.Contains(out, "10.77.0.5") {
			t.Errorf("%s: a foreign address stayed:\n%s", name, out)
		}
	}
}

func stripHandles(s string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		lines[i], _, _ = strings.Cut(l, " # handle")
	}
	return strings.Join(lines, "\n")
}

func TestApplyLeavesForeignInterfaces(t *testing.T) {
	for name, make := range map[string][]string{
		"a bridge":  {"ip", "link", "add", "seedbed0", "type", "bridge"},
		"no bridge": {"ip", "link", "add", "seedbed0", "type", "ifb"},
		"another of ours": {"sh", "-c",
			"ip link add seedbed0 type bridge && ip link set seedbed0 alias seedbed:other && ip link add sb77 master seedbed0 type ifb"},
	} {
		t.Run(name, func(t *testing.T) {
			m := open(t)
			netnstest.Run(t, make[0], make[1:]...)
			t.Cleanup(func() { netnstest.Run(t, "sh", "-c", "ip link del seedbed0; ip link del sb77 2>/dev/null || true") })
			s := state0()
			other := network0()
			other.Name, other.Bridge, other.MAC[5] = "lab", "seedbed1", 9
			other.Prefix, other.Gateway = netip.MustParsePrefix("10.78.0.0/24"), netip.MustParseAddr("10.78.0.1")
			s.Networks = append(s.Networks, other)
			before := netnstest.Run(t, "ip", "addr", "show", "seedbed0")
			err := m.Apply(t.Context(), s.state(), Options{})
			if !errors.Is(err, seedbed.ErrConflict) {
				t.Errorf("Apply gave %v, want ErrConflict", err)
			}
			if left, ok := errors.AsType[*LeftOut](err); !ok || len(left.Networks) != 1 || left.Networks["default"] == nil {
				t.Errorf("Apply gave a %T, want that default alone was left out", err)
			}
			if d := cmp.Diff(before, netnstest.Run(t, "ip", "addr", "show", "seedbed0")); d != "" {
				t.Errorf("the foreign interface changed:\n%s", d)
			}
			if out := netnstest.Run(t, "ip", "addr", "show", "seedbed1"); !strings.Contains(out, "10.78.0.1/24") {
				t.Errorf("the other network was not applied:\n%s", out)
			}
			if out := netnstest.Run(t, "nft", "list", "ruleset"); strings.Contains(out, `"sb1"`) {
				t.Errorf("ports of the conflicting network got elements:\n%s", out)
			}
		})
	}
}

// TestApplyLeavesAnotherInstallation: a bridge with our alias and another MAC was made by a Seedbed
// with another database, and may have guests.
func TestApplyLeavesAnotherInstallation(t *testing.T) {
	m := open(t)
	netnstest.Run(t, "ip", "link", "add", "seedbed0", "address", "52:54:00:b0:00:02", "type", "bridge")
	netnstest.Run(t, "ip", "link", "set", "seedbed0", "alias", "seedbed:default")
	netnstest.Run(t, "ip", "link", "set", "seedbed0", "addrgenmode", "none") // no address that is tentative for a moment
	netnstest.Run(t, "ip", "link", "set", "seedbed0", "up")
	before := netnstest.Run(t, "ip", "addr", "show", "seedbed0")
	for _, s := range []lists{{Networks: state0().Networks}, state0()} {
		err := m.Apply(t.Context(), s.state(), Options{})
		if !errors.Is(err, seedbed.ErrConflict) {
			t.Fatalf("Apply gave %v, want ErrConflict", err)
		}
		for _, want := range []string{"seedbed0", "52:54:00:b0:00:02", "another installation of Seedbed",
			"seedbed-metadata --cleanup", "another bridge name"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q does not say %q", err, want)
			}
		}
		if d := cmp.Diff(before, netnstest.Run(t, "ip", "addr", "show", "seedbed0")); d != "" {
			t.Errorf("the bridge changed:\n%s", d)
		}
	}
	var checks []seedbed.Check
	for _, c := range m.Check(t.Context()) {
		if c.Name == "bridge seedbed0" {
			checks = append(checks, c)
		}
	}
	if len(checks) != 1 || checks[0].OK || !strings.Contains(checks[0].Detail, "another installation of Seedbed") {
		t.Errorf("checks %+v", checks)
	}
	netnstest.Run(t, "ip", "link", "set", "seedbed0", "address", network0().MAC.String())
	apply(t, m, state0(), Options{})
}

// TestApplyAdoptsAHalfMadeBridge: a crash between creation and alias.
func TestApplyAdoptsAHalfMadeBridge(t *testing.T) {
	m := open(t)
	netnstest.Run(t, "ip", "link", "add", "seedbed0", "address", "52:54:00:b0:00:01", "type", "bridge")
	apply(t, m, state0(), Options{})
	if out := netnstest.Run(t, "ip", "link", "show", "seedbed0"); !strings.Contains(out, "alias seedbed:default") {
		t.Errorf("no alias:\n%s", out)
	}
}

func TestNetworkRemovedFromState(t *testing.T) {
	m := open(t)
	apply(t, m, state0(), Options{})
	n := netnstest.New(t)
	netnstest.Veth(t, "sb1", n, mac1.String())
	netnstest.Run(t, "ip", "link", "set", "sb1", "master", "seedbed0")

	apply(t, m, lists{}, Options{})
	if out := netnstest.Run(t, "nft", "list", "set", "inet", "seedbed", "bridges"); !strings.Contains(out, `"seedbed0"`) {
		t.Errorf("a bridge with a port attached is no longer closed:\n%s", out)
	}
	netnstest.Run(t, "ip", "link", "set", "sb1", "nomaster")
	apply(t, m, lists{}, Options{})
	if out := netnstest.Run(t, "ip", "link"); strings.Contains(out, "seedbed0") {
		t.Errorf("the bridge is still there:\n%s", out)
	}
}

func TestStrictRPFilterElsewhere(t *testing.T) {
	netnstest.Run(t, "sysctl", "-w", "net.ipv4.conf.all.rp_filter=1")
	t.Cleanup(func() { netnstest.Run(t, "sysctl", "-w", "net.ipv4.conf.all.rp_filter=0") })
	m := open(t)
	apply(t, m, state0(), Options{})
	all := netnstest.Run(t, "sysctl", "-n", "net.ipv4.conf.all.rp_filter", "net.ipv4.conf.seedbed0.rp_filter")
	if d := cmp.Diff("1\n2\n", all); d != "" {
		t.Errorf("rp_filter of all and the bridge (-want +got):\n%s", d)
	}
}

func TestManyPorts(t *testing.T) {
	m := open(t)
	s := lists{Networks: []seedbed.Network{network0()}}
	s.Networks[0].Prefix = netip.MustParsePrefix("10.77.0.0/16")
	a := netip.MustParseAddr("10.77.1.0")
	for i := 1; i <= 5000; i++ {
		s.Ports = append(s.Ports, Port{Tap: seedbed.NICID(i).Tap(), MAC: seedbed.MAC{2, 0, 0, 0, byte(i >> 8), byte(i)},
			Addr: a, Mark: uint32(i), Bridge: "seedbed0"})
		a = a.Next()
	}
	apply(t, m, s, Options{})
	rules := ruleset(t)
	start := time.Now()
	apply(t, m, s, Options{})
	t.Logf("Apply of %d ports without a change: %v", len(s.Ports), time.Since(start))
	if ruleset(t) != rules {
		t.Error("the second Apply changed the rules")
	}
	if got, want := strings.Count(rules, ":"), len(s.Ports); got < want {
		t.Errorf("%d elements listed, want at least %d", got, want)
	}
	for i := range s.Ports {
		s.Ports[i].Mark += 10000
	}
	apply(t, m, s, Options{})
	if out := netnstest.Run(t, "nft", "list", "map", "bridge", "seedbed", "who"); strings.Count(out, fmt.Sprintf(": 0x%08x",
		bits.ReverseBytes32(15000))) != 1 {
		t.Error("a mark did not change")
	}
}

// TestBelievedInVain: elements that were believed by their digest, and are not what it says, are
// found out by the first change that meets them.
func TestBelievedInVain(t *testing.T) {
	s := manyState(fewPorts + 1)
	apply(t, open(t), s, Options{})
	netnstest.Run(t, "nft", "delete element bridge seedbed addrs { sb1 . "+s.Ports[0].Addr.String()+" }")
	var log lines
	m := openLog(t, &log)
	apply(t, m, s, Options{})
	if listed(t, s.Ports[0]) {
		t.Fatal("the element was not believed to be there, so that this test shows nothing")
	}
	if err := m.Change(t.Context(), Diff{Gone: []string{"sb1", "sb2"}}); err != nil {
		t.Fatal(err)
	}
	for i, want := range []bool{false, false, true} {
		if got := listed(t, s.Ports[i]); got != want {
			t.Errorf("port %d is listed: %v, want %v", i+1, got, want)
		}
	}
	if log.count("the filters differ from what was written") != 1 {
		t.Error("nobody was told")
	}
	if err := m.Change(t.Context(), Diff{Ports: s.Ports[:1]}); err != nil || !listed(t, s.Ports[0]) {
		t.Errorf("a change after that: %v", err)
	}
}
