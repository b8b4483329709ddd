//go:build integration && ceph && libvirt

package ceph

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"seedbed"
	"seedbed/internal/lab"
	"seedbed/provision/libvirt"
)

// hello is a boot sector that writes to the first serial port, reads its disk's
// next sector with the BIOS, writes that too, and halts.
func hello(t *testing.T) string {
	t.Helper()
	disk := make([]byte, 1<<20)
	code := []byte{
		0x31, 0xc0, // xor ax,ax
		0x8e, 0xd8, // mov ds,ax
		0x8e, 0xc0, // mov es,ax
		0xb8, 0x01, 0x02, // mov ax,0x0201: read one sector
		0xb9, 0x02, 0x00, // mov cx,2: cylinder 0, sector 2
		0xb6, 0x00, // mov dh,0; dl is the boot drive
		0xbb, 0x00, 0x7e, // mov bx,0x7e00
		0xcd, 0x13, // int 0x13
		0xbe, 0x00, 0x7e, // mov si,0x7e00
		0xba, 0xf8, 0x03, // mov dx,0x3f8
		0xac,       // lodsb
		0x84, 0xc0, // test al,al
		0x74, 0x03, // jz halt
		0xee,       // out dx,al
		0xeb, 0xf8, // jmp lodsb
		0xf4,       // halt: hlt
		0xeb, 0xfd, // jmp halt
	}
	copy(disk, code)
	disk[510], disk[511] = 0x55, 0xaa
	copy(disk[512:], "read from the clone\r\n\x00")
	path := filepath.Join(t.TempDir(), "hello.raw")
	if err := os.WriteFile(path, disk, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestDomain: a guest boots from a clone, with the key from libvirt's secret.
func TestDomain(t *testing.T) {
	t.Parallel()
	lab.Libvirt(t)
	c := lab.Ceph(t)
	cfg := config(t, c)
	cfg.Name = fmt.Sprintf("lab-%d", os.Getpid()) // so that the secret is nobody else's
	p := open(t, cfg)
	ctx := t.Context()
	if _, err := p.ImportImage(ctx, "job", seedbed.ImageSpec{Name: "base", Path: hello(t)}, nil); err != nil {
		t.Fatal(err)
	}
	secret := SecretID(cfg.Name, cfg.User)
	t.Cleanup(func() { exec.Command("virsh", "-q", "-c", libvirt.DefaultURI, "secret-undefine", secret).Run() })
	d, err := libvirt.Open(ctx, libvirt.Config{ConsoleDir: filepath.Join(lab.Dir(t), "console"), CDROMDir: lab.Dir(t),
		DomainType: "qemu", Log: cfg.Log,
		Secrets: []libvirt.Secret{{ID: secret, Name: "seedbed " + cfg.Name, User: cfg.User, Keyring: cfg.Keyring}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	id := seedbed.NewInstanceID()
	v, err := p.CloneVolume(ctx, "job", seedbed.VolumeSpec{Name: string(id) + "-0", Instance: id, Image: "base", Size: 8 * seedbed.MiB})
	if err != nil {
		t.Fatal(err)
	}
	spec := seedbed.DomainSpec{
		ID: id, Name: "sbceph-" + string(id[:8]), VCPUs: 1, Memory: 64 * seedbed.MiB, Disks: []seedbed.Disk{v.Disk}, Profile: "test", Job: "job",
	}
	if err := d.DefineDomain(ctx, spec); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		exec.Command("virsh", "-q", "-c", libvirt.DefaultURI, "destroy", string(id)).Run()
		exec.Command("virsh", "-q", "-c", libvirt.DefaultURI, "undefine", string(id)).Run()
	})
	// A secret that somebody removed comes back with the next start.
	exec.Command("virsh", "-q", "-c", libvirt.DefaultURI, "secret-undefine", secret).Run()
	if err := d.StartDomain(ctx, id); err != nil {
		t.Fatal(err)
	}
	lab.Await(t, lab.Patience, "the guest reads its disk", func() bool {
		text, err := d.Console(ctx, id, seedbed.KiB)
		return err == nil && bytes.Contains(text, []byte("read from the clone"))
	})
	cmdline, err := exec.Command("pgrep", "-af", string(id)).Output()
	if err != nil {
		t.Fatal(err)
	}
	key, err := os.ReadFile(cfg.Keyring)
	if err != nil {
		t.Fatal(err)
	}
	if _, value, ok := strings.Cut(string(key), "key = "); !ok || strings.Contains(string(cmdline), strings.TrimSpace(value)) {
		t.Error("the key stands in QEMU's arguments")
	}
	if err := p.RemoveVolume(ctx, v.Name, id); err == nil {
		t.Error("the volume of a running guest was removed")
	}
	growLive(t, d, p, v)
	if err := d.DestroyDomain(ctx, id); err != nil {
		t.Fatal(err)
	}
	if err := d.UndefineDomain(ctx, id); err != nil {
		t.Fatal(err)
	}
	if err := p.RemoveVolume(ctx, v.Name, id); err != nil {
		t.Fatal(err)
	}
}

// growLive makes the disk of a guest that runs larger, as the worker does: QEMU
// has the image open and goes first, so that the guest knows.
func growLive(t *testing.T, d *libvirt.Driver, p *Pool, v seedbed.VolumeInfo) {
	t.Helper()
	const size = 16 * seedbed.MiB
	for range 2 {
		if err := d.ResizeDisk(t.Context(), v.Instance, v.Disk, size); err != nil {
			t.Fatal(err)
		}
		if got, err := p.ResizeVolume(t.Context(), v.Name, v.Instance, size); err != nil || got.Size != size {
			t.Fatalf("%+v, %v", got, err)
		}
	}
	out, err := exec.Command("virsh", "-q", "-c", libvirt.DefaultURI, "domblkinfo", string(v.Instance), "vda").CombinedOutput()
	if err != nil || !strings.Contains(string(out), fmt.Sprint(int64(size))) {
		t.Errorf("the guest's disk: %v\n%s", err, out)
	}
}
