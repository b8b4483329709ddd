package lab

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// DebianRoot is a freshly installed Debian in a directory, with systemd running
// in it: its process 1 has namespaces of its own, as in a container.
type DebianRoot struct {
	Dir string

	t      testing.TB
	init   string // process 1, as the host counts
	system *Process
}

// BootDebian unpacks a Debian, installs packages of Debian's (systemd among
// them) into it, and boots it in a network namespace; it ends with the test.
// The packages come from a cache in the tree; the first time makes it.
func BootDebian(t testing.TB, netns string, packages ...string) *DebianRoot {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("this test installs and boots a Debian: run it as root")
	}
	dir := Dir(t)
	r := &DebianRoot{Dir: filepath.Join(dir, "root"), t: t}
	script := filepath.Join(Root(), "internal/lab/debian-root.sh")
	args := append([]string{filepath.Join(Root(), ".cache", "packages-root.tar"), r.Dir}, packages...)
	if out, err := exec.Command(script, args...).CombinedOutput(); err != nil {
		t.Fatalf("debian-root.sh: %v\n%s", err, out)
	}
	r.boot(netns, filepath.Join(dir, "systemd.log"))
	return r
}

func (r *DebianRoot) boot(netns, log string) {
	r.t.Helper()
	group := cgroup(r.t)
	// Into the control group first: ip(8) mounts a /sys without it.
	const enter = `echo $$ >"$0/cgroup.procs"; exec ip netns exec "$1" unshare -C -p -f -m -u -i --kill-child --propagation private "$2" "$3"`
	r.system = Start(r.t, log, "sh", "-c", enter, group, netns, filepath.Join(Root(), "internal/lab/boot-root.sh"), r.Dir)
	pid := r.system.Cmd.Process.Pid
	Await(r.t, Patience, "systemd has booted in the Debian root", func() bool {
		if !r.system.Alive() {
			r.t.Fatalf("systemd ended: %s", r.system.Tail())
		}
		child, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
		if r.init = strings.TrimSpace(string(child)); r.init == "" {
			return false
		}
		state, _ := r.Try(time.Minute, "systemctl", "is-system-running")
		return slices.Contains([]string{"running", "degraded"}, strings.TrimSpace(state))
	})
}

// cgroup makes a control group in the unified hierarchy, below the test's own,
// and removes it with what is in it when the test is over.
func cgroup(t testing.TB) string {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	var top, below string
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); len(f) > 2 && f[2] == "cgroup2" {
			top = f[1]
		}
	}
	for line := range strings.Lines(string(own)) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			below = path
		}
	}
	if top == "" {
		t.Fatal("no cgroup2 is mounted, and systemd needs one: mount -t cgroup2 cgroup2 /sys/fs/cgroup/unified")
	}
	dir := filepath.Join(top, below, fmt.Sprintf("sblab-%d", os.Getpid()))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		Await(t, Patience, "the control group "+dir+" is removed", func() bool { return removeCgroup(dir) == nil })
	})
	return dir
}

// removeCgroup removes a control group and those below it, the deepest first.
func removeCgroup(dir string) error {
	var dirs []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		return err
	})
	for _, path := range slices.Backward(dirs) {
		if err := syscall.Rmdir(path); err != nil {
			return err
		}
	}
	return err
}

// Path is a path inside as the test sees it; /run, /dev, /proc and /sys are not to be seen.
func (r *DebianRoot) Path(inside string) string { return filepath.Join(r.Dir, inside) }

// Try runs a command inside, and gives its output and standard error together.
func (r *DebianRoot) Try(timeout time.Duration, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "nsenter", append([]string{"-t", r.init, "-a"}, args...)...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LC_ALL=C.UTF-8", "DEBIAN_FRONTEND=noninteractive"}
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// Run is Try for a command that must succeed.
func (r *DebianRoot) Run(args ...string) string {
	r.t.Helper()
	out, err := r.Try(10*time.Minute, args...)
	if err != nil {
		r.t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}
