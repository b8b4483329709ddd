//go:build integration && libvirt

package e2e

import (
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"seedbed"
	"seedbed/internal/lab"
)

const twoNICs = `#cloud-config
runcmd:
  - [sh, -c, 'ip -4 -o addr show scope global | sed "s/^/SEEDBED addr /" >/dev/console']
  - [sh, -c, 'ip -4 route show | sed "s/^/SEEDBED route /" >/dev/console']
  - [sh, -c, 'ip -o link show | sed "s/^/SEEDBED link /" >/dev/console']
  - [sh, -c, 'cloud-init query ds.meta_data.network.interfaces.macs >/dev/null && echo "SEEDBED done" >/dev/console']
`

// twoNetworks boots an unmodified guest with NICs on two networks, an address and a MAC address chosen, whose
// cloud-init configures both from the metadata.
func twoNetworks(t *testing.T, s *lab.Stack) {
	t.Helper()
	run := func(args ...string) string {
		t.Helper()
		out, stderr, status := s.CLI(args...)
		if status != 0 {
			console, _ := s.API.Console(t.Context(), "two", 8*seedbed.KiB)
			t.Fatalf("seedbed %s: status %d: %s%s\n%s", strings.Join(args, " "), status, out, stderr, console)
		}
		return out
	}
	document := filepath.Join(t.TempDir(), "user-data")
	if err := os.WriteFile(document, []byte(twoNICs), 0o600); err != nil {
		t.Fatal(err)
	}
	const mac = "52:54:00:98:07:50"
	run("network", "add", "lab", "--kind", "isolated", "--prefix", "10.98.7.0/24", "--mtu", "1400", "--route", "10.98.8.0/24=10.98.7.9")
	run("create", "two", "--image", "debian", "--memory", "768MiB", "--disk", "3GiB", "--user-data", document, "--ready", "report",
		"--nic", "network=default", "--nic", "network=lab,ip=10.98.7.50,mac="+mac)
	var console string
	t.Cleanup(func() {
		if t.Failed() {
			t.Log("the console:\n" + console[max(0, len(console)-8<<10):])
		}
	})
	lab.Await(t, lab.Patience, "the console shows what user-data printed", func() bool {
		b, err := s.API.Console(t.Context(), "two", seedbed.MiB)
		console = string(b)
		return err == nil && strings.Contains(console, "SEEDBED done")
	})
	for _, want := range []string{
		`SEEDBED addr .* 10\.98\.7\.50/24`, `SEEDBED route 10\.98\.8\.0/24 via 10\.98\.7\.9`, `SEEDBED link .* mtu 1400 .* ` + mac,
	} {
		if !regexp.MustCompile(want).MatchString(console) {
			t.Errorf("the console does not show %s", want)
		}
	}
	if n := len(regexp.MustCompile(`SEEDBED addr `).FindAllString(console, -1)); n != 2 {
		t.Errorf("%d addresses are configured, want one on each NIC", n)
	}
	if routes := regexp.MustCompile(`SEEDBED route default .*`).FindAllString(console, -1); len(routes) != 1 {
		t.Errorf("default routes %q, want that of the network with NAT", routes)
	}
	if leases := run("network", "leases", "lab"); !regexp.MustCompile(`10\.98\.7\.50 +` + mac + ` +two +1 +\S+`).MatchString(leases) {
		t.Errorf("leases:\n%s", leases)
	}
	n, err := s.API.Network(t.Context(), "lab")
	if err != nil {
		t.Fatal(err)
	}
	removeInstance(t, s, "two")
	run("network", "remove", "lab", "-y")
	lab.Await(t, lab.Patience, "the bridge of the network goes", func() bool {
		_, err := net.InterfaceByName(n.Bridge)
		return err != nil
	})
}
