//go:build integration && libvirt

package e2e

import (
	"strings"
	"testing"

	"seedbed"
	"seedbed/internal/lab"
)

// ofMachine are commands of user-data that show on the console what only one machine may have, and keep its name on its disk.
const ofMachine = `  - [sh, -c, 'echo "SEEDBED machine $(cat /etc/machine-id)" >/dev/console']
  - [sh, -c, 'echo "SEEDBED hostkey $(cut -d" " -f2 /etc/ssh/ssh_host_ed25519_key.pub)" >/dev/console']
  - [sh, -c, 'echo "SEEDBED instances $(ls /var/lib/cloud/instances | tr "\n" " ")" >/dev/console']
  - [sh, -c, 'echo "SEEDBED kept $(cat /srv/kept)." >/dev/console']
  - [sh, -c, 'echo "of $(hostname)" >/srv/kept; sync']
`

// generalised makes an image of the disk of a real guest and generalises it. It returns what ofMachine shows of the guest.
func generalised(t *testing.T, s *lab.Stack, guest, name string) (was map[string]string) {
	t.Helper()
	was = shownBy(t, s, guest)
	must(t, s, "vm", "stop", guest)
	must(t, s, "image", "create", name, "--from", guest, "--generalise")
	if image, err := s.API.Image(t.Context(), name); err != nil || image.Size != 3*seedbed.GiB || image.State != seedbed.ImageActive {
		t.Fatalf("image %+v, %v", image, err)
	}
	return was
}

// isAnother checks that the guest of a generalised image is a machine of its own, with what the first has written.
func isAnother(t *testing.T, first string, was, is map[string]string) {
	t.Helper()
	if want := "of " + first + "."; is["kept"] != want {
		t.Errorf("the clone has %q of what the first guest wrote; want %q", is["kept"], want)
	}
	for what, value := range is {
		if what != "kept" && (value == "" || value == was[what]) {
			t.Errorf("the clone has %s %q; the first guest had %q", what, value, was[what])
		}
	}
	if id := strings.Fields(is["instances"]); len(id) != 1 {
		t.Errorf("cloud-init of the clone knows the instances %q; want only its own", id)
	}
}

// shownBy returns what ofMachine shows of a guest.
func shownBy(t *testing.T, s *lab.Stack, name string) map[string]string {
	t.Helper()
	var all map[string]string
	lab.Await(t, lab.Patience, name+" shows what only one machine may have", func() bool {
		console, err := s.API.Console(t.Context(), name, seedbed.MiB)
		if err != nil {
			t.Fatal(err)
		}
		all = map[string]string{}
		for _, what := range []string{"machine", "hostkey", "instances", "kept"} {
			if _, rest, there := strings.Cut(string(console), "SEEDBED "+what+" "); there {
				line, _, _ := strings.Cut(rest, "\n")
				all[what] = strings.TrimSpace(line)
			}
		}
		return len(all) == 4
	})
	return all
}
