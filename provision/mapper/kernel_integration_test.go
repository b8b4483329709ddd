//go:build integration

package mapper

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"seedbed"
	"seedbed/internal/lab"
)

// inMachine is set, to the directory of what it needs, for the test in the machine
// whose kernel has RBD and network block devices.
const inMachine = "SEEDBED_MAPPER_MACHINE"

// TestKernelWays maps by the kernel: krbd, rbd-nbd and qemu-nbd, in a machine with
// Debian's own kernel and udev.
func TestKernelWays(t *testing.T) {
	if dir := os.Getenv(inMachine); dir != "" {
		kernelWays(t, dir)
		return
	}
	c, dir := lab.Ceph(t), lab.Dir(t)
	pool := c.Pool(t, fmt.Sprintf("seedbed-kernel-%d", os.Getpid()))
	for _, way := range []string{"krbd", "rbd-nbd"} {
		c.RBD(t, "create", "--size", "64M", pool+"/"+imageOf(way))
	}
	if err := os.WriteFile(filepath.Join(dir, "pool"), []byte(pool), 0o600); err != nil {
		t.Fatal(err)
	}
	for file, path := range map[string]string{"conf": c.Conf, "keyring": c.Keyring} {
		text, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, file), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	m := lab.NewMachine(t, own, "rbd", "rbd-nbd", "qemu-nbd", "qemu-storage-daemon", "prlimit", "qemu-img", "mkfs.ext4", "mount", "umount")
	m.Give(filepath.Join(dir, "pool"), filepath.Join(dir, "conf"), filepath.Join(dir, "keyring"))
	// It is emulated, and this machine may have other work to do.
	console, ok := m.Run(20*time.Minute, inMachine+"="+dir+" "+own+" -test.run '^TestKernelWays$' -test.v")
	if !ok || !strings.Contains(console, "--- PASS: TestKernelWays/") {
		t.Fatal(console)
	}
	t.Log(console)
}

func imageOf(way string) string { return "seedbed-volume." + way }

// kernelWays is the test inside the machine.
func kernelWays(t *testing.T, dir string) {
	pool, err := os.ReadFile(filepath.Join(dir, "pool"))
	if err != nil {
		t.Fatal(err)
	}
	rbd := func(way string) *RBD {
		return &RBD{
			Pool: string(pool), Image: imageOf(way), User: lab.CephUser, Conf: filepath.Join(dir, "conf"), Keyring: filepath.Join(dir, "keyring"),
		}
	}
	file := filepath.Join(t.TempDir(), "v.qcow2")
	tool(t, "qemu-img", "create", "-q", "-f", "qcow2", file, "64M")
	for _, c := range []struct {
		way, device string
		v           Volume
	}{
		{"krbd", "/dev/rbd", Volume{RBD: rbd("krbd")}},
		{"rbd-nbd", "/dev/nbd", Volume{RBD: rbd("rbd-nbd")}},
		{"qemu-nbd", "/dev/nbd", Volume{File: file}},
	} {
		t.Run(c.way, func(t *testing.T) {
			c.v.Pool, c.v.Name, c.v.Instance, c.v.Job = "default", c.way, "i", "job"
			kernelWay(t, c.way, c.device, c.v)
		})
	}
}

// only is a host that has the way of that name alone.
func only(t *testing.T, name, dir string) *Host {
	t.Helper()
	h, err := Open(Config{Dir: dir, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	h.methods = []method{h.methodOf(&entry{Method: name})}
	return h
}

func kernelWay(t *testing.T, way, device string, v Volume) {
	dir, at := filepath.Join(t.TempDir(), "mappings"), t.TempDir()
	h := only(t, way, dir)
	// A file system is made, in use, and there again when the volume is mapped anew.
	got := mapped(t, h, v)
	if !strings.HasPrefix(got, device) {
		t.Fatalf("mapped as %s; want %s…", got, device)
	}
	if again := mapped(t, h, v); again != got {
		t.Errorf("again: %s; want %s", again, got)
	}
	tool(t, "mkfs.ext4", "-q", "-F", got)
	tool(t, "mount", got, at)
	hello := bytes.Repeat([]byte("seedbed "), 1<<16)
	if err := os.WriteFile(filepath.Join(at, "hello"), hello, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := h.Unmap(t.Context(), "default", way, "i"); !errors.Is(err, seedbed.ErrInUse) || !strings.Contains(err.Error(), at) {
		t.Errorf("unmap while mounted: %v", err)
	}
	tool(t, "umount", at)
	for range 2 {
		if err := h.Unmap(t.Context(), "default", way, "i"); err != nil {
			t.Fatal(err)
		}
	}
	nothing(t, h)

	// A process that ends leaves its mapping, mounted: the next takes it back.
	got = mapped(t, h, v)
	tool(t, "mount", got, at)
	if text, err := os.ReadFile(filepath.Join(at, "hello")); err != nil || !bytes.Equal(text, hello) {
		t.Errorf("%d bytes, %v; want %d", len(text), err, len(hello))
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	next := only(t, way, dir)
	if err := next.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	nothing(t, next)

	// So it does with what had not come further than its intent, and with what was
	// mapped and not on record yet.
	intent := &entry{Token: strings.Repeat("a", 26), Boot: next.boot, Method: way, Volume: v}
	if err := next.save(intent); err != nil {
		t.Fatal(err)
	}
	next.put(intent)
	if err := next.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	half := &entry{Token: strings.Repeat("b", 26), Boot: next.boot, Method: way, Volume: v}
	err := next.save(half)
	if err == nil {
		next.put(half)
		_, err = next.methodOf(half).attach(t.Context(), half)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := next.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	nothing(t, next)

	// What is not there is not mapped, and nothing of it stays.
	none := v
	if v.RBD != nil {
		other := *v.RBD
		other.Image += ".none"
		none.RBD = &other
	} else {
		none.File += ".none"
	}
	if _, err := next.Map(t.Context(), none, fine); !errors.Is(err, seedbed.ErrUnavailable) {
		t.Errorf("what is not there: %v", err)
	}
	nothing(t, next)
	if err := next.Close(); err != nil {
		t.Error(err)
	}
}
