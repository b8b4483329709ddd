//go:build integration

package sandbox

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"seedbed"
)

// unified makes the host look like one of which only the unified hierarchy's
// device rules are to be had: bpf programs hold the devices, resource limits the rest.
func unified(t *testing.T) func() (map[string]place, error) {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	dir, ok := parseHierarchies(string(own), string(mounts))[""]
	if !ok {
		t.Fatal("want a cgroup2 mount below /sys/fs/cgroup")
	}
	return func() (map[string]place, error) {
		return map[string]place{"devices": {dir: dir, unified: true}}, nil
	}
}

func TestUnifiedDevices(t *testing.T) {
	t.Parallel()
	h := lab(t)
	h.places = unified(t)
	var out lines
	dev, foreign := disk(t, "64M"), disk(t, "64M")
	var st unix.Stat_t
	if err := unix.Stat(foreign, &st); err != nil {
		t.Fatal(err)
	}
	run(t, "mkfs.ext4", "-q", dev)
	at := t.TempDir()
	run(t, "mount", dev, at)
	run(t, "mknod", "-m", "666", at+"/foreign", "b", fmt.Sprint(unix.Major(st.Rdev)), fmt.Sprint(unix.Minor(st.Rdev)))
	run(t, "mknod", "-m", "666", at+"/kmsg", "c", "1", "11")
	run(t, "umount", at)

	ours, theirs, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	const device = "/dev/rbd/p/v"
	s := start(
		t,
		h,
		sh(
			t,
			&out,
			`head -c 1 `+device+` >/dev/null && echo early; until test -b `+device+`; do :; done; mkdir /tmp/m; mount `+device+` /tmp/m; cd /tmp/m
		head -c 1 `+device+` > /dev/null && echo reads; mknod null c 1 3; echo > null && head -c 8 /dev/urandom > /dev/null && echo basics
		head -c 1 foreign; head -c 1 kmsg; cd /; mount --bind /dev/pts /tmp/m; umount /tmp/m; mkdir /tmp/d; cp -a `+
				device+` /tmp/d/v; umount /tmp/m; echo ready; read x <&3
		test -e `+device+` || echo gone`,
			func(s *Spec) { s.Channel = ours; s.Limits.Memory = 4 * seedbed.GiB },
		),
	)
	ours.Close()
	if err := s.AddDevice(device, dev); err != nil {
		t.Fatal(err)
	}
	if err := await(func() bool { return strings.Contains(out.String(), "ready") }); err != nil {
		t.Fatal(out.String())
	}
	if err := s.RemoveDevice(device); err != nil {
		t.Error(err)
	}
	theirs.Close()
	if err := s.Wait(); err != nil {
		t.Error(err)
	}
	text := out.String()
	for _, want := range []string{"stdout: reads", "stdout: basics", "stdout: gone",
		"'foreign' for reading: Operation not permitted", "'kmsg' for reading: Operation not permitted",
		"no cgroup controller for memory", "no cgroup controller for pids"} {
		if !strings.Contains(text, want) {
			t.Errorf("want %q in\n%s", want, text)
		}
	}
	closed(t, s)
}

// TestNoControllers: resource limits hold what they can, and volumes are nodev.
func TestNoControllers(t *testing.T) {
	t.Parallel()
	h := lab(t)
	h.places = func() (map[string]place, error) { return nil, nil }
	var out lines
	dev := disk(t, "64M")
	run(t, "mkfs.ext4", "-q", dev)
	s := start(
		t,
		h,
		sh(t, &out, `until test -b /dev/rbd/p/v; do :; done; mkdir /tmp/m; mount /dev/rbd/p/v /tmp/m; mknod /tmp/m/null c 1 3; echo > /tmp/m/null
		/usr/bin/python3 -c 'bytearray(1 << 30)'; /usr/bin/python3 -c 'import os, time
while os.fork(): pass
time.sleep(100)'`),
	)
	if err := s.AddDevice("/dev/rbd/p/v", dev); err != nil {
		t.Fatal(err)
	}
	if err := s.Wait(); err == nil {
		t.Error("ended well")
	}
	for _, want := range []string{"cannot create /tmp/m/null: Permission denied", "MemoryError", "BlockingIOError",
		"volumes are mounted nodev"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("want %q in\n%s", want, out.String())
		}
	}
	closed(t, s)
}

const delegatedTest = "SANDBOX_TEST_DELEGATED"

// TestMoves is not a test: it is the worker that TestDelegated starts in a cgroup
// of its own. In an ordinary run it finds its variable empty.
func TestMoves(t *testing.T) {
	dir := os.Getenv(delegatedTest)
	if dir == "" {
		return
	}
	if err := set(filepath.Join(dir, "cgroup.procs"), itoa(os.Getpid())); err != nil {
		t.Fatal(err)
	}
	for range 2 { // moved by the first, found moved by the second
		own, err := os.ReadFile("/proc/self/cgroup")
		if err != nil {
			t.Fatal(err)
		}
		mounts, err := os.ReadFile("/proc/self/mountinfo")
		if err != nil {
			t.Fatal(err)
		}
		got, err := delegated(parseHierarchies(string(own), string(mounts))[""])
		if err != nil || got != dir {
			t.Errorf("%q, %v, want %q", got, err, dir)
		}
	}
	b, err := os.ReadFile("/proc/self/cgroup")
	if err != nil || !strings.Contains(string(b), filepath.Base(dir)+"/worker\n") {
		t.Errorf("in %q, %v, want the child named worker", b, err)
	}
}

// TestDelegated: in a cgroup that systemd has delegated, the worker moves into a
// child, so that the sandboxes' cgroups can have controllers.
func TestDelegated(t *testing.T) {
	t.Parallel()
	places, err := unified(t)()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(mountOf(places["devices"].dir), fmt.Sprintf("seedbed-test-%d", os.Getpid()))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, d := range []string{filepath.Join(dir, "worker"), dir} {
			if err := await(func() bool { return os.Remove(d) == nil }); err != nil {
				t.Error(err)
			}
		}
	})
	if got, err := delegated(dir); err != nil || got != mountOf(dir) {
		t.Errorf("not delegated: %q, %v, want the root of the hierarchy", got, err)
	}
	if err := unix.Setxattr(dir, "trusted.delegate", []byte("1"), 0); err != nil {
		t.Fatal(err)
	}
	worker := exec.Command("/proc/self/exe", "-test.run", "^TestMoves$")
	worker.Env = append(os.Environ(), delegatedTest+"="+dir)
	if out, err := worker.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
