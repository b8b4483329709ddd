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
runcmd:
  - [sh, -c, 'echo "SEEDBED host $(hostname)" >/dev/console']
  - [sh, -c, 'ip -4 -o addr show scope global | sed "s/^/SEEDBED addr /" >/dev/console']
  - [sh, -c, 'ip -4 route show | sed "s/^/SEEDBED route /" >/dev/console']
  - [sh, -c, 'sed "s/^/SEEDBED result /" /run/cloud-init/result.json >/dev/console || true']
  - [sh, -c, 'blkid -s LABEL /dev/sr0 | sed "s/^/SEEDBED label /" >/dev/console']
  - [sh, -c, 'echo "SEEDBED done" >/dev/console']
`

// TestCDROMGuest boots an unmodified Debian guest that reaches no metadata service, and gets its name, its user-data and its
// address by CD-ROM.
func TestCDROMGuest(t *testing.T) {
	beside(t)
	image := lab.GuestImage(t)
	h := lab.NewHost(t)
	h.Libvirt()
	s := lab.NewStack(t, lab.StackOptions{Host: h, Jobs: "{poll: 50ms}"})
	addImage(t, s, "debian", image)
	document := filepath.Join(t.TempDir(), "user-data")
	if err := os.WriteFile(document, []byte(onCDROM), 0o600); err != nil {
		t.Fatal(err)
	}
	must(t, s, "network", "add", "lab", "--kind", "isolated", "--prefix", "10.98.9.0/24", "--dhcp=false")
	must(t, s, "create", "guest1", "--image", "debian", "--memory", "768MiB", "--user-data", document, "--metadata", "cdrom",
		"--nic", "network=lab,ip=10.98.9.50")
	var console string
	t.Cleanup(func() {
		if t.Failed() {
			t.Log("the console:\n" + console[max(0, len(console)-8<<10):])
		}
	})
	lab.Await(t, 2*lab.Patience, "the console shows what user-data printed", func() bool {
		b, err := s.API.Console(t.Context(), "guest1", seedbed.MiB)
		console = string(b)
		return err == nil && strings.Contains(console, "SEEDBED done")
	})
	for _, want := range []string{
		`SEEDBED host guest1`, `SEEDBED addr .* 10\.98\.9\.50/24`,
		`SEEDBED result .*DataSourceNoCloud \[seed=/dev/sr0\]`, `SEEDBED label .*cidata`,
	} {
		if !regexp.MustCompile(want).MatchString(console) {
			t.Errorf("the console does not show %s", want)
		}
	}
	vm, err := s.API.Instance(t.Context(), "guest1")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(s.Dir, "cdrom", string(vm.ID)+".iso")
	if info, err := os.Stat(file); err != nil || info.Mode() != 0o600 {
		t.Errorf("the CD-ROM: %v %v", info, err)
	}
	removeInstance(t, s, "guest1")
	if _, err := os.Stat(file); err == nil {
		t.Error("the CD-ROM outlives its instance")
	}
}
