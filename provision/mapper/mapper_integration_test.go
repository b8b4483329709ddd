//go:build integration

package mapper

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"seedbed"
	"seedbed/internal/lab"
)

func open(t *testing.T, dir string) *Host {
	t.Helper()
	h, err := Open(Config{Dir: dir, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// opened is a host of the test's own, with which all that it has mapped goes.
func opened(t *testing.T) *Host {
	t.Helper()
	h := open(t, filepath.Join(t.TempDir(), "mappings"))
	t.Cleanup(func() {
		if err := errors.Join(h.Sweep(context.Background()), h.Close()); err != nil {
			t.Error(err)
		}
	})
	return h
}

// disk is a qcow2 file of 64 MiB.
func disk(t *testing.T, name string) Volume {
	t.Helper()
	path := filepath.Join(t.TempDir(), name+".qcow2")
	tool(t, "qemu-img", "create", "-q", "-f", "qcow2", path, "64M")
	return Volume{Pool: "default", Name: name, Instance: "i", Job: "job", File: path}
}

func tool(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
}

func fine(context.Context, bool) error { return nil }

func mapped(t *testing.T, h *Host, v Volume) string {
	t.Helper()
	device, err := h.Map(t.Context(), v, fine)
	if err != nil {
		t.Fatal(err)
	}
	return device
}

// nothing fails the test unless the host's directory holds no mapping.
func nothing(t *testing.T, h *Host) {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(h.dir, "[a-z2-7]*[a-z2-7]*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range left {
		if filepath.Base(path) != "lock" {
			t.Errorf("left: %s", path)
		}
	}
	if len(h.all) > 0 {
		t.Errorf("on record: %v", h.all)
	}
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || strings.Contains(string(text), h.dir) {
		t.Errorf("mounts are left below %s: %v", h.dir, err)
	}
}

func TestMap(t *testing.T) {
	t.Parallel()
	h, v := opened(t), disk(t, "v")
	device := mapped(t, h, v)
	if again := mapped(t, h, v); again != device {
		t.Errorf("again: %s; want %s", again, device)
	}
	other := v
	other.Job = "other"
	if _, err := h.Map(t.Context(), other, fine); !errors.Is(err, seedbed.ErrInUse) {
		t.Errorf("for another job: %v", err)
	}
	if err := h.Free("default", "v"); !errors.Is(err, seedbed.ErrInUse) || !strings.Contains(err.Error(), device) {
		t.Errorf("free: %v", err)
	}
	if got := h.Volumes("default", "i"); len(got) != 1 || got[0] != "v" {
		t.Errorf("volumes: %v", got)
	}
	tool(t, "mkfs.ext4", "-q", "-L", "lab", device)
	at := t.TempDir()
	tool(t, "mount", device, at)
	if err := os.WriteFile(filepath.Join(at, "hello"), bytes.Repeat([]byte("seedbed "), 1<<16), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := h.Unmap(t.Context(), "default", "v", "i"); !errors.Is(err, seedbed.ErrInUse) || !strings.Contains(err.Error(), at) {
		t.Errorf("unmap while mounted: %v", err)
	}
	tool(t, "umount", at)
	f, err := os.Open(device)
	if err != nil {
		t.Fatal(err)
	}
	user := exec.Command("sleep", "60")
	user.Stdin = f
	if err := errors.Join(user.Start(), f.Close()); err != nil {
		t.Fatal(err)
	}
	if err := h.Unmap(t.Context(), "default", "v", "i"); !errors.Is(err, seedbed.ErrInUse) || !strings.Contains(err.Error(), "(sleep)") {
		t.Errorf("unmap while open: %v", err)
	}
	user.Process.Kill()
	user.Wait()
	if err := h.Unmap(t.Context(), "default", "v", "other"); !errors.Is(err, seedbed.ErrConflict) {
		t.Errorf("unmap another instance's: %v", err)
	}
	for range 2 {
		if err := h.Unmap(t.Context(), "default", "v", "i"); err != nil {
			t.Fatal(err)
		}
	}
	nothing(t, h)
	// What was written is in the file.
	raw := filepath.Join(t.TempDir(), "raw")
	tool(t, "qemu-img", "convert", "-O", "raw", v.File, raw)
	tool(t, "mount", "-o", "loop,ro", raw, at)
	got, err := os.ReadFile(filepath.Join(at, "hello"))
	tool(t, "umount", at)
	if err != nil || len(got) != 8<<16 {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

// A device that a process keeps open without having been seen is let go of by nobody but its user.
func TestLoopStaysWhileOpen(t *testing.T) {
	t.Parallel()
	h, v := opened(t), disk(t, "v")
	device := mapped(t, h, v)
	token := h.find(v.key()).Token
	f, err := os.Open(device) // this process's own is not counted by opener
	if err != nil {
		t.Fatal(err)
	}
	if err := detachLoop(t.Context(), device, token); !errors.Is(err, seedbed.ErrInUse) {
		t.Errorf("detach while open: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if !bound(device, token) {
		t.Error("the device went with its user: the mark was not taken back")
	}
	if err := h.Unmap(t.Context(), "default", "v", "i"); err != nil {
		t.Error(err)
	}
}

// A file that a domain has open is not mapped, and nothing is left of the attempt.
func TestOpenElsewhere(t *testing.T) {
	t.Parallel()
	h, v := opened(t), disk(t, "v")
	release := lab.HoldOpen(t, v.File)
	if _, err := h.Map(t.Context(), v, fine); !errors.Is(err, seedbed.ErrInUse) {
		t.Errorf("map: %v", err)
	}
	nothing(t, h)
	release()
	mapped(t, h, v)
}

// TestReader checks that only a confined process reads and writes the file, with no more memory than
// it may have, and that it can open no file but this one and the images.
func TestReader(t *testing.T) {
	t.Parallel()
	h, v := opened(t), disk(t, "v")
	v.Images = t.TempDir()
	base := filepath.Join(v.Images, "base.qcow2")
	tool(t, "qemu-img", "create", "-q", "-f", "qcow2", base, "64M")
	tool(t, "qemu-io", "-f", "qcow2", "-c", "write -P 0x5a 0 512", base)
	tool(t, "qemu-img", "rebase", "-u", "-f", "qcow2", "-F", "qcow2", "-b", base, v.File)
	device := mapped(t, h, v)
	for _, path := range []string{v.File, base} {
		open := lab.Openers(t, path)
		if len(open) != 1 || !open[0].Confined() {
			t.Fatalf("%s is open in %v: want one confined program", path, open)
		}
		limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", open[0].PID))
		if err != nil || !strings.Contains(string(limits), fmt.Sprintf("Max address space         %d ", readerLimits.Memory)) {
			t.Errorf("its limits are (%v)\n%s", err, limits)
		}
	}
	got := make([]byte, 512)
	f, err := os.Open(device)
	if err == nil {
		_, err = io.ReadFull(f, got)
		err = errors.Join(err, f.Close())
	}
	if err != nil || !bytes.Equal(got, bytes.Repeat([]byte{0x5a}, len(got))) {
		t.Errorf("the image is not read: %x, %v", got, err)
	}
	if err := h.Unmap(t.Context(), v.Pool, v.Name, v.Instance); err != nil {
		t.Fatal(err)
	}
	v.Images = t.TempDir() // so that the other is a file of the host
	if _, err := h.Map(t.Context(), v, fine); err == nil {
		t.Error("a file that reads from another file of the host was mapped")
	}
	nothing(t, h)
}

// What look refuses is not mapped, and free again.
func TestRefused(t *testing.T) {
	t.Parallel()
	h, v := opened(t), disk(t, "v")
	_, err := h.Map(t.Context(), v, func(context.Context, bool) error {
		if err := h.Free(v.Pool, v.Name); !errors.Is(err, seedbed.ErrInUse) {
			t.Errorf("free while it is looked at: %v", err)
		}
		return seedbed.ErrConflict
	})
	if !errors.Is(err, seedbed.ErrConflict) || h.Free(v.Pool, v.Name) != nil {
		t.Errorf("%v, %v", err, h.Free(v.Pool, v.Name))
	}
	v.File += ".none"
	if _, err := h.Map(t.Context(), v, fine); !errors.Is(err, seedbed.ErrUnavailable) {
		t.Errorf("a file that is not there: %v", err)
	}
	nothing(t, h)
}

// TestSweep: what a process left at any point is taken back by the next, mounts included.
func TestSweep(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "mappings")
	h := open(t, dir)
	whole, intent, half, dead := disk(t, "whole"), disk(t, "intent"), disk(t, "half"), disk(t, "dead")
	device, at := mapped(t, h, whole), t.TempDir()
	tool(t, "mkfs.ext4", "-q", device)
	tool(t, "mount", device, at)
	if err := h.save(&entry{Token: strings.Repeat("a", 26), Boot: h.boot, Method: "qcow2-fuse", Volume: intent}); err != nil {
		t.Fatal(err)
	}
	mapped(t, h, half) // the daemon is there, the device is not yet, nor is it on record
	e := *h.find(half.key())
	e.Device = ""
	if err := errors.Join(detachLoop(t.Context(), h.find(half.key()).Device, e.Token), h.save(&e)); err != nil {
		t.Fatal(err)
	}
	mapped(t, h, dead)
	served, err := serving(h.find(dead.key()).Token)
	if err != nil || len(served) != 2 {
		t.Fatalf("%v, %v", served, err)
	}
	for _, s := range served {
		if err := syscall.Kill(s.pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "x.json.new"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Config{Dir: dir}); !errors.Is(err, seedbed.ErrInUse) {
		t.Errorf("a second process: %v", err)
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	next := open(t, dir)
	if err := next.Free("default", "whole"); !errors.Is(err, seedbed.ErrInUse) {
		t.Errorf("before the sweep: %v", err)
	}
	if err := next.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	nothing(t, next)
	for _, v := range []Volume{whole, half, dead} {
		mapped(t, next, v)
		if err := next.Unmap(t.Context(), v.Pool, v.Name, v.Instance); err != nil {
			t.Error(err)
		}
	}
	if err := next.Close(); err != nil {
		t.Error(err)
	}
}

// TestServerDies checks that a mapping whose server has died is reported once, however long ago that
// was, and is gone then. It can be made again.
func TestServerDies(t *testing.T) {
	t.Parallel()
	h, v := opened(t), disk(t, "v")
	kill := func(which int) { // the reader comes last
		t.Helper()
		all, err := serving(h.find(v.key()).Token)
		if err != nil || len(all) != 2 || all[0].reads() || !all[1].reads() {
			t.Fatalf("%v, %v", all, err)
		}
		pid := all[which].pid
		if err := unix.Kill(pid, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
			if _, ok := serves(pid, h.find(v.key()).Token); !ok {
				return
			}
			if time.Now().After(end) {
				t.Fatal("it does not end")
			}
		}
	}
	for _, c := range []struct {
		which int
		ago   time.Duration
	}{{0, 0}, {0, 2 * time.Second}, {1, 0}} { // the kernel knows the file's attributes for a second
		mapped(t, h, v)
		kill(c.which)
		time.Sleep(c.ago)
		if err := h.Unmap(t.Context(), "default", "v", "i"); !errors.Is(err, seedbed.ErrUnavailable) ||
			!strings.Contains(err.Error(), "has died") {
			t.Errorf("unmap, %s after the death of %d: %v", c.ago, c.which, err)
		}
		if err := h.Unmap(t.Context(), "default", "v", "i"); err != nil {
			t.Error(err)
		}
		nothing(t, h)
	}
	mapped(t, h, v)
	kill(0)
	tool(t, "dd", "if=/dev/zero", "of="+mapped(t, h, v), "bs=1M", "count=1", "oflag=direct", "status=none")
}
