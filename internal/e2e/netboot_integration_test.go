//go:build integration && libvirt

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"seedbed"
	"seedbed/internal/lab"
)

// onDisk is what the disk of the guest writes to the serial console.
const onDisk = "the disk is booted"

// speaking makes the image of a disk that writes onDisk and halts.
func speaking(t *testing.T, dir string) string {
	t.Helper()
	file := lab.BlankImage(t, dir)
	disk, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	code := []byte{0xba, 0xf8, 0x03} // mov dx, 0x3f8
	for _, c := range []byte(onDisk + "\r\n") {
		code = append(code, 0xb0, c, 0xee) // mov al, c; out dx, al
	}
	copy(disk, append(code, 0xf4, 0xeb, 0xfd)) // halt: hlt; jmp halt
	if err := os.WriteFile(file, disk, 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestNetworkBoot makes an instance that boots from the network, by QEMU's own iPXE. It loads what DHCP names, a script, from a web server
// beyond the node, and the script another file. Then it boots its disk. One that boots from its disk loads nothing.
func TestNetworkBoot(t *testing.T) {
	beside(t)
	h := lab.NewHost(t)
	h.Libvirt()
	s := lab.NewStack(t, lab.StackOptions{Host: h})
	addImage(t, s, "speaking", speaking(t, s.Dir))
	far, files := h.Neighbour(), t.TempDir()
	url := "http://" + far.Addr.String() + "/"
	for name, text := range map[string]string{
		"boot.ipxe": "#!ipxe\nimgfetch " + url + "seen/${net0/mac:hexhyp}\nimgfree\nexit\n", "seen/52-54-00-00-0b-01": "seen\n",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(files, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(files, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	web := far.Start(filepath.Join(t.TempDir(), "httpd.log"), "busybox", "httpd", "-f", "-vv", "-p", "80", "-h", files)
	must(t, s, "network", "add", "pxe", "--prefix", "10.98.11.0/24", "--boot-file", url+"boot.ipxe")
	must(t, s, "network", "add", "other", "--prefix", "10.98.12.0/24")
	boots := func(name string, args ...string) {
		t.Helper()
		must(t, s, append([]string{"create", name, "--memory", "128MiB"}, args...)...)
		var console string
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("the console of %s:\n%s\nthe web server:\n%s", name, console, web.Tail())
			}
		})
		lab.Await(t, 2*lab.Patience, "the disk of "+name+" is booted", func() bool {
			b, err := s.API.Console(t.Context(), name, seedbed.MiB)
			console = string(b)
			return err == nil && strings.Contains(console, onDisk)
		})
	}
	boots("disk1", "--image", "speaking", "--ready", "started", "--network", "pxe")
	if strings.Contains(web.Output(), "boot.ipxe") {
		t.Error("an instance that boots from its disk loads what DHCP names")
	}
	must(t, s, "profile", "add", "netboot", "--image", "speaking", "--disk", "0", "--ready", "started", "--boot", "network",
		"--nic", "network=pxe", "--nic", "network=other")
	boots("net1", "--profile", "netboot", "--nic", "network=pxe,mac=52:54:00:00:0b:01", "--nic", "network=other")
	for _, want := range []string{"/boot.ipxe", "/seen/52-54-00-00-0b-01"} {
		if !strings.Contains(web.Output(), want) {
			t.Errorf("the web server was not asked for %s", want)
		}
	}
}
