//go:build libvirt

package libvirt

import (
	"context"
	"errors"
	"fmt"

	lv "libvirt.org/go/libvirt"

	"seedbed"
	"seedbed/provision/seed"
)

// DefineDomain defines the domain without starting it. It succeeds if a tagged domain of the same
// ID and name exists, which stays unchanged. It returns ErrConflict if the ID or name belongs to
// another domain, ErrInvalid, or ErrUnavailable.
func (d *Driver) DefineDomain(ctx context.Context, spec seedbed.DomainSpec) error {
	return d.do(ctx, "define domain "+spec.Name, spec.ID, func(_ context.Context, conn *lv.Connect) error {
		host, err := d.host(conn)
		if err != nil {
			return err
		}
		doc, err := document(spec, host)
		if err != nil {
			return err
		}
		there, err := defined(conn, spec)
		if err != nil || there {
			return err
		}
		d.know(spec.ID, true) // before libvirt reports it
		dom, err := conn.DomainDefineXML(doc)
		if err != nil {
			d.know(spec.ID, false)
		}
		err = unstartable(conn, doc, err)
		// libvirt reports a taken name as "operation failed", and so a UUID taken since find.
		if has(err, lv.ERR_OPERATION_FAILED) {
			return inTheWay(conn, spec, err)
		}
		if err != nil {
			return err
		}
		defer free(dom)
		if spec.System == nil || !spec.System.Autostart {
			return nil
		}
		if err := dom.SetAutostart(true); err != nil {
			return errors.Join(fmt.Errorf("autostart: %w", err), undefine(dom))
		}
		return nil
	})
}

// replace gives a domain that exists another document.
func replace(conn *lv.Connect, doc string) error {
	dom, err := conn.DomainDefineXML(doc)
	if err == nil {
		free(dom)
	}
	return err
}

// amend gives a domain the document that change makes of its own, unless nothing is changed.
func amend(conn *lv.Connect, dom *lv.Domain, change func(doc string) (amended string, changed bool, err error)) error {
	doc, err := dom.GetXMLDesc(whole)
	if err != nil {
		return err
	}
	doc, changed, err := change(doc)
	if err != nil || !changed {
		return err
	}
	return replace(conn, doc)
}

// defined reports whether the domain exists with the spec's ID and name.
func defined(conn *lv.Connect, spec seedbed.DomainSpec) (bool, error) {
	dom, _, err := find(conn, spec.ID)
	if err == nil {
		defer free(dom)
		name, err := dom.GetName()
		if err != nil {
			return false, err
		}
		if name != spec.Name {
			return false, seedbed.Errorf(seedbed.ErrConflict, "domain %s exists with the name %q, not %q", spec.ID, name, spec.Name)
		}
		return true, nil
	}
	if !errors.Is(err, seedbed.ErrNotFound) {
		return false, err
	}
	return false, nil
}

// inTheWay explains why a domain could not be defined whose name or ID another domain has.
func inTheWay(conn *lv.Connect, spec seedbed.DomainSpec, err error) error {
	conflict := seedbed.Errorf(seedbed.ErrConflict, "define domain %s: %v", spec.Name, err)
	other, err := conn.LookupDomainByName(spec.Name)
	if err != nil {
		return conflict
	}
	defer free(other)
	id, err := other.GetUUIDString()
	if err != nil || id == string(spec.ID) {
		return conflict
	}
	return seedbed.Errorf(seedbed.ErrConflict, "a domain %q exists with the UUID %s, not %s: choose another name", spec.Name, id, spec.ID)
}

const (
	undefineSome = lv.DOMAIN_UNDEFINE_MANAGED_SAVE | lv.DOMAIN_UNDEFINE_SNAPSHOTS_METADATA
	undefineAll  = undefineSome | lv.DOMAIN_UNDEFINE_NVRAM | lv.DOMAIN_UNDEFINE_CHECKPOINTS_METADATA
	undefineKept = undefineSome | lv.DOMAIN_UNDEFINE_KEEP_NVRAM | lv.DOMAIN_UNDEFINE_KEEP_TPM |
		lv.DOMAIN_UNDEFINE_CHECKPOINTS_METADATA
)

// undefine removes a domain with everything that libvirt keeps of it. Drivers that do not know some
// of these flags refuse them.
func undefine(dom *lv.Domain) error {
	err := dom.UndefineFlags(undefineAll)
	if has(err, lv.ERR_INVALID_ARG) {
		err = dom.UndefineFlags(undefineSome)
	}
	return err
}

// UndefineDomain undefines the domain with its managed save, NVRAM and snapshot metadata, and
// removes its console log and its CD-ROM. It succeeds if the domain is absent. It returns ErrInUse if the domain
// is running, ErrConflict if it is not tagged, or ErrUnavailable.
func (d *Driver) UndefineDomain(ctx context.Context, id seedbed.InstanceID) error {
	return d.undefine(ctx, id, undefine)
}

// UndefineKept implements worker.Definer. It returns ErrInvalid for a domain with a TPM if libvirt is older than 8.9.
func (d *Driver) UndefineKept(ctx context.Context, id seedbed.InstanceID) error {
	return d.undefine(ctx, id, func(dom *lv.Domain) error {
		err := dom.UndefineFlags(undefineKept)
		if !has(err, lv.ERR_INVALID_ARG) {
			return err
		}
		doc, err := dom.GetXMLDesc(whole)
		if err != nil {
			return err
		}
		parsed, uefi := byUEFI(doc)
		switch {
		case withTPM(parsed):
			return seedbed.Errorf(seedbed.ErrInvalid, "domain %s has a TPM, whose state libvirt on this node cannot keep while the domain is "+
				"defined again: update libvirt to 8.9 or later", parsed.Name)
		case uefi:
			return dom.UndefineFlags(undefineKept &^ lv.DOMAIN_UNDEFINE_KEEP_TPM)
		}
		return undefine(dom)
	})
}

func (d *Driver) undefine(ctx context.Context, id seedbed.InstanceID, how func(*lv.Domain) error) error {
	return d.do(ctx, "undefine domain "+string(id), id, func(_ context.Context, conn *lv.Connect) error {
		dom, _, err := find(conn, id)
		switch {
		case errors.Is(err, seedbed.ErrNotFound):
			return d.removeFiles(id)
		case err != nil:
			return err
		}
		defer free(dom)
		active, err := dom.IsActive()
		if err != nil {
			return err
		}
		if active {
			return seedbed.Errorf(seedbed.ErrInUse, "domain %s is running: destroy it before it is undefined", id)
		}
		if err := how(dom); err != nil && !has(err, lv.ERR_NO_DOMAIN) {
			return err
		}
		return d.removeFiles(id)
	})
}

// removeFiles removes what a domain leaves on this host.
func (d *Driver) removeFiles(id seedbed.InstanceID) error {
	return errors.Join(removeConsole(d.cfg.ConsoleDir, id), seed.Remove(d.cfg.CDROMDir, id))
}

// SeedDomain makes the CD-ROM of a domain, or makes it again. It returns ErrInvalid for files that are not those of a seed.
func (d *Driver) SeedDomain(_ context.Context, s seedbed.Seed) error {
	return seed.Write(d.cfg.CDROMDir, s)
}

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
// the cause is missing UEFI firmware or a missing emulator of TPMs. libvirt up to 9.1 reports the former when the domain starts, later
// versions when it is defined, and none says what to do. Both are only looked up after a
// failure, because libvirt caches the result until it is restarted.
func unstartable(conn *lv.Connect, doc string, err error) error {
	d, uefi := byUEFI(doc)
	if err == nil || !uefi && !withTPM(d) {
		return err
	}
	caps, capsErr := conn.GetDomainCapabilities(d.Devices.Emulator, d.OS.Type.Arch, d.OS.Type.Machine, d.Type, 0)
	switch {
	case capsErr != nil:
		return err
	case withTPM(d) && !offersTPM(caps):
		return seedbed.Errorf(seedbed.ErrInvalid, "domain %s has a TPM, but libvirt on this node has no emulator of it: install swtpm and "+
			"swtpm-tools, and restart libvirtd (%v)", d.Name, err)
	case !uefi || offersUEFI(caps):
		return err
	}
	return seedbed.Errorf(seedbed.ErrInvalid, "domain %s needs UEFI, but libvirt on this node has no UEFI firmware for %s: install ovmf (%v)",
		d.Name, d.OS.Type.Arch, err)
}
