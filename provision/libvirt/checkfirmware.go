//go:build libvirt

package libvirt

import (
	lv "libvirt.org/go/libvirt"

	"seedbed"
)

// unstartable is err of defining or starting the domain of doc, unless that is
// because there is no UEFI for it: libvirt up to 9.1 says so when the domain
// starts, later ones when it is defined, and none says what to do. What libvirt
// offers is looked at only now, since it remembers that until it is restarted.
func unstartable(conn *lv.Connect, doc string, err error) error {
	d, uefi := byUEFI(doc)
	if err == nil || !uefi {
		return err
	}
	caps, capsErr := conn.GetDomainCapabilities(d.Devices.Emulator, d.OS.Type.Arch, d.OS.Type.Machine, d.Type, 0)
	if capsErr != nil || offersUEFI(caps) {
		return err
	}
	return seedbed.Errorf(seedbed.ErrInvalid, "domain %s is to be started by UEFI, and libvirt on this node knows no UEFI for %s: install ovmf (%v)",
		d.Name, d.OS.Type.Arch, err)
}
