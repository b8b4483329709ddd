//go:build integration && libvirt

package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"seedbed"
	"seedbed/api/wire"
	"seedbed/internal/lab"
)

// builder is a class script as PVC's are: it puts its domain together from the
// schema, and makes, maps, formats and mounts the volumes itself.
const builder = `
from daemon_lib.vmbuilder import VMBuilder
class VMBuilderScript(VMBuilder):
    def setup(self):
        self.log_info("making %s of profile %s" % (self.vm_name, self.vm_profile))
    def create(self):
        import random
        from daemon_lib.libvirt_schema import (libvirt_header, libvirt_footer, devices_default, devices_serial, devices_vnc, devices_vhostmd,
            devices_scsi_controller, devices_disk_header, devices_disk_coordinator, devices_disk_footer, devices_net_interface)
        d, system = self.vm_data, self.vm_data["system_details"]
        xml = libvirt_header.format(vm_name=self.vm_name, vm_uuid=self.vm_uuid, vm_description="made by a test", vm_memory=system["vram_mb"],
            vm_vcpus=system["vcpu_count"], vm_architecture=d["system_architecture"])
        for volume in d["volumes"]:
            xml += devices_disk_header.format(ceph_storage_secret=d["ceph_monitor_secret"], disk_pool=volume["pool"], vm_name=self.vm_name, disk_id=volume["disk_id"])
            for coordinator in d["ceph_monitor_list"]:
                xml += devices_disk_coordinator.format(coordinator_name=coordinator, coordinator_ceph_mon_port=d["ceph_monitor_port"])
            xml += devices_disk_footer
        xml += devices_vhostmd
        for i, network in enumerate(d["networks"]):
            mac = "52:54:00:%02x:%02x:%02x" % tuple(random.randint(16, 238) for _ in range(3))
            xml += devices_net_interface.format(eth_macaddr=mac, eth_bridge=network["eth_bridge"])
        xml += devices_default
        if system["serial"]:
            xml += devices_serial.format(vm_name=self.vm_name)
        if system["vnc"]:
            xml += devices_vnc.format(vm_vncport=5900, vm_vnc_autoport="yes", vm_vnc_bind=system["vnc_bind"] or "127.0.0.1")
        return xml + devices_scsi_controller + libvirt_footer
    def prepare(self):
        import os
        from daemon_lib.vmbuilder import open_zk
        from daemon_lib.ceph import add_volume, map_volume
        from daemon_lib.common import run_os_command
        from pvcworkerd.Daemon import config
        for volume in self.vm_data["volumes"]:
            name = "%s_%s" % (self.vm_name, volume["disk_id"])
            with open_zk(config) as zk:
                ok, message = add_volume(zk, volume["pool"], name, "%sG" % volume["disk_size_gb"])
                if not ok: self.fail(message)
                ok, message = map_volume(zk, volume["pool"], name)
                if not ok: self.fail(message)
            device = "/dev/rbd/%s/%s" % (volume["pool"], name)
            code, out, err = run_os_command("mkfs.%s %s %s" % (volume["filesystem"], volume["filesystem_args"], device))
            if code: self.fail(err)
            target = "/tmp/target%s" % volume["mountpoint"]
            os.makedirs(target, exist_ok=True)
            if os.system("mount %s %s" % (device, target)): self.fail("mount")
    def install(self):
        import os, time
        with open("/tmp/target/made-by", "w") as f:
            f.write(self.vm_data["script_arguments"]["who"])
        print("installed for %s" % self.vm_data["script_arguments"]["who"])
        gate = self.vm_data["script_arguments"].get("wait_for")
        if gate:
            print("waiting", flush=True)
            while not os.path.exists(gate):
                time.sleep(0.05)
        if self.vm_data["script_arguments"].get("fail"):
            raise self.fail(self.vm_data["script_arguments"]["fail"])
    def cleanup(self):
        import os
        from daemon_lib.ceph import unmap_volume
        for volume in reversed(self.vm_data["volumes"]):
            os.system("umount /tmp/target%s" % volume["mountpoint"])
            unmap_volume(None, volume["pool"], "%s_%s" % (self.vm_name, volume["disk_id"]))
`

// plainBuilder is a function script.
const plainBuilder = `
def install(**kwargs):
    with open(kwargs["temporary_directory"] + "/made-by", "w") as f:
        f.write(kwargs["who"])
    print("installed", kwargs["vm_name"], [d["disk_id"] for d in kwargs["disks"]])
`

// scriptStack is a stack with provisioner profiles "built" and "plain" on a directory pool. Scripts
// see the directories show.
func scriptStack(t *testing.T, show ...string) *lab.Stack {
	t.Helper()
	s := hostStack(t, lab.StackOptions{Scripts: fmt.Sprintf("{show: [%s]}", strings.Join(show, ", "))})
	run := func(args ...string) {
		t.Helper()
		if out, stderr, status := s.CLI(append([]string{"provisioner"}, args...)...); status != 0 {
			t.Fatalf("seedbed provisioner %s: %s%s", strings.Join(args, " "), out, stderr)
		}
	}
	run("template", "system", "add", "small", "-u", "1", "-m", "128", "-s", "-n")
	run("template", "network", "add", "lan")
	run("template", "network", "vni", "add", "lan", "default")
	run("template", "storage", "add", "two")
	run("template", "storage", "disk", "add", "two", "sda", "-p", "default", "-s", "1", "--filesystem", "ext4", "--fsarg", "L=root", "-m", "/")
	run("template", "storage", "disk", "add", "two", "sdb", "-p", "default", "-s", "1", "--filesystem", "ext4", "-m", "/srv")
	for name, text := range map[string]string{"built": builder, "plain": plainBuilder} {
		file := filepath.Join(s.Dir, name+".py")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		run("script", "add", name, file)
		run("profile", "add", name, "-s", "small", "-n", "lan", "-t", "two", "-x", name, "-a", "who=profile")
	}
	return s
}

// composeVM asks for a machine as PVC's client does, and gives the job's ID.
func composeVM(t *testing.T, s *lab.Stack, name, profile string, args ...string) string {
	t.Helper()
	query := url.Values{"name": {name}, "profile": {profile}, "arg": args}
	var task struct {
		ID string `json:"task_id"`
	}
	answer := asPVC(t, s, http.MethodPost, "/provisioner/create?"+query.Encode())
	if err := json.Unmarshal([]byte(answer), &task); err != nil || task.ID == "" {
		t.Fatalf("create %s: %s, %v", name, answer, err)
	}
	return task.ID
}

// clean checks that nothing of a machine is on the host.
func clean(t *testing.T, s *lab.Stack, name string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(s.Dir, "pools", "default", "volumes", name+"_*"))
	if err != nil || len(files) > 0 {
		t.Errorf("volumes are left: %v, %v", files, err)
	}
	shown, err := filepath.Glob(filepath.Join(s.Dir, "pools", "default", "volumes", "*-source-*"))
	if err != nil || len(shown) > 0 {
		t.Errorf("volumes that stood for images are left: %v, %v", shown, err)
	}
	if slices.Contains(s.Domains(), name) {
		t.Errorf("the domain %s is left", name)
	}
	loops, err := exec.Command("losetup", "-l", "-n", "-O", "BACK-FILE").Output()
	if err != nil || strings.Contains(string(loops), s.Dir) {
		t.Errorf("loop devices are left: %s, %v", loops, err)
	}
	if table := s.Run("cat", "/proc/self/mountinfo"); strings.Contains(table, s.Dir+"/worker/sandbox") {
		t.Errorf("mounts are left: %s", table)
	}
	for _, of := range []string{"mappings/*.json", "mappings/*.new", "sandbox/*-*"} {
		if left, err := filepath.Glob(filepath.Join(s.Dir, "worker", of)); err != nil || len(left) > 0 {
			t.Errorf("left by the worker: %v, %v", left, err)
		}
	}
	if _, err := s.API.Instance(t.Context(), name); err == nil {
		t.Errorf("the instance %s is left", name)
	}
}

// TestScripted: a class script and a function script make machines on a
// directory pool, asked for through PVC's API and by a webhook; what fails leaves nothing.
func TestScripted(t *testing.T) {
	beside(t)
	s := scriptStack(t)
	for _, profile := range []string{"built", "plain"} {
		name := profile + "7"
		job := waitJob(t, s, composeVM(t, s, name, profile, "who=request"))
		if job.State != seedbed.JobSucceeded {
			out, _, _ := s.CLI("job", "logs", string(job.ID))
			t.Fatalf("%s: %s: %s\n%s", name, job.State, job.Error, out)
		}
		if state := s.Virsh("domstate", name); state != "running" {
			t.Errorf("the domain %s is %s", name, state)
		}
		pvcReads(t, s, name)
		logs, _, _ := s.CLI("job", "logs", string(job.ID))
		if !strings.Contains(logs, "installed") {
			t.Errorf("the job's log is %q", logs)
		}
		task := taskOf(t, s, string(job.ID)[:8])
		if want := `"state":"SUCCESS","current":11,"total":11`; !strings.Contains(task, want) {
			t.Errorf("task %s; want %s", task, want)
		}
		removeInstance(t, s, name)
		clean(t, s, name)
	}

	forge := newSender(t, s, wire.HookRequest{Name: "forge", Profiles: []string{"built"}})
	a := forge.post(t, "evt_1", time.Now(), `{"action":"create","name":"hooked1","profile":"built","params":{"who":"hook"}}`)
	if job := waitJob(t, s, a.Job); job.State != seedbed.JobSucceeded {
		t.Errorf("by webhook: %s: %s", job.State, job.Error)
	}
	removeInstance(t, s, "hooked1")

	job := waitJob(t, s, composeVM(t, s, "bad1", "built", "fail=no mirror"))
	if want := "Error in script install() step: no mirror"; job.State != seedbed.JobRolledBack || !strings.Contains(job.Error, want) {
		t.Errorf("failing: %s: %s", job.State, job.Error)
	}
	logs, _, _ := s.CLI("job", "logs", string(job.ID))
	if !strings.Contains(logs, "Traceback") {
		t.Errorf("the job's log has no traceback: %s", logs)
	}
	if task, want := taskOf(t, s,
		string(job.ID)[:8]), "ProvisioningError: Error in script install() step: no mirror"; !strings.Contains(task, want) {
		t.Errorf("task %s; want %s", task, want)
	}
	clean(t, s, "bad1")
}

// TestScriptedKill kills the engine and the worker while a script installs: it
// runs anew from its start, and one machine comes of it.
func TestScriptedKill(t *testing.T) {
	beside(t)
	gates := lab.Dir(t) // of files that scripts wait for
	s := scriptStack(t, gates)
	for _, daemon := range []string{lab.Seedbedd, lab.Worker} {
		t.Run(daemon, func(t *testing.T) {
			name := "killed" + strings.TrimPrefix(daemon, "seedbed")
			gate := filepath.Join(gates, name)
			id := composeVM(t, s, name, "built", "wait_for="+gate)
			lab.Await(t, lab.Patience, "the script installs", func() bool {
				job, err := s.API.Job(t.Context(), id)
				return err == nil && job.Job.Stage == "install"
			})
			s.Kill(daemon)
			if err := os.WriteFile(gate, nil, 0o644); err != nil {
				t.Fatal(err)
			}
			s.Start(daemon)
			if daemon == lab.Seedbedd {
				s.AwaitAPI()
			}
			job := waitJob(t, s, id)
			if job.State != seedbed.JobSucceeded {
				t.Fatalf("%s: %s", job.State, job.Error)
			}
			vm, err := s.API.Instance(t.Context(), name)
			if err != nil || len(vm.Volumes) != 2 || vm.State != seedbed.InstanceRunning {
				t.Errorf("instance %+v, %v", vm, err)
			}
			removeInstance(t, s, name)
			clean(t, s, name)
		})
	}
}

// taskOf is a job as PVC's client sees it.
func taskOf(t *testing.T, s *lab.Stack, id string) string {
	t.Helper()
	return asPVC(t, s, http.MethodGet, "/tasks/"+id)
}

// asPVC makes a request of PVC's API, and returns the answer's body.
func asPVC(t *testing.T, s *lab.Stack, method, path string) string {
	t.Helper()
	token, err := os.ReadFile(filepath.Join(s.Dir, "admin.token"))
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, s.URL+"/api/v1"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Api-Key", strings.TrimSpace(string(token)))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
