//go:build integration

package sandbox

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"seedbed"
)

func itoa(n int) string { return strconv.Itoa(n) }

const workerDir, workerDevice = "SANDBOX_TEST_WORKER", "SANDBOX_TEST_DEVICE"

// TestWorker is not a test: it is the worker that TestSweep kills. In an ordinary
// run it starts nothing, and finds its variable empty.
func TestWorker(t *testing.T) {
	dir := os.Getenv(workerDir)
	if dir == "" {
		return
	}
	h, err := Open(Config{Dir: dir, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	s, err := h.Start(context.Background(), Spec{
		ID: "left", Argv: []string{"/bin/sh", "-c",
			"until test -b /dev/rbd/p/v; do :; done; mkdir /tmp/m; mount /dev/rbd/p/v /tmp/m; sleep 1000 & sleep 1000"},
		Env: env, Output: func(string, []byte) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	device := os.Getenv(workerDevice)
	if err := s.AddDevice("/dev/rbd/p/v", device); err != nil {
		t.Fatal(err)
	}
	if err := await(func() bool { return busy(device) }); err != nil {
		t.Fatal(err)
	}
	os.WriteFile(filepath.Join(dir, "up"), []byte(itoa(s.launcher.Pid)), 0o600)
	s.Wait()
}

// TestSweep kills a worker and clears up after it: its sandbox's processes, mounts and cgroups.
func TestSweep(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "sandbox")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	dev := disk(t, "64M")
	run(t, "mkfs.ext4", "-q", dev)
	worker := exec.Command("/proc/self/exe", "-test.run", "^TestWorker$")
	worker.Env = append(os.Environ(), workerDir+"="+dir, workerDevice+"="+dev)
	worker.Stderr = os.Stderr
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	err := await(func() bool {
		b, _ := os.ReadFile(filepath.Join(dir, "up"))
		pid, _ = strconv.Atoi(string(b))
		return pid > 0
	})
	worker.Process.Kill()
	worker.Wait()
	if err != nil {
		t.Fatal(err)
	}
	os.Remove(filepath.Join(dir, "up"))
	b, err := os.ReadFile(filepath.Join(dir, "left.json"))
	if err != nil || !strings.Contains(string(b), groupPrefix+"left") {
		t.Fatalf("record %q: %v", b, err)
	}
	// Also what an earlier start of the machine left: a number that is another's now.
	if err := os.WriteFile(filepath.Join(dir, "older.json"), []byte(`{"warden":`+itoa(os.Getpid())+`,"born":"1"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	h, err := Open(Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := h.Sweep(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	if born(pid) != "" {
		t.Errorf("process %d of the sandbox still runs", pid)
	}
	if err := await(func() bool { return !busy(dev) }); err != nil {
		t.Errorf("%s is still mounted", dev)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("left %v, %v", entries, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "odd.json"), []byte(`{"groups":["/sys/fs/cgroup/system.slice"]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := h.Sweep(context.Background()); !errors.Is(err, seedbed.ErrInvalid) {
		t.Errorf("a cgroup that is not ours: %v, want invalid", err)
	}
}

// TestOrphaned: process 1 ends by itself when its worker does.
func TestOrphaned(t *testing.T) {
	t.Parallel()
	h := lab(t)
	var out lines
	s := start(t, h, sh(t, &out, "sleep 1000"))
	s.control.Close()
	var e *ExitError
	if err := s.Wait(); !errors.As(err, &e) || e.Signal == 0 {
		t.Errorf("%v, want killed", err)
	}
}
