//go:build integration && libvirt

package e2e

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"seedbed/internal/lab"
	"seedbed/internal/sample"
)

// TestDebianKernel runs tests of bridged networks, overlays, also encrypted ones, security groups, forwards, floating addresses and
// DHCPv6 in a machine with Debian's own kernel. It has VLANs and WireGuard, and refuses rules that a newer one takes.
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
	console, ok := m.Run(20*time.Minute, "for m in "+modules+"; do modprobe $m; done; touch /etc/resolv.conf; "+own+
		" -test.run '^(TestBridged|TestGroups|TestForwards6?|TestFloating6?|TestOverlay.*|TestTunnelRules)$/"+some+"' -test.v && "+
		"mkdir -p /tmp && "+
		plane+" -test.run '^TestIPv6$' -test.v")
	passed := func(test string) int { return strings.Count(console, "--- PASS: "+test) }
	if !ok || passed("TestBridged/a_VLAN") != 4 || passed("TestGroups/") != 4 || passed("TestForwards/nat") != 1 ||
		passed("TestFloating/nat") != 1 || passed("TestForwards6/nat") != 1 || passed("TestFloating6/nat") != 1 ||
		passed("TestOverlay/nat") != 1 || passed("TestOverlayStrangers") != 1 ||
		passed("TestOverlayQuiet") != 1 || passed("TestOverlayEncrypted/") != 3 || passed("TestOverlayPeers/nat") != 1 ||
		passed("TestOverlayPeersStrangers") != 1 || passed("TestOverlayBroadcasts") != 1 || passed("TestTunnelRules") != 1 ||
		passed("TestOverlayGroup") != 1 || passed("TestIPv6 ") != 1 {
		t.Fatal(console)
	}
}
