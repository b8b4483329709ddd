//go:build integration && libvirt

package e2e

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"seedbed/internal/lab"
	"seedbed/internal/sample"
)

// inKernel is a test of netcfg with how often what TestDebianKernel runs of it passes.
type inKernel struct {
	name, passes string
	times        int
}

// onlyThere are the tests of what this machine's kernel may lack: VLANs, WireGuard and the rules of its tunnels.
var onlyThere = []inKernel{{"TestBridged", "TestBridged/a_VLAN", 4}, {"TestOverlayEncrypted", "TestOverlayEncrypted/", 3},
	{"TestTunnelRules", "TestTunnelRules ", 1}}

// thereToo are tests that netcfg runs on this machine's kernel. Debian's refuses rules that a newer one takes.
var thereToo = []inKernel{
	{"TestGroups", "TestGroups/", 4}, {"TestForwards", "TestForwards/nat", 1}, {"TestForwards6", "TestForwards6/nat", 1},
	{"TestFloating", "TestFloating/nat", 1}, {"TestFloating6", "TestFloating6/nat", 1}, {"TestOverlay", "TestOverlay/nat", 1},
	{"TestOverlayStrangers", "TestOverlayStrangers ", 1}, {"TestOverlayQuiet", "TestOverlayQuiet ", 1},
	{"TestOverlayPeers", "TestOverlayPeers/nat", 1}, {"TestOverlayPeersStrangers", "TestOverlayPeersStrangers ", 1},
	{"TestOverlayBroadcasts", "TestOverlayBroadcasts ", 1}, {"TestOverlayGroup", "TestOverlayGroup ", 1},
	{"TestOverlaySecondary", "TestOverlaySecondary ", 1}, {"TestOverlayRefused", "TestOverlayRefused ", 1},
	{"TestOverlayRoom", "TestOverlayRoom ", 1},
}

// TestDebianKernel runs tests of networks in a machine with Debian's own kernel: what this machine's may lack, DHCPv6, and some of
// the others by the seed, or all of them.
func TestDebianKernel(t *testing.T) {
	beside(t)
	testsOf := func(dir string) string {
		t.Helper()
		to := filepath.Join(lab.Dir(t), dir+".test")
		build := exec.Command("go", "test", "-c", "-tags", "integration", "-o", to, "./"+dir)
		build.Dir = lab.Root()
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return to
	}
	own, plane := testsOf("netcfg"), testsOf("guestplane")
	m := lab.NewMachine(t, own, plane, "ip", "bridge", "nft", "sysctl", "ping", "ss", "dhclient")
	// It is emulated, and this machine may have other work to do.
	const modules = "bridge veth vxlan wireguard 8021q nf_tables nft_fib_inet nft_connlimit nft_limit nft_ct nft_chain_nat nft_nat nft_masq"
	// Of the tests of groups, one of each kind of rule: they wait for what does not come. Of bridged networks those with VLANs,
	// which have the rules of the others too: make test has the others on this machine's kernel, and make test-long on both.
	some := "^(a_VLAN|nothing|members_of_groups|fragments|IPv6|nat$|tunnels|peers_without_a_key)"
	if sample.Long() {
		some = "^(a_bridge|an_interface|" + some[2:]
	}
	chosen := append(slices.Clone(onlyThere), sample.Of(t, thereToo, 2)...)
	names := make([]string, len(chosen))
	for i, c := range chosen {
		names[i] = c.name
	}
	console, ok := m.Run(20*time.Minute, "for m in "+modules+"; do modprobe $m; done; touch /etc/resolv.conf; "+own+
		" -test.run '^("+strings.Join(names, "|")+")$/"+some+"' -test.v && "+
		"mkdir -p /tmp && "+
		plane+" -test.run '^TestIPv6$' -test.v")
	for line := range strings.Lines(console) {
		if strings.HasPrefix(line, "--- PASS") {
			t.Log(strings.TrimSpace(line))
		}
	}
	passed := func(test string) int { return strings.Count(console, "--- PASS: "+test) }
	for _, c := range chosen {
		if n := passed(c.passes); n != c.times {
			t.Errorf("%s passed %d times, want %d", c.passes, n, c.times)
		}
	}
	if !ok || passed("TestIPv6 ") != 1 || t.Failed() {
		t.Fatal(console)
	}
}
