//go:build libvirt

package libvirt

import (
	"context"
	"strings"

	lv "libvirt.org/go/libvirt"

	"seedbed"
)

// ChangeDomain implements worker.DomainChanger: first in the domain's document, and then at its guest.
func (d *Driver) ChangeDomain(ctx context.Context, c seedbed.DomainChange) ([]string, error) {
	return call(ctx, d, "change domain "+string(c.ID), c.ID, func(_ context.Context, conn *lv.Connect) ([]string, error) {
		dom, _, err := find(conn, c.ID)
		if err != nil {
			return nil, err
		}
		defer free(dom)
		host, err := d.host(conn)
		if err != nil {
			return nil, err
		}
		if err := amend(conn, dom, func(doc string) (string, bool, error) { return ChangedXML(doc, c, host) }); err != nil {
			return nil, err
		}
		if c.Autostart != nil {
			if err := dom.SetAutostart(*c.Autostart); err != nil {
				return nil, err
			}
		}
		if active, err := dom.IsActive(); err != nil || !active {
			return nil, err
		}
		if c.Drive != nil {
			if err := d.defineSecrets(conn, dom); err != nil {
				return nil, err
			}
			if err := orOff(dom, insertLive(dom, *c.Drive, c.Force)); err != nil {
				return nil, err
			}
		}
		now, err := liveDomain(dom)
		if err != nil {
			return nil, err
		}
		return Differing(now, c), nil
	})
}

// RenameDomain implements worker.DomainChanger. libvirt keeps the variables of a domain's firmware in a file with the domain's name, which
// it does not rename, and which another domain of the former name would use.
func (d *Driver) RenameDomain(ctx context.Context, id seedbed.InstanceID, name string) error {
	return d.do(ctx, "rename domain "+string(id), id, func(_ context.Context, conn *lv.Connect) error {
		dom, _, err := find(conn, id)
		if err != nil {
			return err
		}
		defer free(dom)
		switch now, err := dom.GetName(); {
		case err != nil:
			return err
		case now != name:
			if err := rename(conn, dom, id, name); err != nil {
				return err
			}
		}
		return amend(conn, dom, func(doc string) (string, bool, error) { return withVariablesOf(doc, name) })
	})
}

// rename gives a domain that is off another name, which no other domain has.
func rename(conn *lv.Connect, dom *lv.Domain, id seedbed.InstanceID, name string) error {
	switch active, err := dom.IsActive(); {
	case err != nil:
		return err
	case active:
		return seedbed.Errorf(seedbed.ErrInUse, "domain %s is running: shut it down first (seedbed vm stop)", id)
	}
	other, err := conn.LookupDomainByName(name)
	switch {
	case err == nil:
		free(other)
		return seedbed.Errorf(seedbed.ErrConflict, "another domain has the name %q: choose another name", name)
	case !has(err, lv.ERR_NO_DOMAIN):
		return err
	}
	return dom.Rename(name, 0)
}

// withVariablesOf moves the file with the variables of a domain's firmware to the one of that name beside it, and returns the document
// with that. A domain that was not started yet has no file.
func withVariablesOf(doc, name string) (amended string, changed bool, err error) {
	from, err := variablesAt(doc)
	to := variablesNamed(from, name)
	if err != nil || to == from {
		return "", false, err
	}
	if err := renameVariables(from, to); err != nil {
		return "", false, err
	}
	return strings.ReplaceAll(doc, ">"+from+"<", ">"+to+"<"), true, nil
}

// insertLive changes the image in the CD-ROM drive of a running domain, if it has the drive and libvirt can open it: otherwise the domain
// gets the image at its next start. A drive cannot be added while a domain runs.
func insertLive(dom *lv.Domain, want seedbed.CDROMDrive, force bool) error {
	now, err := liveDomain(dom)
	if err != nil || now.Devices == nil {
		return err
	}
	at := driveOf(now)
	if at < 0 || holds(now.Devices.Disks[at], want.Disk) {
		return nil
	}
	drive := now.Devices.Disks[at]
	if err := insert(now.Name, &drive, want); err != nil {
		return err
	}
	doc, err := drive.Marshal()
	if err != nil {
		return err
	}
	flags := lv.DOMAIN_DEVICE_MODIFY_LIVE
	if force {
		flags |= lv.DOMAIN_DEVICE_MODIFY_FORCE
	}
	err = dom.UpdateDeviceFlags(doc, flags)
	if err != nil && strings.Contains(err.Error(), "is not open") {
		// The guest has reset the drive since libvirt opened it, as its firmware does while it starts. QEMU has closed it without a word to
		// libvirt, which will not open it again before the next start.
		return nil
	}
	if err != nil && !force && strings.Contains(err.Error(), "tray") {
		return seedbed.Errorf(seedbed.ErrInUse, "the guest has locked the CD-ROM drive, as while it has mounted the image: unmount it there "+
			"first, or force the drive open (%v)", err)
	}
	return err
}
