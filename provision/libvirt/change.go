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

// insertLive changes the image in the CD-ROM drive of a running domain, if it has the drive. A drive cannot be added while a domain runs.
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
	if err != nil && !force && strings.Contains(err.Error(), "tray") {
		return seedbed.Errorf(seedbed.ErrInUse, "the guest has locked the CD-ROM drive, as while it has mounted the image: unmount it there "+
			"first, or force the drive open (%v)", err)
	}
	return err
}
