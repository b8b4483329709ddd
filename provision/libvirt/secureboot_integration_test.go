//go:build integration && libvirt

package libvirt_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"seedbed"
)

// loader is a boot loader that no key has signed.
const loader = "/usr/lib/systemd/boot/efi/systemd-bootx64.efi"

// loaderDisk returns a raw disk with the boot loader of removable media (UEFI 3.5.1.1).
func loaderDisk(t *testing.T) seedbed.Disk {
	path := diskPath("raw")
	t.Cleanup(func() { os.Remove(path) })
	for _, args := range [][]string{
		{"mkfs.vfat", "-C", path, "8192"},
		{"mmd", "-i", path, "::/EFI", "::/EFI/BOOT"},
		{"mcopy", "-i", path, loader, "::/EFI/BOOT/BOOTX64.EFI"},
	} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", args, err, out)
		}
	}
	return seedbed.Disk{Type: "file", Format: "raw", Source: path}
}

// TestSecureBoot boots an unsigned loader by UEFI, and by UEFI with secure boot, which must refuse it. The domain with secure
// boot has a TPM, whose state exists as long as the domain.
func TestSecureBoot(t *testing.T) {
	base := connect(t, system)
	withBridge(t)
	d := open(t, system)
	disk := loaderDisk(t)
	ctx := t.Context()
	for firmware, want := range map[seedbed.Firmware]string{
		seedbed.FirmwareUEFI:   "BdsDxe: starting Boot",
		seedbed.FirmwareSecure: "Access Denied",
	} {
		t.Run(string(firmware), func(t *testing.T) {
			secure := firmware == seedbed.FirmwareSecure
			spec := newSpec(t, base, disk)
			spec.Memory, spec.Firmware, spec.System = 256*seedbed.MiB, firmware, &seedbed.System{Serial: true, TPM: secure}
			if err := d.DefineDomain(ctx, spec); err != nil {
				t.Fatal(err)
			}
			defer remove(t, d, spec.ID)
			if err := d.StartDomain(ctx, spec.ID); err != nil {
				t.Fatal(err)
			}
			for end := time.Now().Add(2 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
				log, err := d.Console(ctx, spec.ID, seedbed.MiB)
				if err != nil {
					t.Fatal(err)
				}
				if bytes.Contains(log, []byte(want)) {
					break
				}
				if time.Now().After(end) {
					t.Fatalf("the console has %q; want %q", log, want)
				}
			}
			state := filepath.Join("/var/lib/libvirt/swtpm", string(spec.ID))
			if _, err := os.Stat(state); (err == nil) != secure {
				t.Errorf("the state of the TPM: %v, and the domain has one: %v", err, secure)
			}
			variables := filepath.Join("/var/lib/libvirt/qemu/nvram", spec.Name+"_VARS.fd")
			was, err := os.ReadFile(variables)
			if err := errors.Join(err, d.DestroyDomain(ctx, spec.ID), d.UndefineKept(ctx, spec.ID), d.DefineDomain(ctx, spec)); err != nil {
				t.Fatal(err)
			}
			if now, err := os.ReadFile(variables); err != nil || !bytes.Equal(now, was) {
				t.Errorf("defined again, the domain has other variables, %v", err)
			}
			if _, err := os.Stat(state); (err == nil) != secure {
				t.Errorf("the state of the TPM once the domain is defined again: %v", err)
			}
			if err := d.UndefineDomain(ctx, spec.ID); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(variables); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the variables after their domain: %v", err)
			}
			if _, err := os.Stat(state); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the state of the TPM after its domain: %v", err)
			}
		})
	}
}
