//go:build integration && libvirt

package e2e

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"seedbed"
	"seedbed/api/client"
	"seedbed/internal/lab"
	"seedbed/internal/ovatest"
)

// TestMachines: machines that do not come from an imported image and a profile,
// side by side: one of an OVA that is uploaded, one that is made from an image
// without a profile, forgotten and adopted again, and one that is started by
// UEFI. The first two are real guests.
func TestMachines(t *testing.T) {
	beside(t)
	image := lab.SmallGuestImage(t)
	s := hostStack(t, lab.StackOptions{})
	packing := pack(t, image, filepath.Join(s.Dir, "disk.vmdk"))
	efi := startEFI(t, s)
	kept := adoptAgain(t, s, image)
	web := fromOVA(t, s, packing())

	kept.awaitServed(t, s)
	web.awaitServed(t, s)
	efi.await(t, s)

	for _, name := range []string{efi.name, kept.name, web.name} {
		removeInstance(t, s, name)
	}
	for _, name := range []string{efi.name, kept.name, web.name} {
		nothingLeft(t, s, name)
	}
	efi.gone(t, s)
	cli(t, s, "ova", "remove", "appliance", "-y")
	images, err := s.API.Images(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range images {
		if strings.HasPrefix(i.Name, "ova_") {
			t.Errorf("image %s of the OVA is left", i.Name)
		}
	}
	for _, place := range []string{"volumes", "uploads"} {
		if files, err := filepath.Glob(filepath.Join(s.Dir, "pools/default", place, "*")); err != nil || len(files) != 0 {
			t.Errorf("%s are left: %v, %v", place, files, err)
		}
	}
}

// guest is a real guest, which boots from that moment on.
type guest struct {
	name  string
	addr  netip.Addr // that it must be given; unset for any
	since time.Time
}

// awaitServed waits until the guest has a lease and has read its metadata.
func (g guest) awaitServed(t *testing.T, s *lab.Stack) {
	t.Helper()
	var read, leased bool
	var seen []string
	t.Cleanup(func() {
		if t.Failed() {
			console, _ := s.API.Console(context.WithoutCancel(t.Context()), g.name, 4*seedbed.KiB)
			t.Logf("%s asked %q, and has on its console:\n%s", g.name, seen, console)
		}
	})
	lab.Await(t, longest, g.name+" has a lease and has read its metadata", func() bool {
		events, err := s.API.Access(t.Context(), g.name, client.AccessFilter{Max: 200, Since: g.since})
		if err != nil {
			t.Fatal(err)
		}
		seen = nil
		for _, e := range events {
			seen = append(seen, strings.TrimSpace(e.Kind+" "+e.Method+" "+e.Path))
			switch {
			case e.Kind == seedbed.GuestLease && g.addr.IsValid() && e.Addr != g.addr:
				t.Fatalf("%s was leased %s, want %s", g.name, e.Addr, g.addr)
			case e.Kind == seedbed.GuestLease:
				leased = true
			case e.Status == 200 && strings.HasSuffix(e.Path, "/meta-data/instance-id"):
				read = true
			}
		}
		return read && leased
	})
	lab.Await(t, lab.Patience, g.name+" has written to its console", func() bool {
		console, err := s.API.Console(t.Context(), g.name, seedbed.KiB)
		return err == nil && len(console) > 0
	})
	t.Logf("%s was served %.0f s after its start", g.name, time.Since(g.since).Seconds())
}

// pack begins to make an OVA of a disk image, as an appliance's vendor does;
// the result waits for it.
func pack(t *testing.T, image, vmdk string) (finish func() ovatest.OVA) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "qemu-img", "convert", "-f", "qcow2", "-O", "vmdk", "-o", "subformat=streamOptimized", image, vmdk)
	var said strings.Builder
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	return func() ovatest.OVA {
		t.Helper()
		if err := <-done; err != nil {
			t.Fatalf("qemu-img: %v\n%s", err, said.String())
		}
		content, err := os.ReadFile(vmdk)
		if err != nil {
			t.Fatal(err)
		}
		return ovatest.OVA{
			VCPUs: 1, MemoryMB: 640, Manifest: "SHA256",
			Disks: []ovatest.Disk{{Name: "disk1.vmdk", Content: content, Capacity: 64}},
		}
	}
}

// fromOVA uploads the OVA and makes a machine of its profile, by PVC's API.
func fromOVA(t *testing.T, s *lab.Stack, o ovatest.OVA) guest {
	t.Helper()
	file := filepath.Join(s.Dir, "appliance.ova")
	if err := os.WriteFile(file, o.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(s.Dir, "ova.py")
	if err := os.WriteFile(script, []byte("# The disks are cloned without it.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cli(t, s, "provisioner", "script", "add", "ova", script)
	cli(t, s, "provisioner", "template", "network", "add", "lan")
	cli(t, s, "provisioner", "template", "network", "vni", "add", "lan", "default")
	began := time.Now()
	cli(t, s, "ova", "upload", "appliance", file, "--pool", "default")
	t.Logf("the OVA was taken in %.0f s", time.Since(began).Seconds())
	cli(t, s, "provisioner", "profile", "modify", "appliance", "-n", "lan")

	g := guest{name: "appliance1", since: time.Now()}
	job := waitJob(t, s, composeVM(t, s, g.name, "appliance"))
	if job.State != seedbed.JobSucceeded {
		t.Fatalf("%s: %s: %s", g.name, job.State, job.Error)
	}
	vm, err := s.API.Instance(t.Context(), g.name)
	if err != nil {
		t.Fatal(err)
	}
	if vm.VCPUs != 1 || vm.Memory != 640*seedbed.MiB || len(vm.Volumes) != 1 || vm.Volumes[0].Image != "ova_appliance_sda" {
		t.Errorf("%s has %d vcpus, %s and the volumes %+v, want what the OVA says", g.name, vm.VCPUs, vm.Memory, vm.Volumes)
	}
	return g
}

// adoptAgain makes a machine from an image, without a profile. It lets go of it while it runs, and
// takes it back, with its disk and under another address, once it is off.
func adoptAgain(t *testing.T, s *lab.Stack, image string) guest {
	t.Helper()
	addImage(t, s, "small", image)
	const name = "kept1"
	cli(t, s, "create", name, "--image", "small", "--memory", "128MiB", "--disk", "1GiB", "--ready", "started")
	before, err := s.API.Instance(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	tap := `"` + before.NICs[0].ID.Tap() + `"`
	if !strings.Contains(elements(s), tap) {
		t.Errorf("no filter is for %s", tap)
	}

	cli(t, s, "vm", "forget", name, "-y")
	if _, err := s.API.Instance(t.Context(), name); seedbed.KindName(err) != "not_found" {
		t.Errorf("the forgotten instance: %v, want not found", err)
	}
	if state := s.Virsh("domstate", name); state != "running" {
		t.Errorf("the forgotten domain is %s", state)
	}
	lab.Await(t, lab.Patience, "the filter of the forgotten NIC is gone", func() bool { return !strings.Contains(elements(s), tap) })
	if out := cli(t, s, "vm", "adoptable"); !strings.Contains(out, name) {
		t.Errorf("what can be adopted is:\n%s", out)
	}
	if out, stderr, status := s.CLI("vm", "adopt", name); status == 0 || !strings.Contains(stderr, "shut it down first") {
		t.Errorf("adopting what runs: status %d: %s%s", status, out, stderr)
	}
	s.Virsh("destroy", name)
	old := disown(t, s, name)

	addr := before.NICs[0].Addr.As4()
	addr[3] = 177
	g := guest{name: name, addr: netip.AddrFrom4(addr)}
	cli(t, s, "vm", "adopt", name, "--address", g.addr.String(), "--tag", "from=test")
	after, err := s.API.Instance(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	if after.ID != before.ID || after.State != seedbed.InstanceStopped || after.NICs[0].MAC != before.NICs[0].MAC ||
		after.NICs[0].Addr != g.addr ||
		after.Tags["from"] != "test" || len(after.Volumes) != 1 || after.Volumes[0].Image != "small" {
		t.Errorf("adopted as %+v, was %+v", after, before)
	}
	if _, err := os.Stat(old); !os.IsNotExist(err) {
		t.Errorf("%s is left beside the volume that it became: %v", old, err)
	}
	g.since = time.Now()
	cli(t, s, "vm", "start", name)
	return g
}

// consoleLog is the part of a domain's serial port that says where it is kept.
var consoleLog = regexp.MustCompile(`<log file='[^']*' append='off'/>`)

// disown makes a domain one that Seedbed would not have made: its disk is a file
// elsewhere, which disown returns, and its console is kept nowhere.
func disown(t *testing.T, s *lab.Stack, name string) (disk string) {
	t.Helper()
	files := volumes(t, s)
	i := slices.IndexFunc(files, func(f string) bool { return strings.Contains(s.Virsh("domblklist", name), f) })
	if i < 0 {
		t.Fatalf("none of %v is the disk of %s", files, name)
	}
	disk = filepath.Join(s.Dir, "old.qcow2")
	doc := s.Virsh("dumpxml", "--inactive", name)
	if !consoleLog.MatchString(doc) {
		t.Fatalf("the console of %s is kept nowhere:\n%s", name, doc)
	}
	doc = consoleLog.ReplaceAllString(strings.ReplaceAll(doc, files[i], disk), "")
	file := filepath.Join(s.Dir, name+".xml")
	if err := errors.Join(os.Rename(files[i], disk), os.WriteFile(file, []byte(doc), 0o600)); err != nil {
		t.Fatal(err)
	}
	s.Virsh("define", file)
	return disk
}

// cli runs the command line, which must succeed, and gives its output.
func cli(t testing.TB, s *lab.Stack, args ...string) string {
	t.Helper()
	out, stderr, status := s.CLI(args...)
	if status != 0 {
		t.Fatalf("seedbed %s: status %d: %s%s", strings.Join(args, " "), status, out, stderr)
	}
	return out
}
