//go:build integration

package lab

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// tiny is a domain of a name that runs and does nothing.
func tiny(name, disk string) string {
	return fmt.Sprintf(`<domain type='qemu'><name>%s</name><memory unit='MiB'>32</memory><os><type arch='x86_64'>hvm</type></os>
<devices><disk type='file'><driver name='qemu' type='raw'/><source file='%s'/><target dev='vda' bus='virtio'/></disk></devices></domain>`,
		name, disk)
}

// defineTiny writes the definition of a tiny domain with a disk in dir, and returns the file.
func defineTiny(t *testing.T, name, dir string) (file string) {
	t.Helper()
	file = filepath.Join(dir, "domain.xml")
	if err := os.WriteFile(file, []byte(tiny(name, BlankImage(t, dir))), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// runTiny runs a tiny domain, with a disk in dir, on the machine's own libvirt.
func runTiny(t *testing.T, name, dir string) {
	t.Helper()
	t.Cleanup(func() { virsh("destroy", name); virsh("undefine", name) })
	for _, command := range [][]string{{"define", defineTiny(t, name, dir)}, {"start", name}} {
		if err := virsh(command...); err != nil {
			t.Fatalf("virsh %v: %v", command, err)
		}
	}
}

// TestHost runs a domain of one name on the machine's own libvirt and on a
// second host's: neither sees the other's, and the second's outlives its libvirtd.
func TestHost(t *testing.T) {
	Libvirt(t)
	h := NewHost(t)
	libvirtd := h.Libvirt()
	const name = "sblab-tiny"
	runTiny(t, name, Dir(t))
	if seen := h.Domains(); len(seen) != 0 {
		t.Errorf("the second host has the first's %v", seen)
	}
	h.Virsh("define", defineTiny(t, name, h.Dir))
	h.Virsh("start", name)
	if err := virsh("destroy", name); err != nil {
		t.Errorf("the first's: %v", err)
	}
	libvirtd.Kill()
	h.Libvirt()
	if state := strings.TrimSpace(h.Virsh("domstate", name)); state != "running" {
		t.Errorf("the second's is %s", state)
	}

	reached := func() bool {
		return exec.Command("ping", "-c", "1", "-W", "1", h.Addr.String()).Run() == nil
	}
	Await(t, Patience, "the second host answers", reached)
	h.Link(false)
	if reached() {
		t.Error("the second host answers without its link")
	}
	h.Link(true)
	Await(t, Patience, "the second host answers again", reached)
}

// killed is set for the test that TestHostKilled kills.
const killed = "SEEDBED_LAB_KILLED"

// TestHostKilled: with a test that is killed, its host goes, and a daemon there too.
func TestHostKilled(t *testing.T) {
	if os.Getenv(killed) != "" {
		h := NewHost(t)
		h.Run("sh", "-c", "setsid sleep 600 >/dev/null 2>&1 &")
		fmt.Println("has", h.link, h.Dir)
		select {}
	}
	log := filepath.Join(Dir(t), "log")
	t.Setenv(killed, "yes")
	t.Cleanup(func() {
		if t.Failed() {
			out, _ := os.ReadFile(log)
			t.Logf("the other test: %s", out)
		}
	})
	p := Start(t, log, os.Args[0], "-test.run", "^TestHostKilled$", "-test.timeout", "5m")
	var link, dir string
	Await(t, Patience, "the other test has a host", func() bool {
		n, _ := fmt.Sscanf(p.Output(), "has %s %s\n", &link, &dir)
		return n == 2
	})
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := exec.Command("ip", "link", "show", link).Run(); err != nil {
		t.Fatalf("the link: %v", err)
	}
	p.Kill()
	// The link goes with the namespace, and that with its last process.
	Await(t, Patience, "the link is gone", func() bool { return exec.Command("ip", "link", "show", link).Run() != nil })
}
