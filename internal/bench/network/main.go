// Command network measures how fast a node's networks are configured: a thousand of them from nothing, beside ip and
// nft that make the same, and once more when nothing is left to do. It also measures security groups: how soon a guest
// has joined one, and what TCP through them reaches, beside a bare bridge; DHCP and the guests' resolver, beside dnsmasq; and
// what a node takes whose guests ask for nothing.
// docs/reference/benchmarks.md says what the figures are. It needs root, works in network namespaces of its own, and leaves
// nothing.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"seedbed"
	"seedbed/internal/bench"
	"seedbed/netcfg"
)

func main() {
	runs := flag.Int("runs", 3, "values of each figure")
	networks := flag.Int("networks", 1000, "networks of the node")
	dir := flag.String("apply", "", "apply them here, and write what was made to this directory (the measured process)")
	part := flag.String("part", "", "join, filtered, bare, leases, names and so on: measure this here (the measured process)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	defer stop()
	err := error(nil)
	switch {
	case *dir != "":
		err = apply(ctx, *dir, *networks, os.Stdout)
	case *part == "resolver":
		err = resolve(ctx)
	case *part == "names" || *part == "dnsmasq":
		err = queries(ctx, *part == "names", os.Stdout)
	case *part == "lender":
		err = lend(ctx)
	case *part == "leases" || *part == "dnsmasq-leases":
		err = leases(ctx, *part == "leases", os.Stdout)
	case *part == "idle":
		err = idle(ctx, os.Stdout)
	case *part == "join":
		err = join(ctx, os.Stdout)
	case *part != "":
		err = transfer(ctx, *part == "filtered", os.Stdout)
	default:
		err = measure(ctx, *runs, *networks, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench network:", err)
		os.Exit(1)
	}
}

// measure has a process apply the networks, and then ip and nft make the same, a few times.
func measure(ctx context.Context, runs, networks int, out io.Writer) error {
	dir, err := os.MkdirTemp("", "seedbed-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	joins, transfers, err := measureGroups(ctx, runs)
	if err != nil {
		return err
	}
	names, err := ratios(ctx, runs, "names", "dnsmasq")
	if err != nil {
		return err
	}
	lent, waits, err := measureLeases(ctx, runs)
	if err != nil {
		return err
	}
	idles, err := values(ctx, "idle", 1)
	if err != nil {
		return err
	}
	var applied, again []float64
	for range runs {
		if err := settle(ctx); err != nil {
			return err
		}
		said, err := inNamespace(ctx, "/proc/self/exe", "-apply", dir, "-networks", strconv.Itoa(networks))
		if err != nil {
			return err
		}
		var first, second, bare float64
		if _, err := fmt.Sscan(said, &first, &second, &bare); err != nil {
			return fmt.Errorf("the process that applied said %q: %w", said, err)
		}
		applied, again = append(applied, first/bare), append(again, second)
	}
	return bench.Report(out, []bench.Figure{
		{Name: "apply_ratio", Unit: "times", Mark: bench.AtMost(2), Runs: applied,
			How: fmt.Sprintf("%d networks from nothing, to ip -batch and nft -f for the same", networks)},
		{Name: "noop_apply_ms", Unit: "ms", Mark: bench.AtMost(200), Runs: again, How: "the same networks again"},
		{Name: "group_apply_ms", Unit: "ms", Mark: bench.AtMost(50), Runs: joins,
			How: fmt.Sprintf("a guest joins a group of %d that rules name", groupMembers)},
		{Name: "throughput_ratio", Unit: "times", Mark: bench.AtLeast(0.93), Runs: transfers,
			How: "TCP between two guests in security groups, to a bare bridge"},
		{Name: "dhcp_p99_ms", Unit: "ms", Mark: bench.AtMost(10), Runs: waits,
			How: fmt.Sprintf("from DISCOVER to ACK, of %d clients, %d at a time", leaseClients, leasesAtOnce)},
		{Name: "dhcp_ratio", Unit: "times", Mark: bench.AtLeast(1), Runs: lent, How: "the leases a second of them, to dnsmasq"},
		{Name: "dns_ratio", Unit: "times", Mark: bench.AtLeast(1), Runs: names,
			How: fmt.Sprintf("names of guests asked by %d of them, to dnsmasq", askers)},
		{Name: "idle_cpu_pct", Unit: "%", Mark: bench.AtMost(0.5), Runs: idles,
			How: fmt.Sprintf("the guest plane of %d guests that ask for nothing, of one processor", idleTaps)},
	})
}

// measureGroups has processes join a group, and transfer with and without filters.
func measureGroups(ctx context.Context, runs int) (joins, transfers []float64, err error) {
	for range runs {
		v, err := values(ctx, "join", 1)
		if err != nil {
			return nil, nil, err
		}
		joins = append(joins, v[0])
	}
	transfers, err = ratios(ctx, runs, "filtered", "bare")
	return joins, transfers, err
}

// ratios returns how much more one part reaches than another. Both are measured by turns.
func ratios(ctx context.Context, runs int, part, other string) (all []float64, err error) {
	const rounds = 3 // of each run
	for range runs {
		var sum, otherSum float64
		for range rounds {
			v, err := values(ctx, part, 1)
			if err != nil {
				return nil, err
			}
			w, err := values(ctx, other, 1)
			if err != nil {
				return nil, err
			}
			sum, otherSum = sum+v[0], otherSum+w[0]
		}
		all = append(all, sum/otherSum)
	}
	return all, nil
}

// measureLeases returns how many more leases a second clients get than of dnsmasq, and how long the slowest wait.
func measureLeases(ctx context.Context, runs int) (all, waits []float64, err error) {
	for range runs {
		v, err := values(ctx, "leases", 2)
		if err != nil {
			return nil, nil, err
		}
		w, err := values(ctx, "dnsmasq-leases", 2)
		if err != nil {
			return nil, nil, err
		}
		all, waits = append(all, v[0]/w[0]), append(waits, v[1])
	}
	return all, waits, nil
}

// values has a process measure a part, which says n values.
func values(ctx context.Context, part string, n int) ([]float64, error) {
	said, err := inNamespace(ctx, "/proc/self/exe", "-part", part)
	if err != nil {
		return nil, err
	}
	v := make([]float64, n)
	into := make([]any, n)
	for i := range v {
		into[i] = &v[i]
	}
	if _, err := fmt.Sscan(said, into...); err != nil {
		return nil, fmt.Errorf("%s said %q: %w", part, said, err)
	}
	return v, nil
}

// settle waits until the kernel has taken down the namespaces of the run before: meanwhile it keeps others from changing
// interfaces. It begins with that a little later.
func settle(ctx context.Context) error {
	const later, quick = 2 * time.Second, 100 * time.Millisecond
	for began := time.Now(); ; began = time.Now() {
		time.Sleep(later)
		asked := time.Now()
		if _, err := inNamespace(ctx, "/bin/sh", "-ec", "ip link set lo up"); err != nil {
			return err
		}
		if time.Since(asked) < quick && time.Since(began) < later+quick {
			return nil
		}
	}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// inNamespace runs a program in a network namespace of its own, and returns what it says.
func inNamespace(ctx context.Context, name string, args ...string) (string, error) {
	runtime.LockOSThread() // Pdeathsig is about the thread
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.SysProcAttr = &unix.SysProcAttr{Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWNS, Pdeathsig: unix.SIGKILL}
	said, err := cmd.Output()
	if e, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("%s: %w: %s", name, err, bytes.TrimSpace(e.Stderr))
	}
	return string(said), err
}

// apply applies the networks twice, has ip and nft make the same in another namespace, and says how many milliseconds
// each took.
func apply(ctx context.Context, dir string, networks int, out io.Writer) error {
	if err := remount(); err != nil {
		return err
	}
	m, err := netcfg.Open(slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer m.Close()
	state := stateOf(networks)
	for range 2 {
		began := time.Now()
		if err := m.Apply(ctx, state, netcfg.Options{}); err != nil {
			return err
		}
		fmt.Fprintln(out, milliseconds(time.Since(began)))
	}
	// The other tables have the same rules for any number of networks, and nft does not read what it lists of them.
	rules, err := exec.CommandContext(ctx, "nft", "list", "table", "inet", "seedbed").Output()
	if err != nil {
		return fmt.Errorf("nft list table: %w", err)
	}
	forNFT, forIP := filepath.Join(dir, "nft"), filepath.Join(dir, "ip")
	err = errors.Join(os.WriteFile(forNFT, readable(rules), 0o600), os.WriteFile(forIP, []byte(links(state.Networks)), 0o600))
	if err != nil {
		return err
	}
	began := time.Now()
	_, err = inNamespace(ctx, "/bin/sh", "-ec", "ip -batch "+forIP+"; nft -f "+forNFT)
	fmt.Fprintln(out, milliseconds(time.Since(began)))
	return err
}

// unreadable is in the few rules that nft lists in a form that it does not read: of a range of interfaces, of bytes by
// their offset, and of zones, whose map has no type in nft. None of them is about a single network.
var unreadable = regexp.MustCompile(`"sb0\*"-|@ll,|@vnis|ct zone set`)

// keyword is a chain whose name nft lists and does not read.
var keyword = regexp.MustCompile(`(?m)^\tchain (snat|dnat) \{$`)

// readable returns a list of rules without those, and with names that nft reads.
func readable(rules []byte) (kept []byte) {
	for line := range bytes.Lines(rules) {
		if !unreadable.Match(line) {
			kept = append(kept, line...)
		}
	}
	return keyword.ReplaceAll(kept, []byte("\tchain of-$1 {"))
}

// remount mounts /sys of the namespace, as ip does.
func remount() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	return unix.Mount("sysfs", "/sys", "sysfs", unix.MS_RDONLY, "")
}

// stateOf returns networks of all kinds, each with one guest.
func stateOf(networks int) netcfg.State {
	kinds := []seedbed.NetworkKind{seedbed.NetworkNAT, seedbed.NetworkRouted, seedbed.NetworkIsolated}
	var s netcfg.State
	var ports []netcfg.Port
	for i := range networks {
		p := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 0}), 24)
		kind, bridge, id := kinds[i%len(kinds)], fmt.Sprintf("sb-%d", i), seedbed.NICID(i+1)
		s.Networks = append(s.Networks, seedbed.Network{Name: fmt.Sprintf("p%d/lan", i), Kind: kind, NAT: kind == seedbed.NetworkNAT,
			Bridge: bridge, MAC: seedbed.MAC{2, 1, 0, 0, byte(i >> 8), byte(i)}, Prefix: p, Gateway: p.Addr().Next()})
		ports = append(ports, netcfg.Port{Tap: id.Tap(), MAC: seedbed.MAC{2, 0, 0, 0, byte(i >> 8), byte(i)}, Mark: id.Mark(), Bridge: bridge,
			Addr: p.Addr().Next().Next()})
	}
	s.Ports = slices.Values(ports)
	return s
}

// links returns what ip makes of the networks, with the addresses that netcfg gives their bridges.
func links(networks []seedbed.Network) string {
	var b strings.Builder
	for _, n := range networks {
		fmt.Fprintf(&b, "link add %s address %s type bridge stp_state 0 forward_delay 0\n", n.Bridge, n.MAC)
		fmt.Fprintf(&b, "link set %s alias seedbed:%s mtu 1500\n", n.Bridge, n.Name)
		fmt.Fprintf(&b, "addr add %s dev %s\n", netip.PrefixFrom(n.Gateway, n.Prefix.Bits()), n.Bridge)
		fmt.Fprintf(&b, "addr add %s/32 dev %s scope link\n", seedbed.MetadataAddr, n.Bridge)
		fmt.Fprintf(&b, "addr add %s/128 dev %s nodad noprefixroute preferred_lft 0\n", seedbed.MetadataAddr6, n.Bridge)
		fmt.Fprintf(&b, "addr add %s/64 dev %s nodad\n", seedbed.MetadataAddr6LinkLocal, n.Bridge)
		fmt.Fprintf(&b, "link set %s up\n", n.Bridge)
	}
	return b.String()
}
