//go:build integration

package netcfg

import (
	"context"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"seedbed"
	"seedbed/internal/sample"
	"seedbed/netcfg/netnstest"
)

// everything is a state with one of each thing that Apply makes, for a node that has been given its own interfaces.
func everything(t *testing.T) (lists, Options) {
	t.Helper()
	for _, args := range []string{
		"link add br0 address 52:54:00:ee:00:01 type bridge", "link set br0 addrgenmode none up", // of a bridged network
		"link add wire type veth peer name x-wire", "addr add 192.0.2.1/24 dev wire", "link set wire up", // to the other nodes
		"link add lone type veth peer name x-lone", // of another bridged network
		"link add ext type veth peer name x-ext", "addr add 198.51.100.1/24 dev ext", "link set ext up",
		"link add sb1 type veth peer name x-sb1", "link set sb1 up",
		"link add sb2 type veth peer name x-sb2", "link add sb3 type veth peer name x-sb3", "link add sb5 type veth peer name x-sb5",
	} {
		netnstest.Run(t, "ip", strings.Fields(args)...)
	}
	t.Cleanup(func() {
		for _, name := range []string{"br0", "wire", "lone", "ext", "sb1", "sb2", "sb3", "sb5"} {
			netnstest.Try("ip", "link", "del", name)
		}
	})
	s := state0()
	n := &s.Networks[0]
	n.DNS, n.NTP = []netip.Addr{seedbed.ResolverAddr}, []netip.Addr{seedbed.TimeAddr}
	n.Prefix6 = netip.MustParsePrefix("fd12:3456:789a:1::/64")
	n.FloatingUplink = "ext"
	n.Floating = []seedbed.AddrRange{{First: netip.MustParseAddr("198.51.100.50"), Last: netip.MustParseAddr("198.51.100.51")}}
	s.Ports[0].Floating, s.Ports[1].Floating = n.Floating[0].First, n.Floating[0].Last
	six := netip.MustParseAddr("2001:db8:100::50")
	n.Floating = append(n.Floating, seedbed.AddrRange{First: six, Last: six})
	s.Ports[1].Floating6 = six
	s.Ports[0].Forwards = []seedbed.Forward{forwarding(t, "tcp:8080-8082", 80), forwarding(t, "udp:198.51.100.1:53", 53),
		forwarding(t, "tcp:[::]:8080", 80)}
	s.Ports[0].Secondary = []netip.Addr{netip.MustParseAddr("10.77.0.21")}
	s.Ports[0].In, s.Ports[0].Out, s.Ports[1].In = 10_000_000, 20_000_000, 30_000_000
	s.Groups = []seedbed.SecurityGroup{group("web", "in tcp 80", "in tcp 5432 from group web", "out any")}
	s.Ports[0].Groups, s.Ports[1].Groups = []string{"web"}, []string{"web"}
	wire{uplink: "br0"}.bridged(&s, "10.79.0.0/24")
	s.Ports = s.Ports[:3]
	lone := seedbed.Network{Name: "lone", Kind: seedbed.NetworkBridged, Bridge: "sb-lone",
		MAC: seedbed.MAC{0x52, 0x54, 0, 0xb0, 0, 4}, Uplink: "lone"}
	dark := overlayNet(seedbed.NetworkIsolated)
	dark.Prefix6 = netip.MustParsePrefix("fd12:3456:789a:2::/64")
	s.Networks = append(s.Networks, lone, dark)
	s.Ports = append(s.Ports, overlayPort(5))
	s.Peers = []Peer{overlayPeer(6, nodeB), overlayPeer(7, nodeB)}
	s.Address, s.Nodes = nodeA, []netip.Addr{nodeA, nodeB}
	return s, Options{Installation: "a1"}
}

// varying is what differs between two nodes that are alike: indexes of interfaces, times, and whether the kernel has noticed the
// state of a link yet.
var varying = regexp.MustCompile(`(?m)^\d+: |_timer +\S+|NO-CARRIER,|,LOWER_UP| state \w+| linkdown| tentative|` +
	`(?:bridge_id|designated_root|designated_bridge) \S+| qdisc (?:noop|noqueue)|^(?:anycast|local|multicast) (?:fe80|ff00)\S* .*`)

// nodeState is all that Apply may change, in a form that compares.
func nodeState(t *testing.T) string {
	t.Helper()
	var out strings.Builder
	add := func(what, text string) {
		lines := strings.Split(ofLinkLocal.ReplaceAllString(varying.ReplaceAllString(text, ""), ""), "\n")
		slices.Sort(lines)
		out.WriteString("== " + what + "\n" + strings.Join(lines, "\n") + "\n")
	}
	var made []string
	for _, args := range []string{"-d -o link", "-o addr", "-4 route show table all", "-6 route show table all", "neigh show nud permanent"} {
		text := netnstest.Run(t, "ip", strings.Fields(args)...)
		if strings.HasSuffix(args, "link") {
			for line := range strings.Lines(text) {
				name, _, _ := strings.Cut(strings.Fields(line)[1], "@")
				made = append(made, strings.TrimSuffix(name, ":"))
			}
			text = madeByKernel.ReplaceAllString(text, "${1}MAC")
		}
		add("ip "+args, text)
	}
	fdb := strings.Split(netnstest.Run(t, "bridge", "fdb"), "\n")
	add("fdb", strings.Join(slices.DeleteFunc(fdb, func(line string) bool {
		return !strings.Contains(line, " dst ") && !strings.HasPrefix(line, "02:00:00:00:01:") // of overlays
	}), "\n"))
	add("qdisc", netnstest.Run(t, "tc", "qdisc"))
	slices.Sort(made)
	for _, name := range made {
		add("filters of "+name, netnstest.Run(t, "tc", "filter", "show", "dev", name, "parent", "ffff:"))
		if !strings.HasPrefix(name, "s") && name != "br0" {
			continue
		}
		for _, family := range []string{"ipv4", "ipv6"} {
			dir := "/proc/sys/net/" + family + "/conf/" + name
			entries, err := os.ReadDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			var values []string
			for _, e := range entries {
				if v, err := os.ReadFile(dir + "/" + e.Name()); err == nil && e.Name() != "stable_secret" {
					values = append(values, e.Name()+"="+strings.TrimSpace(string(v)))
				}
			}
			add(dir, strings.Join(values, "\n"))
		}
	}
	add("nftables", counters.ReplaceAllString(netnstest.Run(t, "nft", "list", "ruleset"), ""))
	return out.String()
}

// settledState is nodeState once it no longer changes.
func settledState(t *testing.T) string {
	t.Helper()
	for state := nodeState(t); ; {
		time.Sleep(time.Second)
		next := nodeState(t)
		if next == state {
			return state
		}
		state = next
	}
}

var (
	// madeByKernel are the MAC addresses of interfaces whose makers give none.
	madeByKernel = regexp.MustCompile(`((?:su-|sp-|sl\d|wire|lone|ext|sb\d|x-)[^\n]*link/ether )\S+`)
	ofLinkLocal  = regexp.MustCompile(`(?m)^\S+ +inet6 fe80::\S+ff:fe\S+ .*`)
	counters     = regexp.MustCompile(`packets \d+ bytes \d+| expires \S+`)
)

func indexes(steps []string) (all []int) {
	for i := range steps {
		all = append(all, i)
	}
	return all
}

// TestCrash ends Apply before each of its changes, as if the process were killed there, or lets only that one fail. The
// next process, or the next call, makes the node as one makes it from nothing, and undoes it without a trace. So does one for
// which an undo was ended.
func TestCrash(t *testing.T) {
	s, o := everything(t)
	ctx := context.Background()
	do := func(what string, f func(m *Manager) error) {
		t.Helper()
		m, err := Open(slog.New(slog.NewTextHandler(io.Discard, nil)))
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		if err := f(m); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	all := func(m *Manager) error { return m.Apply(ctx, s.state(), o) }
	none := func(m *Manager) error { return m.Cleanup(ctx, true) }
	do("once", all) // the sysctls of the node stay
	do("once", none)
	bare := settledState(t)
	changes := func(refuse func(n int, what string) bool, f func(m *Manager) error) (n int, failed error) {
		m, err := Open(slog.New(slog.NewTextHandler(io.Discard, nil)))
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		n = netnstest.Writes(t, refuse, func() { failed = f(m) })
		return n, failed
	}
	var steps, undone []string
	note := func(to *[]string) func(int, string) bool {
		return func(_ int, what string) bool { *to = append(*to, what); return false }
	}
	if _, err := changes(note(&steps), all); err != nil {
		t.Fatal(err)
	}
	whole := settledState(t)
	if _, err := changes(note(&undone), none); err != nil {
		t.Fatal(err)
	}
	same := func(what, want string) {
		t.Helper()
		got := nodeState(t)
		// The kernel adds the routes of an IPv6 address a moment after the address.
		for end := time.Now().Add(patience); got != want && time.Now().Before(end); got = nodeState(t) {
			time.Sleep(50 * time.Millisecond)
		}
		if diff := cmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n")); diff != "" {
			t.Errorf("%s:\n%s", what, diff)
		}
	}
	same("undone", bare)
	if len(steps) < 50 || len(undone) < 8 {
		t.Fatalf("%d changes and %d to undo them, which are few", len(steps), len(undone))
	}
	t.Logf("%d changes, and %d to undo them", len(steps), len(undone))
	nameless := 0
	for _, k := range sample.Of(t, indexes(steps), 8) {
		step := steps[k]
		from := func(n int, _ string) bool { return n > k }
		changes(from, all)
		do("applied after a crash", all)
		same("applied after a crash before "+step, whole)
		do("undone", none)
		same("applied after a crash before "+step+", and undone", bare)

		if strings.HasPrefix(step, "/proc") {
			continue
		}
		changes(from, all)
		do("undone after a crash", none)
		if strings.Count(netnstest.Run(t, "ip", "-o", "link", "show", "type", "bridge"), "\n") > 1 {
			// Nothing tells a bridge that was just made from another's, so it stays until it is needed.
			nameless++
			do("applied after a bridge was left", all)
			do("undone", none)
		}
		same("undone after a crash before "+step, bare)

		do("applied again", func(m *Manager) error {
			netnstest.Writes(t, func(n int, _ string) bool { return n == k+1 }, func() { m.Apply(ctx, s.state(), o) })
			return m.Apply(ctx, s.state(), o)
		})
		same("applied again after an error of "+step, whole)
		do("undone", none)
		if t.Failed() {
			t.Fatalf("at change %d of %d", k+1, len(steps))
		}
	}
	if nameless > len(s.Networks) {
		t.Errorf("an undo left bridges after %d crashes, and there are only %d networks", nameless, len(s.Networks))
	}
	for _, k := range sample.Of(t, indexes(undone), 4) {
		step := undone[k]
		do("applied", all)
		changes(func(n int, _ string) bool { return n > k }, none)
		if k%2 == 0 {
			do("applied after a crash", all)
			same("applied after a crash of an undo before "+step, whole)
		}
		do("undone again", none)
		same("undone after a crash of an undo before "+step, bare)
		if t.Failed() {
			t.Fatalf("at change %d of %d of an undo", k+1, len(undone))
		}
	}
}
