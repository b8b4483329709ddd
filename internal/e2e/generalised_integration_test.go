//go:build integration && libvirt

package e2e

import (
	"strings"
	"testing"

	"seedbed"
	"seedbed/internal/lab"
)

// machineUserData shows on the console what only one machine may have.
const machineUserData = "#cloud-config\nlocale: C.UTF-8\nssh_genkeytypes: [ed25519]\n" + `
runcmd:
  - [sh, -c, 'echo "SEEDBED machine $(cat /etc/machine-id)" >/dev/console']
  - [sh, -c, 'echo "SEEDBED hostkey $(cut -d" " -f2 /etc/ssh/ssh_host_ed25519_key.pub)" >/dev/console']
  - [sh, -c, 'echo "SEEDBED instances $(ls /var/lib/cloud/instances | tr "\n" " ")" >/dev/console']
  - [sh, -c, 'echo "SEEDBED kept $(cat /srv/kept)" >/dev/console']
  - [sh, -c, 'echo "of $(hostname)" >/srv/kept; sync']
`

// TestGeneralised: an image is made of the disk of a real guest and generalised, and a guest of it boots as a machine of its own, with
// what the first has written.
func TestGeneralised(t *testing.T) {
	beside(t)
	s := hostStack(t, lab.StackOptions{Jobs: "{poll: 50ms, stage_timeout: {ready: 30m}}"})
	addImage(t, s, "debian", lab.GuestImage(t))
	profile := seedbed.Profile{Name: "first", Image: "debian", VCPUs: 2, Memory: seedbed.GiB, DiskSize: 3 * seedbed.GiB,
		UserData: []byte(machineUserData), Ready: seedbed.ReadyReport}
	addProfile(t, s, profile)
	must(t, s, "create", "made1", "first")
	was := shownBy(t, s, "made1")
	must(t, s, "vm", "stop", "made1")
	must(t, s, "image", "create", "golden", "--from", "made1", "--generalise")
	if image, err := s.API.Image(t.Context(), "golden"); err != nil || image.Size != 3*seedbed.GiB || image.State != seedbed.ImageActive {
		t.Fatalf("image %+v, %v", image, err)
	}
	profile.Name, profile.Image = "second", "golden"
	addProfile(t, s, profile)
	must(t, s, "create", "made2", "second")
	is := shownBy(t, s, "made2")
	if is["kept"] != "of made1" {
		t.Errorf("the clone has %q of what the first guest wrote; want %q", is["kept"], "of made1")
	}
	vm, err := s.API.Instance(t.Context(), "made2")
	if err != nil {
		t.Fatal(err)
	}
	for what, value := range is {
		if what != "kept" && (value == "" || value == was[what]) {
			t.Errorf("the clone has %s %q; the first guest had %q", what, value, was[what])
		}
	}
	if id := strings.Fields(is["instances"]); len(id) != 1 {
		t.Errorf("cloud-init of %s knows the instances %q; want only its own", vm.ID, id)
	}
	removeInstance(t, s, "made1")
	removeInstance(t, s, "made2")
	nothingLeft(t, s, "made1")
	nothingLeft(t, s, "made2")
}

// shownBy returns what machineUserData shows of a guest.
func shownBy(t *testing.T, s *lab.Stack, name string) map[string]string {
	t.Helper()
	all := map[string]string{}
	console := must(t, s, "vm", "log", name)
	for _, what := range []string{"machine", "hostkey", "instances", "kept"} {
		_, rest, there := strings.Cut(console, "SEEDBED "+what+" ")
		line, _, _ := strings.Cut(rest, "\n")
		if all[what] = strings.TrimSpace(line); !there {
			t.Fatalf("%s does not show its %s:\n%s", name, what, console)
		}
	}
	return all
}
