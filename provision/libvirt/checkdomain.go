//go:build libvirt

package libvirt

import (
	"context"

	lv "libvirt.org/go/libvirt"

	"seedbed"
)

// document returns the document that defines a domain.
func document(spec seedbed.DomainSpec, host Host) (string, error) {
	if spec.Script == nil {
		return DomainXML(spec, host)
	}
	doc, _, err := ScriptedXML(spec, host)
	return doc, err
}

// CheckDomain implements worker.DomainChecker.
func (d *Driver) CheckDomain(ctx context.Context, spec seedbed.DomainSpec) ([]string, error) {
	if spec.Script == nil {
		return nil, seedbed.Errorf(seedbed.ErrInvalid, "domain %s has no document to check", spec.Name)
	}
	return call(ctx, d, "check domain "+spec.Name, "", func(_ context.Context, conn *lv.Connect) ([]string, error) {
		host, err := d.host(conn)
		if err != nil {
			return nil, err
		}
		_, notes, err := ScriptedXML(spec, host)
		return notes, err
	})
}

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
