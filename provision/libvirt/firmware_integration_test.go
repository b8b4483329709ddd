//go:build integration && libvirt

package libvirt_test

import (
	"errors"
	"strings"
	"testing"

	"seedbed"
	"seedbed/provision/libvirt"
)

// TestNoFirmware: where libvirt has no UEFI that fits, starting says what to
// install. Debian's package for 64 bits has none for a processor of 32.
func TestNoFirmware(t *testing.T) {
	base := connect(t, system)
	withBridge(t)
	d := open(t, system)
	s := newSpec(t, base, seedbed.Disk{Type: "file", Format: "raw", Source: bootable(t, sayHello)})
	s.Firmware = seedbed.FirmwareUEFI
	doc, err := libvirt.DomainXML(s, libvirt.Host{
		DomainType: libvirt.TypeQEMU, Arch: "i686", Emulator: "/usr/bin/qemu-system-i386", Machine: "pc", ConsoleDir: t.TempDir(),
	})
	if err != nil {
		t.Fatal(err)
	}
	dom, err := base.DomainDefineXML(doc) // the driver defines for the host's own processor only
	if err != nil {
		t.Fatal(err)
	}
	defer dom.Free()
	err = d.StartDomain(t.Context(), s.ID)
	if !errors.Is(err, seedbed.ErrInvalid) || !strings.Contains(err.Error(), "install ovmf") {
		t.Errorf("start: %v; want ErrInvalid that says what to install", err)
	}
}
