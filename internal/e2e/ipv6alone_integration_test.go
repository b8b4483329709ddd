//go:build integration && libvirt

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

const alone = `#!/bin/sh
ip -o addr show dev eth0 scope global | sed 's/^/SEEDBED addr /'
ip -6 route show | sed 's/^/SEEDBED route6 /'
ping -c 1 -W 5 six.alone.internal | sed -n 's/^PING/SEEDBED ping/p'
echo 'SEEDBED done'
`

// TestIPv6SmallGuest boots a small guest on a network without IPv4, as TestIPv6Guest does a stock one.
func TestIPv6SmallGuest(t *testing.T) {
	beside(t)
	onlyIPv6(t, lab.SmallGuestImage(t), "128MiB", alone,
		`SEEDBED addr .* inet6 `+secondAddr6+`/`, `SEEDBED route6 default via fe80::a9fe:a9fe `,
		`SEEDBED ping six\.alone\.internal \(`+secondAddr6+`\)`)
}

// onlyIPv6 boots a guest on a network without IPv4 until it reports. Its console must then show what its user-data printed, and no IPv4
// address.
func onlyIPv6(t *testing.T, image, memory, userData string, wants ...string) {
	t.Helper()
	h := lab.NewHost(t)
	h.Libvirt()
	s := lab.NewStack(t, lab.StackOptions{Host: h, Jobs: "{poll: 50ms, stage_timeout: {ready: 30m}}"})
	addImage(t, s, "guest", image)
	document := filepath.Join(t.TempDir(), "user-data")
	if err := os.WriteFile(document, []byte(userData), 0o600); err != nil {
		t.Fatal(err)
	}
	must(t, s, "network", "add", "alone", "--kind", "routed", "--prefix6", innerPrefix6, "--slaac")
	out, stderr, status := s.CLI("create", "six", "--image", "guest", "--memory", memory, "--user-data", document, "--ready", "report",
		"--nic", "network=alone,mac="+secondMAC)
	b, err := s.API.Console(t.Context(), "six", seedbed.MiB)
	if status != 0 || err != nil {
		t.Fatalf("status %d: %s%s\n%s %v", status, out, stderr, b[max(0, len(b)-8<<10):], err)
	}
	lab.Await(t, lab.Patience, "the console shows what user-data printed", func() bool {
		b, err = s.API.Console(t.Context(), "six", seedbed.MiB)
		return err == nil && strings.Contains(string(b), "SEEDBED done")
	})
	for _, want := range wants {
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
