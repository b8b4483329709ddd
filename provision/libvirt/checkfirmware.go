//go:build libvirt

package libvirt

import (
	lv "libvirt.org/go/libvirt"

	"seedbed"
)

// unstartable returns err, which defining or starting the domain of doc gave, or a clearer error if
// the cause is missing UEFI firmware. libvirt up to 9.1 reports that when the domain starts, later
// versions when it is defined, and none says what to do. The firmware is only looked up after a
// failure, because libvirt caches the result until it is restarted.
func unstartable(conn *lv.Connect, doc string, err error) error {
	d, uefi := byUEFI(doc)
	if err == nil || !uefi {
		return err
	}
	caps, capsErr := conn.GetDomainCapabilities(d.Devices.Emulator, d.OS.Type.Arch, d.OS.Type.Machine, d.Type, 0)
	if capsErr != nil || offersUEFI(caps) {
		return err
	}
	return seedbed.Errorf(seedbed.ErrInvalid, "domain %s needs UEFI, but libvirt on this node has no UEFI firmware for %s: install ovmf (%v)",
		d.Name, d.OS.Type.Arch, err)
}
