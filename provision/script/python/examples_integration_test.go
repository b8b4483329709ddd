//go:build integration

package python_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"seedbed"
	"seedbed/internal/lab"
	"seedbed/provision/script"
	"seedbed/provision/script/sandbox"
)

func TestMain(m *testing.M) {
	sandbox.Init() // the sandbox's own processes begin here
	os.Exit(m.Run())
}

// pool keeps volumes as files of a directory, and maps them to loop devices.
type pool struct {
	dir  string
	mu   sync.Mutex
	devs map[string]string
}

func (p *pool) file(name string) string { return filepath.Join(p.dir, name) }

func (p *pool) MapVolume(_ context.Context, _ seedbed.JobID, name string, _ seedbed.InstanceID) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if dev := p.devs[name]; dev != "" {
		return dev, nil
	}
	out, err := exec.Command("losetup", "--find", "--show", p.file(name)).Output()
	if err != nil {
		return "", fmt.Errorf("losetup %s: %w", name, err)
	}
	p.devs[name] = strings.TrimSpace(string(out))
	return p.devs[name], nil
}

func (p *pool) UnmapVolume(_ context.Context, name string, _ seedbed.InstanceID) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	dev := p.devs[name]
	if dev == "" {
		return nil
	}
	if out, err := exec.Command("losetup", "--detach", dev).CombinedOutput(); err != nil {
		return fmt.Errorf("losetup --detach %s: %w: %s", dev, err, out)
	}
	delete(p.devs, name)
	return nil
}

func (p *pool) MappedVolumes(seedbed.InstanceID) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Keys(p.devs))
}

// volume is a disk of a profile, as vm_data has it.
type volume struct {
	Pool       string `json:"pool"`
	Disk       string `json:"disk_id"`
	Size       int    `json:"disk_size_gb,omitempty"`
	Source     string `json:"source_volume"`
	Mountpoint string `json:"mountpoint"`
	Filesystem string `json:"filesystem"`
	Args       string `json:"filesystem_args"`
}

// job runs scripts in real sandboxes, in place of an engine.
type job struct {
	t      *testing.T
	pool   *pool
	driver *script.Driver
	call   seedbed.Call
	output strings.Builder
	mu     sync.Mutex
}

func newJob(t *testing.T, show ...string) *job {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("this test starts sandboxes and maps loop devices: run it as root")
	}
	dir := lab.Dir(t)
	p := &pool{dir: filepath.Join(dir, "volumes"), devs: map[string]string{}}
	if err := os.Mkdir(p.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	boxes, err := sandbox.Open(sandbox.Config{Dir: filepath.Join(dir, "sandboxes"), Show: show})
	if err != nil {
		t.Fatal(err)
	}
	j := &job{t: t, pool: p, call: seedbed.Call{Job: seedbed.NewJobID(), Epoch: 1}}
	j.driver = script.New(script.Config{
		Start:   func(ctx context.Context, s sandbox.Spec) (script.Box, error) { return boxes.Start(ctx, s) },
		Mappers: map[string]script.Mapper{"default": p},
		Limits:  sandbox.Limits{Memory: 2 * seedbed.GiB, Time: 10 * time.Minute},
	})
	t.Cleanup(func() {
		if err := j.driver.Close(); err != nil {
			t.Error(err)
		}
		if left := p.MappedVolumes(""); len(left) != 0 {
			t.Errorf("still mapped: %q", left)
		}
	})
	return j
}

// turn runs the script until it has done what the turn asks for; what it calls for is done.
func (j *job) turn(turn seedbed.ScriptTurn) seedbed.ScriptResult {
	j.t.Helper()
	for {
		result, err := j.driver.RunScript(j.t.Context(), j.call, turn, func(l seedbed.OutputLine) {
			j.mu.Lock()
			defer j.mu.Unlock()
			fmt.Fprintf(&j.output, "%s: %s\n", l.Stream, l.Text)
		})
		if err != nil {
			j.t.Fatalf("%+v: %v\n%s", turn, err, j.said())
		}
		if result.Call == nil {
			return result
		}
		answer := &seedbed.ScriptAnswer{ID: result.Call.ID, OK: true}
		if err := j.make(*result.Call); err != nil {
			answer.OK, answer.Message = false, err.Error()
		}
		turn = seedbed.ScriptTurn{Answer: answer}
	}
}

func (j *job) make(c seedbed.ScriptCall) error {
	if c.Name == "clone_volume" {
		out, err := exec.Command("cp", "--sparse=always", j.pool.file(c.Source), j.pool.file(c.Volume)).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	}
	gb, err := strconv.Atoi(strings.TrimSuffix(c.Size, "G"))
	if err != nil {
		return err
	}
	f, err := os.Create(j.pool.file(c.Volume))
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Truncate(int64(gb) << 30)
}

func (j *job) said() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	text := j.output.String()
	return text[max(0, len(text)-8<<10):]
}

// run carries a whole script out, which must succeed.
func (j *job) run(text []byte, volumes []volume, arguments map[string]string) {
	j.t.Helper()
	data, err := json.Marshal(map[string]any{
		"script_arguments":    arguments,
		"system_details":      map[string]any{"vram_mb": 512, "vcpu_count": 1, "serial": true, "vnc": false, "vnc_bind": nil},
		"system_architecture": "x86_64", "mac_template": nil, "networks": []string{}, "volumes": volumes, "script": string(text),
	})
	if err != nil {
		j.t.Fatal(err)
	}
	turns := []seedbed.ScriptTurn{{Start: &seedbed.ScriptStart{
		Instance: seedbed.NewInstanceID(), Name: "web1", Profile: "small", Number: "1", Text: string(text), Data: data,
	}}}
	for _, step := range []string{"setup", "create", "prepare", "install", "cleanup"} {
		turns = append(turns, seedbed.ScriptTurn{Step: step})
	}
	for _, turn := range turns {
		result := j.turn(turn)
		if f := result.Failure; f != nil {
			j.t.Fatalf("%s: %s: %s\n%s\n%s", f.Step, f.Class, f.Message, f.Traceback, j.said())
		}
		if turn.Step == "create" && !strings.Contains(result.XML, "<name>web1</name>") {
			j.t.Errorf("create() returned %s", result.XML)
		}
	}
	if left := j.pool.MappedVolumes(""); len(left) != 0 {
		j.t.Errorf("cleanup() left %q mapped", left)
	}
}

func example(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(lab.Root(), "packaging/examples/scripts", name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestCustomise has the example change an image that is one filesystem: it is
// mounted in the sandbox, files are written and a command runs in it.
func TestCustomise(t *testing.T) {
	j := newJob(t)
	root := filepath.Join(lab.Dir(t), "root")
	for _, path := range []string{"etc", "bin"} {
		if err := os.MkdirAll(filepath.Join(root, path), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	golden := j.pool.file("golden")
	for _, args := range [][]string{
		{"cp", "/bin/busybox", filepath.Join(root, "bin", "sh")},
		{"truncate", "-s", "32M", golden},
		{"mkfs.ext4", "-q", "-d", root, golden},
	} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%q: %v\n%s", args, err, out)
		}
	}
	text := strings.Replace(
		string(example(t, "customise.py")),
		"COMMANDS = []",
		`COMMANDS = [["sh", "-c", "echo {vm_name} ran >/etc/ran; echo said"]]`,
		1,
	)
	j.run([]byte(text), []volume{{Pool: "default", Disk: "sda", Source: "golden"}}, map[string]string{"motd": "changed"})
	for path, want := range map[string]string{"/etc/motd": "web1: changed\n", "/etc/ran": "web1 ran\n"} {
		out, err := exec.Command("debugfs", "-R", "cat "+path, j.pool.file("web1_sda")).Output()
		if err != nil || string(out) != want {
			t.Errorf("%s: %q, %v; want %q", path, out, err, want)
		}
	}
	stat, err := exec.Command("debugfs", "-R", "stat /etc/ran", j.pool.file("web1_sda")).Output()
	if err != nil || !strings.Contains(string(stat), "User:     0") {
		t.Errorf("what root in the sandbox writes is root's: %v\n%s", err, stat)
	}
	if !strings.Contains(j.said(), "stdout: said\n") {
		t.Errorf("output: %s", j.said())
	}
}
