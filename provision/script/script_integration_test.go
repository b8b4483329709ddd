//go:build integration

package script

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"seedbed"
	"seedbed/provision/dir"
	"seedbed/provision/mapper"
	"seedbed/provision/script/sandbox"
)

// rig runs scripts as seedbed-worker does, on a pool in a directory, and plays
// the engine.
type rig struct {
	*Driver
	t       *testing.T
	pool    *dir.Pool
	boxes   string
	call    seedbed.Call
	output  []seedbed.OutputLine
	options seedbed.ScriptOptions
}

func newRig(t *testing.T, limits sandbox.Limits) *rig {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("this test makes sandboxes and block devices: run it as root")
	}
	base := t.TempDir()
	r := &rig{t: t, boxes: filepath.Join(base, "sandbox"), call: seedbed.Call{Job: seedbed.NewJobID(), Epoch: 1}}
	host, err := sandbox.Open(sandbox.Config{Dir: r.boxes})
	r.ok(err)
	mappings, err := mapper.Open(mapper.Config{Dir: filepath.Join(base, "mappings")})
	r.ok(err)
	r.pool, err = dir.Open(dir.Config{Name: "default", Path: filepath.Join(base, "pool"), Mapper: mappings})
	r.ok(err)
	r.Driver = New(Config{
		Start:   func(ctx context.Context, spec sandbox.Spec) (Box, error) { return host.Start(ctx, spec) },
		Mappers: map[string]Mapper{"default": r.pool}, Limits: limits, Privileged: true, Node: "lab",
	})
	t.Cleanup(func() {
		r.ok(r.Close())
		r.ok(r.pool.Close())
		r.ok(mappings.Close())
	})
	return r
}

func (r *rig) ok(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// turn has the script go on and makes the volumes that it calls for.
func (r *rig) turn(turn seedbed.ScriptTurn) seedbed.ScriptResult {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 5*time.Minute)
	defer cancel()
	for {
		result, err := r.RunScript(ctx, r.call, turn, func(l seedbed.OutputLine) { r.output = append(r.output, l) })
		r.ok(err)
		if result.Call == nil {
			return result
		}
		c := result.Call
		if c.Name == "map_volume" { // there are no images here
			turn = seedbed.ScriptTurn{Answer: &seedbed.ScriptAnswer{ID: c.ID, Message: "ERROR: no such volume"}}
			continue
		}
		size, err := seedbed.ParseBytes(c.Size)
		r.ok(err)
		_, err = r.pool.CloneVolume(ctx, r.call.Job, seedbed.VolumeSpec{Pool: c.Pool, Name: c.Volume, Instance: instance, Size: size})
		r.ok(err)
		turn = seedbed.ScriptTurn{Answer: &seedbed.ScriptAnswer{ID: c.ID, OK: true, Message: "made"}}
	}
}

// run takes a script from its start through its steps; the failure is nil when all ended well.
func (r *rig) run(text string, data map[string]any) (xml string, failure *seedbed.ScriptFailure) {
	r.t.Helper()
	raw, err := json.Marshal(data)
	r.ok(err)
	result := r.turn(seedbed.ScriptTurn{Start: &seedbed.ScriptStart{
		Instance: instance, Name: "web3", Profile: "web", Number: "3", Text: text, Data: raw, Options: r.options,
	}})
	for _, name := range []string{"setup", "create", "prepare", "install", "cleanup"} {
		if result.Failure != nil {
			return "", result.Failure
		}
		result = r.turn(step(name))
		if name == "create" {
			xml = result.XML
		}
	}
	return xml, result.Failure
}

// nothingLeft ends the script and checks that nothing of it is on the host.
func (r *rig) nothingLeft() {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 2*time.Minute)
	defer cancel()
	r.ok(r.CloseScript(ctx, r.call.Job, instance))
	if mapped := r.pool.MappedVolumes(instance); len(mapped) > 0 {
		r.t.Errorf("still mapped: %v", mapped)
	}
	volumes, err := r.pool.Volumes(ctx)
	r.ok(err)
	for _, v := range volumes {
		r.ok(r.pool.RemoveVolume(ctx, v.Name, v.Instance))
	}
	if left, _ := filepath.Glob(filepath.Join(r.boxes, "*", "*")); len(left) > 0 {
		r.t.Errorf("left in %s: %v", r.boxes, left)
	}
	table, err := os.ReadFile("/proc/self/mountinfo")
	r.ok(err)
	if strings.Contains(string(table), string(r.call.Job)) {
		r.t.Errorf("still mounted:\n%s", table)
	}
	if groups, _ := filepath.Glob("/sys/fs/cgroup/*/*/" + string(r.call.Job)); len(groups) > 0 {
		r.t.Errorf("control groups are left: %v", groups)
	}
}

func (r *rig) printed() string {
	var all strings.Builder
	for _, l := range r.output {
		fmt.Fprintf(&all, "%s: %s\n", l.Stream, l.Text)
	}
	return all.String()
}

// classScript has the module paths of PVC 0.9.84 and later; in replaces its STEPs.
const classScript = `
from daemon_lib.vmbuilder import VMBuilder
import os
class VMBuilderScript(VMBuilder):
    def setup(self):
        self.kept = 1
        STEP
    def create(self):
        STEP
        return "<domain><name>%s</name></domain>" % self.vm_name
    def prepare(self):
        STEP
        pass
    def install(self):
        STEP
        pass
    def cleanup(self):
        STEP
        pass
`

// in is a class script that does that in one step.
func in(at, what string) string {
	text := classScript
	for _, name := range []string{"setup", "create", "prepare", "install", "cleanup"} {
		does := "pass"
		if name == at {
			does = strings.ReplaceAll(what, "\n", "\n        ")
		}
		text = strings.Replace(text, "STEP", does, 1)
	}
	return text
}

var noData = map[string]any{"volumes": []any{}, "networks": []any{}, "script_arguments": map[string]any{}}

// What a script can do wrong ends as its failure, told with Python's traceback
// where Python was left to tell, and nothing of it stays.
func TestScriptFailures(t *testing.T) {
	limits := sandbox.Limits{
		CPUs: 1, Memory: 256 * seedbed.MiB, Processes: 64, Time: 3 * time.Minute, Output: 256 * seedbed.KiB, Tmp: 64 * seedbed.MiB,
	}
	type failing struct {
		text, at  string
		message   string
		traceback string
		output    string // something that was printed
		ended     bool
		time      time.Duration // that it has; 0 is the usual
	}
	all := map[string]failing{
		"syntax error": {text: "def install(:\n", at: "load", message: "invalid syntax", traceback: "SyntaxError"},
		"no class":     {text: "x = 1\n", at: "load", message: "VMBuilderScript"},
		"top level":    {text: "raise RuntimeError('at the top')\n", at: "load", message: "at the top", traceback: "script.py\", line 1"},
		"no import":    {text: "import daemon_lib.zkhandler_of_nowhere\n", at: "load", message: "zkhandler_of_nowhere", traceback: "Error"},
		"exit":         {text: in("install", "import sys; sys.exit(3)"), at: "install", message: "sys.exit(3)"},
		"no XML": {text: strings.Replace(in("", ""), "return \"<domain>", "x = \"<domain>", 1),
			at: "create", message: "create() returned NoneType"},
		"endless": {text: in("install", "while True: pass"), at: "install", message: "10s", ended: true, time: 10 * time.Second},
		"fork bomb": {text: in("install", "while True:\n    if os.fork() == 0:\n        while True: pass"),
			at: "install", message: "", traceback: "BlockingIOError"},
		"memory": {text: in("install", "x = []\nwhile True: x.append(bytearray(1 << 20))"), at: "install"},
		"much output": {text: in("install", "for _ in range(1 << 20): print('x' * 1023)\nraise RuntimeError('after it all')"),
			at: "install", message: "after it all", traceback: "RuntimeError"},
		"no UTF-8": {
			text: in("install", "import sys\nsys.stdout.buffer.write(b'ab\\xff\\xfe\\n')\nsys.stdout.flush()\nraise RuntimeError('odd \\udcff')"),
			at:   "install", message: "odd", traceback: "RuntimeError", output: "stdout: ab�\n",
		},
		"unmounts": {
			text: in("install", "if os.system('umount -l /proc') == 0: raise RuntimeError('it could')\nraise RuntimeError('it could not')"),
			at:   "install", message: "it could not",
		},
		"maps":           {text: in("install", "if os.system('losetup -f --show /etc/passwd') == 0: raise RuntimeError('it could')\nraise RuntimeError('it could not')"), at: "install", message: "it could not"},
		"maps another's": {text: in("install", "from daemon_lib.ceph import map_volume\nok, msg = map_volume(None, 'default', 'other')\nraise RuntimeError(msg)"), at: "install", message: "belongs to instance"},
	}
	for _, name := range []string{"setup", "create", "prepare", "install", "cleanup"} {
		all["raises in "+name] = failing{text: in(name, "self.fail('no '+'luck')"), at: name, message: "no luck", traceback: "script.py"}
	}
	for name, test := range all {
		t.Run(name, func(t *testing.T) {
			limits := limits
			if test.time > 0 {
				limits.Time = test.time
			}
			r := newRig(t, limits)
			_, err := r.pool.CloneVolume(t.Context(), r.call.Job, seedbed.VolumeSpec{Pool: "default", Name: "other", Instance: "ec200000-0000-4000-8000-000000000009", Size: seedbed.MiB})
			r.ok(err)
			_, f := r.run(test.text, noData)
			switch {
			case f == nil:
				t.Errorf("it ended well:\n%s", r.printed())
			case f.Step != test.at || !strings.Contains(f.Message, test.message) || !strings.Contains(f.Traceback, test.traceback) || test.ended && !f.Ended:
				t.Errorf("failed in %s (process ended: %t): %s\n%s", f.Step, f.Ended, f.Message, f.Traceback)
			}
			if printed := r.printed(); !strings.Contains(printed, test.output) || len(printed) > 2<<20 {
				t.Errorf("printed %d bytes: %.2000s", len(printed), printed)
			}
			r.nothingLeft()
		})
	}
}

// builder makes a file system on a volume of its own and writes into it, as
// PVC's scripts do: by the hard-coded path, with mount called from a shell.
const builder = `
from pvcapid.vmbuilder import VMBuilder
from pvcapid.Daemon import config
import os
class VMBuilderScript(VMBuilder):
    def setup(self):
        self.log_info("for %s, %d" % (self.vm_name, self.vm_id))
    def create(self):
        return "<domain type='kvm'><name>%s</name><uuid>%s</uuid></domain>" % (self.vm_name, self.vm_uuid)
    def prepare(self):
        from pvcapid.vmbuilder import open_zk
        from daemon_lib.common import run_os_command
        import daemon_lib.ceph as pvc_ceph
        for volume in self.vm_data["volumes"]:
            name = "%s_%s" % (self.vm_name, volume["disk_id"])
            with open_zk(config) as zkhandler:
                ok, message = pvc_ceph.add_volume(zkhandler, volume["pool"], name, "%sM" % volume["size"])
                self.log_info(message)
                if not ok: self.fail(message)
                ok, message = pvc_ceph.map_volume(zkhandler, volume["pool"], name)
                if not ok: self.fail(message)
            device = "/dev/rbd/%s/%s" % (volume["pool"], name)
            if message != device: self.fail(message)
            code, out, err = run_os_command("mkfs.ext4 -q -L %s %s" % (volume["disk_id"], device))
            if code: self.fail("mkfs: %s" % err)
            os.makedirs("/tmp/target", exist_ok=True)
            if os.system("mount %s /tmp/target" % device): self.fail("mount")
    def install(self):
        from pvcapid.vmbuilder import chroot
        os.makedirs("/tmp/target/etc/deep")
        with open("/tmp/target/etc/hostname", "w") as f:
            f.write(self.vm_name)
        os.chown("/tmp/target/etc/deep", 33, 33)
        os.chmod("/tmp/target/etc/hostname", 0o4755)
        with chroot("/tmp/target"):
            if not os.path.exists("/etc/hostname"): self.fail("chroot")
        print(os.listdir("/dev/rbd/default"))
    def cleanup(self):
        from daemon_lib.ceph import unmap_volume
        if os.system("umount /tmp/target"): self.fail("umount")
        for volume in self.vm_data["volumes"]:
            ok, message = unmap_volume(None, volume["pool"], "%s_%s" % (self.vm_name, volume["disk_id"]))
            if not ok: self.fail(message)
`

func TestScriptBuilds(t *testing.T) {
	r := newRig(t, sandbox.Limits{CPUs: 2, Memory: 512 * seedbed.MiB, Processes: 256, Time: 3 * time.Minute, Output: seedbed.MiB, Tmp: 64 * seedbed.MiB})
	data := map[string]any{"volumes": []any{map[string]any{"pool": "default", "disk_id": "sda", "size": 64}}, "networks": []any{}, "script_arguments": map[string]any{}}
	xml, f := r.run(builder, data)
	if f != nil {
		t.Fatalf("failed in %s: %s\n%s\n%s", f.Step, f.Message, f.Traceback, r.printed())
	}
	if want := "<domain type='kvm'><name>web3</name><uuid>" + string(instance) + "</uuid></domain>"; xml != want {
		t.Errorf("made %s; want %s", xml, want)
	}
	for _, want := range []string{"info: for web3, 3", "info: made", "stdout: ['web3_sda']"} {
		if !strings.Contains(r.printed(), want) {
			t.Errorf("printed without %q:\n%s", want, r.printed())
		}
	}
	if mapped := r.pool.MappedVolumes(instance); len(mapped) > 0 {
		t.Errorf("unmapped by the script, still mapped: %v", mapped)
	}
	r.ok(r.CloseScript(t.Context(), r.call.Job, instance))
	// What it wrote is there for the guest, owned as it said.
	device, err := r.pool.MapVolume(t.Context(), r.call.Job, "web3_sda", instance)
	r.ok(err)
	at := t.TempDir()
	r.ok(unix.Mount(device, at, "ext4", unix.MS_RDONLY, ""))
	type file struct {
		Mode     uint32
		UID, GID uint32
	}
	stat := func(name string) file {
		var s unix.Stat_t
		r.ok(unix.Stat(filepath.Join(at, name), &s))
		return file{s.Mode & 0o7777, s.Uid, s.Gid}
	}
	got := []file{stat("etc/hostname"), stat("etc/deep")}
	r.ok(unix.Unmount(at, 0))
	r.ok(r.pool.UnmapVolume(t.Context(), "web3_sda", instance))
	if d := cmp.Diff([]file{{0o4755, 0, 0}, {0o755, 33, 33}}, got); d != "" {
		t.Errorf("files (-want +got):\n%s", d)
	}
	r.nothingLeft()
}

// A turn that is cut off in the middle of a build leaves no mount and no mapping.
func TestScriptCutOff(t *testing.T) {
	r := newRig(t, sandbox.Limits{Time: 3 * time.Minute})
	text := strings.Replace(builder, `        print(os.listdir("/dev/rbd/default"))`, `        print("now", flush=True)
        import time; time.sleep(60)`, 1)
	raw, err := json.Marshal(map[string]any{"volumes": []any{map[string]any{"pool": "default", "disk_id": "sda", "size": 64}}, "networks": []any{}})
	r.ok(err)
	r.turn(seedbed.ScriptTurn{Start: &seedbed.ScriptStart{Instance: instance, Name: "web3", Profile: "web", Text: text, Data: raw}})
	for _, name := range []string{"setup", "create", "prepare"} {
		if f := r.turn(step(name)).Failure; f != nil {
			t.Fatalf("failed in %s: %s", name, f.Message)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, err = r.RunScript(ctx, r.call, step("install"), func(l seedbed.OutputLine) {
		if l.Text == "now" {
			cancel()
		}
	})
	if err == nil || ctx.Err() == nil {
		t.Errorf("cut off: %v", err)
	}
	r.nothingLeft()
}

// Network and the host's devices are there for scripts that were given them.
func TestScriptOptions(t *testing.T) {
	look := `
import socket
def install(**kwargs):
    import os
    print("net", sorted(n for _, n in socket.if_nameindex()) != ["lo"])
    print("dev", os.path.exists("/dev/loop-control"))
`
	for name, test := range map[string]struct {
		options  seedbed.ScriptOptions
		net, dev string
	}{
		"neither":    {seedbed.ScriptOptions{}, "False", "False"},
		"network":    {seedbed.ScriptOptions{Network: true}, "True", "False"},
		"privileged": {seedbed.ScriptOptions{Privileged: true}, "False", "True"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, sandbox.Limits{Time: 3 * time.Minute})
			r.options = test.options
			data := maps.Clone(noData)
			data["system_details"] = map[string]any{"vram_mb": 128, "vcpu_count": 1, "serial": true, "vnc": false, "vnc_bind": nil}
			data["system_architecture"], data["mac_template"], data["ceph_monitor_list"] = "x86_64", nil, []any{}
			data["ceph_monitor_port"], data["ceph_monitor_secret"] = "", ""
			if _, f := r.run(look, data); f != nil {
				t.Fatalf("failed in %s: %s\n%s", f.Step, f.Message, f.Traceback)
			}
			for _, want := range []string{"stdout: net " + test.net, "stdout: dev " + test.dev} {
				if !strings.Contains(r.printed(), want) {
					t.Errorf("printed without %q:\n%s", want, r.printed())
				}
			}
			r.nothingLeft()
		})
	}
}
