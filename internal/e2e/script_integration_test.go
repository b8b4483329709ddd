//go:build integration && libvirt && long

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"seedbed"
	"seedbed/api/wire"
	"seedbed/internal/lab"
	"seedbed/internal/sample"
)

// scriptUserData shows on the console how a guest has come up.
// C.UTF-8 and one key spare an emulated CPU what takes it long.
const scriptUserData = "#cloud-config\nlocale: C.UTF-8\nssh_genkeytypes: [ed25519]\n" + `
runcmd:
  - [sh, -c, 'echo "SEEDBED host $(hostname)" >/dev/console']
  - [sh, -c, 'findmnt -rn -o TARGET,FSTYPE,SOURCE | sed "s/^/SEEDBED mount /" >/dev/console']
  - [sh, -c, 'tail -n +2 /proc/swaps | sed "s/^/SEEDBED swap /" >/dev/console']
  - [sh, -c, 'sed "s/^/SEEDBED kernel /" /proc/cmdline >/dev/console']
  - [sh, -c, 'sed "s/^/SEEDBED result /" /run/cloud-init/result.json >/dev/console || true']
`

// scripted is a guest that a script installs.
type scripted struct {
	name, profile, pool string
	disks               [][]string // arguments of template storage disk add
	script              string     // of packaging/examples/scripts
	shows               []string   // on its console; the kernel numbers disks as it finds them
}

// TestScriptGuest: a webhook has Debian installed by the examples onto volumes,
// by the class onto Ceph or by the function into a directory; the guests boot
// by their own boot loaders, are set up by cloud-init from the metadata service,
// and report in.
func TestScriptGuest(t *testing.T) {
	beside(t)
	packages := lab.DebianPackages(t)
	h := lab.NewHost(t)
	h.Libvirt()
	ceph := lab.CephAt(t, h.Peer.String())
	cpool := ceph.Pool(t, "vms")
	pool := filepath.Join(lab.Dir(t), "pool")
	storage := strings.Replace(ceph.Storage(t, cpool), "[", fmt.Sprintf("[{name: default, type: dir, path: %q}, ", pool), 1)
	s := lab.NewStack(t, lab.StackOptions{Host: h, Storage: storage, Scripts: fmt.Sprintf("{show: [%q]}", packages.Tarball)})
	guests := []scripted{
		{
			name: "deb1", profile: "debian", pool: ceph.Name, script: "debootstrap.py",
			disks: [][]string{
				{"sda", "-s", "3", "--filesystem", "ext4", "--fsarg", "L=root", "-m", "/"},
				{"sdb", "-s", "2", "--filesystem", "ext4", "-m", "/var"},
				{"sdc", "-s", "1", "--filesystem", "swap"},
			},
			shows: []string{`mount / ext4 /dev/`, `mount /var ext4 /dev/`, `swap /dev/`},
		}, {
			name: "plain1", profile: "plain", pool: "default", script: "debootstrap_function.py",
			disks: [][]string{
				{"sda", "-s", "1", "--filesystem", "ext4", "-m", "/boot"},
				{"sdb", "-s", "3", "--filesystem", "xfs", "-m", "/"},
				{"sdc", "-s", "1", "--filesystem", "btrfs", "-m", "/srv"},
				{"sdd", "-s", "1", "--filesystem", "swap"},
			},
			shows: []string{`mount / xfs /dev/`, `mount /boot ext4 /dev/`, `mount /srv btrfs /dev/`, `swap /dev/`},
		},
	}
	guests = sample.Of(t, guests, 1)
	var profiles []string
	for _, g := range guests {
		profiles = append(profiles, g.profile)
	}
	catalogue(t, s, packages, guests)
	forge := newSender(t, s, wire.HookRequest{Name: "forge", Profiles: profiles})
	jobs := map[string]string{}
	sent := time.Now()
	for _, g := range guests { // both at the same time
		a := forge.post(t, "evt_"+g.name, sent,
			fmt.Sprintf(`{"action":"create","name":%q,"profile":%q,"params":{"ready":"report"}}`, g.name, g.profile))
		if a.Status != 202 || a.Job == "" {
			t.Fatalf("%s: answer: %+v", g.name, a)
		}
		jobs[g.name] = a.Job
	}
	for _, g := range guests {
		job := waitJob(t, s, jobs[g.name])
		if job.State != seedbed.JobSucceeded {
			console, _ := s.API.Console(t.Context(), g.name, 8*seedbed.KiB)
			output, _, _ := s.CLI("job", "logs", jobs[g.name])
			t.Fatalf("%s: job %s: %s\n%s\n%s", g.name, job.State, job.Error, output[max(0, len(output)-8<<10):], console)
		}
		t.Logf("%s reported in after %.0f s", g.name, time.Since(sent).Seconds())
	}
	for _, g := range guests {
		g.look(t, s)
	}
	if left := mapped(t, s.Dir, pool); len(left) != 0 {
		t.Errorf("devices are still mapped: %q", left)
	}
	for _, g := range guests {
		removeInstance(t, s, g.name)
	}
	lab.Await(t, lab.Patience, "no volume is left", func() bool {
		files, err := filepath.Glob(filepath.Join(pool, "volumes", "*"))
		return err == nil && len(files) == 0 && strings.TrimSpace(ceph.RBD(t, "ls", cpool)) == ""
	})
}

// catalogue makes what the guests are made of, as an operator does.
func catalogue(t *testing.T, s *lab.Stack, p lab.Packages, guests []scripted) {
	t.Helper()
	run := func(args ...string) {
		t.Helper()
		if out, stderr, status := s.CLI(append([]string{"provisioner"}, args...)...); status != 0 {
			t.Fatalf("seedbed provisioner %s: %s%s", strings.Join(args, " "), out, stderr)
		}
	}
	data := filepath.Join(s.Dir, "user-data")
	if err := os.WriteFile(data, []byte(scriptUserData), 0o600); err != nil {
		t.Fatal(err)
	}
	run("template", "system", "add", "small", "-u", "1", "-m", "768", "-s")
	run("template", "network", "add", "lan")
	run("template", "network", "vni", "add", "lan", "default")
	run("userdata", "add", "shown", data)
	for _, g := range guests {
		run("template", "storage", "add", g.profile)
		for _, disk := range g.disks {
			run(slices.Concat([]string{"template", "storage", "disk", "add", g.profile}, disk, []string{"-p", g.pool})...)
		}
		run("script", "add", g.profile, filepath.Join(lab.Root(), "packaging/examples/scripts", g.script))
		run("profile", "add", g.profile, "-s", "small", "-n", "lan", "-t", g.profile, "-u", "shown", "-x", g.profile,
			"-a", "deb_release="+p.Suite, "-a", "deb_mirror="+p.Mirror, "-a", "deb_tarball="+p.Tarball)
	}
}

// look checks a guest that has reported in.
func (g scripted) look(t *testing.T, s *lab.Stack) {
	t.Helper()
	vm, err := s.API.Instance(t.Context(), g.name)
	if err != nil {
		t.Fatal(err)
	}
	if vm.State != seedbed.InstanceRunning || vm.Reported.IsZero() || len(vm.Volumes) != len(g.disks) {
		t.Errorf("%s: state %s, reported %v, volumes %v", g.name, vm.State, vm.Reported, vm.Volumes)
	}
	if xml := s.Virsh("dumpxml", g.name); strings.Contains(xml, "<kernel>") {
		t.Errorf("%s is given a kernel:\n%s", g.name, xml)
	}
	wants := []string{"SEEDBED host " + g.name, "DataSourceEc2Local", `SEEDBED kernel .* root=UUID=`}
	for _, w := range g.shows {
		wants = append(wants, "SEEDBED "+regexp.QuoteMeta(w))
	}
	var console, missing string
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s has not shown %q on its console:\n%s", g.name, missing, console[max(0, len(console)-8<<10):])
		}
	})
	// cloud-init's last lines reach the console after the report.
	lab.Await(t, lab.Patience, g.name+" shows on its console what user-data printed", func() bool {
		b, err := s.API.Console(t.Context(), g.name, seedbed.MiB)
		if err != nil {
			t.Fatal(err)
		}
		console = string(b)
		i := slices.IndexFunc(wants, func(w string) bool { return !regexp.MustCompile(w).MatchString(console) })
		if i < 0 {
			return true
		}
		missing = wants[i]
		return false
	})
}

// mapped are the loop devices of files below some directories, and QEMU's
// storage daemons that work there.
func mapped(t *testing.T, dirs ...string) (left []string) {
	t.Helper()
	loops, err := exec.Command("losetup", "-l", "-n", "-O", "NAME,BACK-FILE").Output()
	if err != nil {
		t.Fatal(err)
	}
	daemons, _ := exec.Command("pgrep", "-a", "qemu-storage-da").Output() // fails where there is none
	for line := range strings.Lines(string(loops) + string(daemons)) {
		if slices.ContainsFunc(dirs, func(dir string) bool { return strings.Contains(line, dir+"/") }) {
			left = append(left, strings.TrimSpace(line))
		}
	}
	return left
}
