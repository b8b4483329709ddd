//go:build integration && libvirt

package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"seedbed"
	"seedbed/internal/lab"
	"seedbed/internal/ovatest"
)

// converter is what a script for OVA images does in PVC's way: it maps the image's
// own volumes, and converts each onto a volume of its machine.
const converter = `
    def prepare(self):
        from daemon_lib.vmbuilder import open_zk
        from pvcworkerd.Daemon import config
        from daemon_lib.ceph import add_volume, map_volume
        if "ova_details" not in self.vm_data:
            self.fail("no OVA")
        for volume in self.vm_data["volumes"]:
            made = "%s_%s" % (self.vm_name, volume["disk_id"])
            with open_zk(config) as zk:
                for done, text in (map_volume(zk, volume["pool"], volume["volume_name"]),
                        add_volume(zk, volume["pool"], made, "%dG" % volume["disk_size_gb"]), map_volume(zk, volume["pool"], made)):
                    if not done:
                        self.fail(text)
    def install(self):
        from daemon_lib.common import run_os_command
        for volume in self.vm_data["volumes"]:
            place = "/dev/rbd/%s/" % volume["pool"]
            status, out, err = run_os_command("qemu-img convert -C -f %s -O raw %s %s" % (volume["volume_format"],
                place + volume["volume_name"], place + "%s_%s" % (self.vm_name, volume["disk_id"])))
            if status:
                self.fail("%s%s" % (out, err))
            with open(place + volume["volume_name"], "r+b") as f:
                f.write(b"spoiled")
        if self.vm_data["script_arguments"].get("fail"):
            self.fail("after all")
    def cleanup(self):
        from daemon_lib.ceph import unmap_volume
        for volume in self.vm_data["volumes"]:
            for name in ("%s_%s" % (self.vm_name, volume["disk_id"]), volume["volume_name"]):
                done, text = unmap_volume(None, volume["pool"], name)
                if not done:
                    self.fail(text)
`

// TestScriptedOVA: a script of PVC's kind for OVA images converts their disks. It
// sees them as clones of its own: what it writes there is not in the images, and
// the next machine is as the first.
func TestScriptedOVA(t *testing.T) {
	beside(t)
	s := hostStack(t, lab.StackOptions{})
	raw, vmdk := filepath.Join(s.Dir, "disk.raw"), filepath.Join(s.Dir, "disk.vmdk")
	text := bytes.Repeat([]byte("a disk of an appliance\n"), 4<<20/23+1)[:4<<20]
	file := func(path string, content []byte) {
		t.Helper()
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file(raw, text)
	if out, err := exec.Command("qemu-img", "convert", "-f", "raw", "-O", "vmdk", "-o", "subformat=streamOptimized", raw,
		vmdk).CombinedOutput(); err != nil {
		t.Fatalf("qemu-img: %v\n%s", err, out)
	}
	disk, err := os.ReadFile(vmdk)
	if err != nil {
		t.Fatal(err)
	}
	file(filepath.Join(s.Dir, "app.ova"), ovatest.OVA{VCPUs: 1, MemoryMB: 128, Disks: []ovatest.Disk{
		{Name: "disk1.vmdk", Content: disk, Capacity: 4}, {Name: "disk2.vmdk", Content: disk, Capacity: 4},
	}}.Bytes())
	domain, _, _ := strings.Cut(builder, "    def prepare(self):")
	file(filepath.Join(s.Dir, "ova.py"), []byte(domain+strings.TrimPrefix(converter, "\n")))
	cli(t, s, "provisioner", "script", "add", "default_ova", filepath.Join(s.Dir, "ova.py"))
	cli(t, s, "provisioner", "script", "options", "default_ova", "--always")
	cli(t, s, "ova", "upload", "app", filepath.Join(s.Dir, "app.ova"), "--pool", "default")

	for _, name := range []string{"app1", "app2"} {
		job := waitJob(t, s, composeVM(t, s, name, "app"))
		if job.State != seedbed.JobSucceeded {
			out, _, _ := s.CLI("job", "logs", string(job.ID))
			t.Fatalf("%s: %s: %s\n%s", name, job.State, job.Error, out)
		}
		vm, err := s.API.Instance(t.Context(), name)
		if err != nil || len(vm.Volumes) != 2 || vm.Volumes[0].Name != name+"_sda" || vm.Volumes[1].Name != name+"_sdb" ||
			vm.Volumes[1].Image != "" {
			t.Errorf("instance %+v, %v", vm, err)
		}
		removable(t, s, name, text)
	}
	job := waitJob(t, s, composeVM(t, s, "app3", "app", "fail=yes"))
	if job.State != seedbed.JobRolledBack || !strings.Contains(job.Error, "after all") {
		t.Errorf("failing: %s: %s", job.State, job.Error)
	}
	clean(t, s, "app3")

	// Our own example clones them.
	cli(t, s, "provisioner", "script", "modify", "default_ova", filepath.Join(lab.Root(), "packaging/examples/scripts/ova.py"))
	job = waitJob(t, s, composeVM(t, s, "app4", "app"))
	vm, err := s.API.Instance(t.Context(), "app4")
	if err != nil || job.State != seedbed.JobSucceeded || vm.Volumes[0].Name != "app4_sda" || vm.Volumes[0].Image != "ova_app_sda" {
		t.Fatalf("by the example: %s: %s: %+v, %v", job.State, job.Error, vm, err)
	}
	removable(t, s, "app4", text)
	cli(t, s, "ova", "remove", "app", "-y")
}

// removable checks what is on the disks of a machine, takes it away, and looks
// that nothing is left.
func removable(t *testing.T, s *lab.Stack, name string, text []byte) {
	t.Helper()
	cli(t, s, "vm", "stop", name, "--force")
	for _, disk := range []string{"_sda", "_sdb"} {
		files, err := filepath.Glob(filepath.Join(s.Dir, "pools", "default", "volumes", name+disk+"*.qcow2"))
		if err != nil || len(files) != 1 {
			t.Fatalf("files of %s%s: %v, %v", name, disk, files, err)
		}
		out := filepath.Join(s.Dir, name+disk+".raw")
		if said, err := exec.Command("qemu-img", "dd", "-f", "qcow2", "-O", "raw", "bs=1M", "count=4", "if="+files[0],
			"of="+out).CombinedOutput(); err != nil {
			t.Fatalf("qemu-img: %v\n%s", err, said)
		}
		if got, err := os.ReadFile(out); err != nil || !bytes.Equal(got, text) {
			t.Errorf("%s%s holds %q…, %v; want what the image holds", name, disk, got[:min(len(got), 40)], err)
		}
	}
	removeInstance(t, s, name)
	clean(t, s, name)
}
