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

const onCDROM = `#cloud-config
locale: C.UTF-8
ssh_genkeytypes: [ed25519]
runcmd:
  - [sh, -c, 'echo "SEEDBED host $(hostname)" >/dev/console']
  - [sh, -c, 'ip -4 -o addr show scope global | sed "s/^/SEEDBED addr /" >/dev/console']
  - [sh, -c, 'ip -4 route show | sed "s/^/SEEDBED route /" >/dev/console']
  - [sh, -c, 'grep -m1 -o "DataSource.*]" /run/cloud-init/status.json | sed "s/^/SEEDBED source /" >/dev/console']
  - [sh, -c, 'blkid -s LABEL /dev/sr0 | sed "s/^/SEEDBED label /" >/dev/console']
` + ofMachine + `  - [sh, -c, 'echo "SEEDBED done" >/dev/console']
`

// direct boots a Debian guest at an interface of its node, by macvtap. It reaches no metadata service, and gets its name, its user-data
// and its address by CD-ROM. A host at the other end of the cable reaches it, and the node does not. It returns what ofMachine shows.
func direct(t *testing.T, s *lab.Stack, h *lab.Host, image string) map[string]string {
	t.Helper()
	document := filepath.Join(t.TempDir(), "user-data")
	if err := os.WriteFile(document, []byte(onCDROM), 0o600); err != nil {
		t.Fatal(err)
	}
	far := h.Neighbour()
	h.Cable(far, "wire")
	h.Run("ip", "addr", "add", "10.98.9.2/24", "dev", "wire") // macvtap leaves it alone
	far.Run("ip", "addr", "add", "10.98.9.1/24", "dev", "wire")
	must(t, s, "network", "add", "cable", "--kind", "direct", "--uplink", "wire", "--prefix", "10.98.9.0/24", "--gateway", "10.98.9.1")
	must(t, s, "create", "wired", "--image", image, "--memory", "768MiB", "--user-data", document, "--nic", "network=cable,ip=10.98.9.50")
	var console string
	t.Cleanup(func() {
		if t.Failed() {
			t.Log("the console of wired:\n" + console[max(0, len(console)-8<<10):])
		}
	})
	lab.Await(t, 6*lab.Patience, "the console shows what user-data printed", func() bool {
		b, err := s.API.Console(t.Context(), "wired", seedbed.MiB)
		console = string(b)
		return err == nil && strings.Contains(console, "SEEDBED done")
	})
	for _, want := range []string{
		`SEEDBED host wired`, `SEEDBED addr .* 10\.98\.9\.50/24`,
		`SEEDBED route default via 10\.98\.9\.1`, `SEEDBED source DataSourceNoCloud \[seed=/dev/sr0\]`, `SEEDBED label .*cidata`,
	} {
		if !regexp.MustCompile(want).MatchString(console) {
			t.Errorf("the console does not show %s", want)
		}
	}
	shown := shownBy(t, s, "wired")
	if out, err := far.Try("ping", "-c1", "-W5", "10.98.9.50"); err != nil {
		t.Errorf("a host on the wire does not reach the guest: %s", out)
	}
	if out, err := h.Try("ping", "-c1", "-W2", "-I", "wire", "10.98.9.50"); err == nil {
		t.Errorf("the node reaches the guest by the uplink: %s", out)
	}
	vm, err := s.API.Instance(t.Context(), "wired")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(s.Dir, "cdrom", string(vm.ID)+".iso")
	if info, err := os.Stat(file); err != nil || info.Mode() != 0o600 {
		t.Errorf("the CD-ROM: %v %v", info, err)
	}
	removeInstance(t, s, "wired")
	nothingLeft(t, s, "wired")
	if _, err := os.Stat(file); err == nil {
		t.Error("the CD-ROM outlives its instance")
	}
	must(t, s, "network", "remove", "cable", "-y")
	return shown
}

// notHere makes networks whose uplink the node does not have, and one whose uplink has no virtual functions. A guest is made on
// neither, and nothing is left of it.
func notHere(t *testing.T, s *lab.Stack, h *lab.Host) {
	t.Helper()
	must(t, s, "network", "add", "gone", "--kind", "direct", "--uplink", "eth9")
	must(t, s, "network", "add", "functions", "--kind", "direct", "--uplink", "wire", "--mode", "sriov")
	for network, want := range map[string]string{
		"gone":      "interface eth9, the uplink of a direct network, does not exist on this node",
		"functions": "the virtual functions of interface wire cannot be used",
	} {
		out, stderr, status := s.CLI("create", "guest2", "--image", "debian", "--memory", "128MiB", "--nic", "network="+network)
		if status == 0 || !strings.Contains(stderr, want) {
			t.Errorf("network %s: status %d: %s%s; want %q", network, status, out, stderr, want)
		}
	}
	if left := h.Domains(); len(left) != 0 {
		t.Errorf("domains are left: %v", left)
	}
	if left, err := os.ReadDir(filepath.Join(s.Dir, "cdrom")); err != nil || len(left) != 0 {
		t.Errorf("CD-ROMs are left: %v %v", left, err)
	}
}
