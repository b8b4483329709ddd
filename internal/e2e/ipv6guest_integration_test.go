//go:build integration && libvirt && long

package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"seedbed"
	"seedbed/internal/lab"
)

const onIPv6 = `#cloud-config
runcmd:
  - [sh, -c, 'ip -o addr show scope global | sed "s/^/SEEDBED addr /" >/dev/console']
  - [sh, -c, 'ip -6 route show | sed "s/^/SEEDBED route6 /" >/dev/console']
  - [sh, -c, 'echo nameserver fd00:ec2::253 >/etc/resolv.conf']
  - [sh, -c, 'getent ahosts six.alone.internal | head -1 | sed "s/^/SEEDBED name /" >/dev/console']
  - [sh, -c, 'sed "s/^/SEEDBED status /" /run/cloud-init/status.json >/dev/console']
  - [sh, -c, 'echo SEEDBED done >/dev/console']
`

// TestIPv6Guest boots a stock Debian guest on a network without IPv4. It finds its metadata, its name and its resolver by IPv6, and
// reports by it. It has its address by SLAAC: cloud-init 22.4 finds the metadata after the network is up, and does not configure DHCPv6
// any more.
func TestIPv6Guest(t *testing.T) {
	beside(t)
	image := lab.GuestImage(t)
	h := lab.NewHost(t)
	h.Libvirt()
	s := lab.NewStack(t, lab.StackOptions{Host: h, Jobs: "{poll: 50ms, stage_timeout: {ready: 30m}}"})
	addImage(t, s, "debian", image)
	document := filepath.Join(t.TempDir(), "user-data")
	if err := os.WriteFile(document, []byte(onIPv6), 0o600); err != nil {
		t.Fatal(err)
	}
	must(t, s, "network", "add", "alone", "--kind", "routed", "--prefix6", innerPrefix6, "--slaac")
	out, stderr, status := s.CLI("create", "six", "--image", "debian", "--memory", "768MiB", "--user-data", document, "--ready", "report",
		"--nic", "network=alone,mac="+secondMAC)
	b, err := s.API.Console(t.Context(), "six", seedbed.MiB)
	if status != 0 || err != nil {
		t.Fatalf("status %d: %s%s\n%s %v", status, out, stderr, b[max(0, len(b)-8<<10):], err)
	}
	lab.Await(t, lab.Patience, "the console shows what user-data printed", func() bool {
		b, err = s.API.Console(t.Context(), "six", seedbed.MiB)
		return err == nil && strings.Contains(string(b), "SEEDBED done")
	})
	for _, want := range []string{
		`SEEDBED addr .* inet6 ` + secondAddr6 + `/`, `SEEDBED route6 default via fe80::a9fe:a9fe `, `SEEDBED name ` + secondAddr6,
		`SEEDBED status .*DataSourceEc2\b`,
	} {
		if !regexp.MustCompile(want).Match(b) {
			t.Errorf("the console does not show %s:\n%s", want, b[max(0, len(b)-8<<10):])
		}
	}
	if regexp.MustCompile(`SEEDBED addr .* inet `).Match(b) {
		t.Errorf("the guest has an IPv4 address:\n%s", b[max(0, len(b)-8<<10):])
	}
	removeInstance(t, s, "six")
	must(t, s, "network", "remove", "alone", "-y")
}
