//go:build libvirt

package libvirt

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	lv "libvirt.org/go/libvirt"
	"libvirt.org/go/libvirtxml"

	"seedbed"
)

// ResizeDisk implements worker.DomainResizer. QEMU grows the disk, and the disk's controller tells
// the guest (virDomainBlockResize).
func (d *Driver) ResizeDisk(ctx context.Context, id seedbed.InstanceID, disk seedbed.Disk, size seedbed.Bytes) error {
	return d.do(ctx, "resize a disk of domain "+string(id), id, func(_ context.Context, conn *lv.Connect) error {
		dom, _, err := find(conn, id)
		if errors.Is(err, seedbed.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		defer free(dom)
		if active, err := dom.IsActive(); err != nil || !active {
			return err
		}
		err = growLive(dom, disk, size)
		if has(err, lv.ERR_OPERATION_INVALID) {
			if active, activeErr := dom.IsActive(); activeErr == nil && !active {
				return nil // it was shut off in the meantime and has closed the disk
			}
		}
		return err
	})
}

// growLive grows the disk of a running domain, unless it already has that size.
func growLive(dom *lv.Domain, disk seedbed.Disk, size seedbed.Bytes) error {
	doc, err := dom.GetXMLDesc(0)
	if err != nil {
		return err
	}
	target, ok, err := DiskTarget(doc, disk)
	if err != nil || !ok {
		return err
	}
	now, err := dom.GetBlockInfo(target, 0)
	switch {
	case err != nil:
		return err
	case now.Capacity > uint64(size):
		return seedbed.Errorf(seedbed.ErrInvalid,
			"disk %s already has %s, and would lose everything after %s", target, seedbed.Bytes(now.Capacity),
			size)
	case now.Capacity == uint64(size):
		return nil
	}
	return dom.BlockResize(target, uint64(size), lv.DOMAIN_BLOCK_RESIZE_BYTES)
}

// ResizeDomain implements worker.DomainResizer. The domain is redefined in one call from its own
// document, and nothing else of it changes.
func (d *Driver) ResizeDomain(ctx context.Context, id seedbed.InstanceID, vcpus int, memory seedbed.Bytes) error {
	return d.do(ctx, "resize domain "+string(id), id, func(_ context.Context, conn *lv.Connect) error {
		dom, _, err := find(conn, id)
		if err != nil {
			return err
		}
		defer free(dom)
		return amend(conn, dom, func(doc string) (string, bool, error) {
			doc, changed, err := ResizedXML(doc, vcpus, memory)
			if err != nil || !changed {
				return "", false, err
			}
			active, err := dom.IsActive()
			if err == nil && active {
				err = seedbed.Errorf(seedbed.ErrInUse, "domain %s is running: shut it down first (seedbed vm stop)", id)
			}
			return doc, true, err
		})
	})
}

// AttachDisk implements worker.DiskAttacher: first in the domain's document, and then at its guest.
func (d *Driver) AttachDisk(ctx context.Context, id seedbed.InstanceID, disk seedbed.AttachedDisk) error {
	return d.do(ctx, "attach a disk to domain "+string(id), id, func(_ context.Context, conn *lv.Connect) error {
		dom, _, err := find(conn, id)
		if err != nil {
			return err
		}
		defer free(dom)
		err = amend(conn, dom, func(doc string) (string, bool, error) { return AttachedXML(doc, disk) })
		if err != nil {
			return err
		}
		if active, err := dom.IsActive(); err != nil || !active {
			return err
		}
		if err := d.defineSecrets(conn, dom); err != nil {
			return err
		}
		return orOff(dom, attachLive(dom, disk))
	})
}

// LimitDisk implements worker.DiskAttacher: first in the domain's document, and then at its guest (virDomainSetBlockIoTune).
func (d *Driver) LimitDisk(ctx context.Context, id seedbed.InstanceID, serial string, l seedbed.IOLimits) error {
	return d.do(ctx, "limit a disk of domain "+string(id), id, func(_ context.Context, conn *lv.Connect) error {
		dom, _, err := find(conn, id)
		if errors.Is(err, seedbed.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		defer free(dom)
		if err := amend(conn, dom, func(doc string) (string, bool, error) { return LimitedXML(doc, serial, l) }); err != nil {
			return err
		}
		if active, err := dom.IsActive(); err != nil || !active {
			return err
		}
		return orOff(dom, limitLive(dom, serial, l))
	})
}

// limitLive says how fast a disk of a running domain may be. All limits are given, so that those which exclude each other change at once.
func limitLive(dom *lv.Domain, serial string, l seedbed.IOLimits) error {
	now, err := liveDomain(dom)
	if err != nil {
		return err
	}
	at := withSerial(now, serial)
	if at < 0 || now.Devices.Disks[at].Target == nil {
		return nil
	}
	return dom.SetBlockIoTune(now.Devices.Disks[at].Target.Dev, &lv.DomainBlockIoTuneParameters{
		TotalIopsSecSet: true, TotalIopsSec: uint64(l.IOPS),
		ReadIopsSecSet: true, ReadIopsSec: uint64(l.ReadIOPS),
		WriteIopsSecSet: true, WriteIopsSec: uint64(l.WriteIOPS),
		TotalBytesSecSet: true, TotalBytesSec: uint64(l.Bandwidth),
		ReadBytesSecSet: true, ReadBytesSec: uint64(l.ReadBandwidth),
		WriteBytesSecSet: true, WriteBytesSec: uint64(l.WriteBandwidth),
	}, lv.DOMAIN_AFFECT_LIVE)
}

// orOff returns err unless the domain is off: libvirt refuses what is for a running one.
func orOff(dom *lv.Domain, err error) error {
	if has(err, lv.ERR_OPERATION_INVALID) {
		if active, activeErr := dom.IsActive(); activeErr == nil && !active {
			return nil
		}
	}
	return err
}

// liveDomain returns a domain as it runs.
func liveDomain(dom *lv.Domain) (*libvirtxml.Domain, error) {
	doc, err := dom.GetXMLDesc(0)
	if err != nil {
		return nil, err
	}
	var now libvirtxml.Domain
	if err := now.Unmarshal(doc); err != nil {
		return nil, fmt.Errorf("read the domain's XML: %w", err)
	}
	return &now, nil
}

// attachLive attaches a volume to a running domain, unless it has the volume.
func attachLive(dom *lv.Domain, disk seedbed.AttachedDisk) error {
	now, err := liveDomain(dom)
	if err != nil {
		return err
	}
	if withSerial(now, disk.Serial) >= 0 {
		return nil
	}
	device, err := attachedDevice(now.Name, disk)
	if err != nil {
		return err
	}
	if device.Target.Bus == seedbed.BusSCSI && now.Devices != nil && !hasSCSI(now.Devices) {
		if err := plug(dom, "disk", &scsiController); err != nil {
			return err
		}
	}
	return plug(dom, "disk", &device)
}

// plug attaches a device to a running domain. what is the message's word for it.
func plug(dom *lv.Domain, what string, device marshaler) error {
	doc, err := device.Marshal()
	if err != nil {
		return err
	}
	err = dom.AttachDeviceFlags(doc, lv.DOMAIN_DEVICE_MODIFY_LIVE)
	if err != nil && strings.Contains(err.Error(), "PCI slots") {
		return seedbed.Errorf(seedbed.ErrConflict, "the running domain has no place for another %s: switch it off and start it again, "+
			"which makes room (seedbed vm reboot), or attach it while the domain is off (%v)", what, err)
	}
	return err
}

// letGo is how long a guest may take to let go of a device, and letGoTick the interval of polling.
const (
	letGo     = 25 * time.Second
	letGoTick = 200 * time.Millisecond
)

// DetachDisk implements worker.DiskAttacher: first at the domain's guest, and then in its document.
func (d *Driver) DetachDisk(ctx context.Context, id seedbed.InstanceID, serial string) error {
	return d.detach(ctx, "a disk", id, func(now *libvirtxml.Domain) (device marshaler, refused error) {
		at := withSerial(now, serial)
		if at < 0 {
			return nil, nil
		}
		disk := &now.Devices.Disks[at]
		return disk, seedbed.Errorf(seedbed.ErrInUse, "the guest has not let go of disk %s within %s: unmount it there first, "+
			"or stop the instance (seedbed vm stop)", disk.Target.Dev, letGo)
	}, func(doc string) (string, bool, error) { return DetachedXML(doc, serial) })
}

// detach takes a device from a domain, if that exists: first from its guest, if it runs (see unplug), and then from its document.
func (d *Driver) detach(
	ctx context.Context, what string, id seedbed.InstanceID, device func(*libvirtxml.Domain) (marshaler, error),
	without func(doc string) (left string, changed bool, err error),
) error {
	return d.do(ctx, "detach "+what+" from domain "+string(id), id, func(ctx context.Context, conn *lv.Connect) error {
		dom, _, err := find(conn, id)
		if errors.Is(err, seedbed.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		defer free(dom)
		active, err := dom.IsActive()
		if err == nil && active {
			err = unplug(ctx, dom, device)
		}
		if err != nil {
			return err
		}
		return amend(conn, dom, without)
	})
}

// marshaler is a device of a document.
type marshaler interface{ Marshal() (string, error) }

// unplug asks the guest of a running domain to let go of a device, and waits until it has. find returns the device, as long as the domain
// has it, and the error for a guest that does not let go.
func unplug(ctx context.Context, dom *lv.Domain, find func(*libvirtxml.Domain) (device marshaler, refused error)) error {
	end := time.NewTimer(letGo)
	defer end.Stop()
	tick := time.NewTicker(letGoTick)
	defer tick.Stop()
	for asked := false; ; {
		now, err := liveDomain(dom)
		if err != nil {
			return err
		}
		device, refused := find(now)
		if device == nil {
			return nil
		}
		if active, err := dom.IsActive(); err != nil || !active {
			return err
		}
		if !asked {
			if err := awake(dom); err != nil {
				return err
			}
			doc, err := device.Marshal()
			if err != nil {
				return err
			}
			err = dom.DetachDeviceFlags(doc, lv.DOMAIN_DEVICE_MODIFY_LIVE)
			if err != nil && !has(err, lv.ERR_OPERATION_FAILED) { // the guest may have been asked before, and is at it
				return orOff(dom, err)
			}
			asked = true
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		case <-end.C:
			return refused
		}
	}
}

// awake returns ErrConflict for a domain whose guest cannot let go of a device, because it does not run. It would do so once it runs again,
// when nobody waits for it any more.
func awake(dom interface {
	GetState() (lv.DomainState, int, error)
}) error {
	state, _, err := dom.GetState()
	if err == nil && (state == lv.DOMAIN_PAUSED || state == lv.DOMAIN_PMSUSPENDED) {
		err = seedbed.Errorf(seedbed.ErrConflict, "the domain is paused, so its guest cannot let go of anything: resume the domain first, "+
			"or stop the instance (seedbed vm stop --force)")
	}
	return err
}

// AttachNIC implements worker.NICAttacher: first in the domain's document, and then at its guest.
func (d *Driver) AttachNIC(ctx context.Context, id seedbed.InstanceID, nic seedbed.DomainNIC) error {
	return d.do(ctx, "attach a NIC to domain "+string(id), id, func(_ context.Context, conn *lv.Connect) error {
		dom, _, err := find(conn, id)
		if err != nil {
			return err
		}
		defer free(dom)
		host, err := d.host(conn)
		if err != nil {
			return err
		}
		err = amend(conn, dom, func(doc string) (string, bool, error) { return PluggedXML(doc, nic, host) })
		if err != nil {
			return err
		}
		if active, err := dom.IsActive(); err != nil || !active {
			return err
		}
		if err := d.reachUplinks(conn, dom); err != nil {
			return err
		}
		now, err := liveDomain(dom)
		if err != nil {
			return err
		}
		device, err := nicDevice(now.Name, nic, host)
		if err != nil {
			return err
		}
		if at := withMAC(now, nic.MAC); at >= 0 {
			if nic.Uplink != "" { // of a virtual function, libvirt shows which one it took
				return nil
			}
			return sameNIC(now.Name, now.Devices.Interfaces[at], device)
		}
		return orOff(dom, plug(dom, "NIC", &device))
	})
}

// DetachNIC implements worker.NICAttacher: first at the domain's guest, and then in its document.
func (d *Driver) DetachNIC(ctx context.Context, id seedbed.InstanceID, mac seedbed.MAC) error {
	return d.detach(ctx, "a NIC", id, func(now *libvirtxml.Domain) (device marshaler, refused error) {
		at := withMAC(now, mac)
		if at < 0 {
			return nil, nil
		}
		return &now.Devices.Interfaces[at], seedbed.Errorf(seedbed.ErrInUse, "the guest has not let go of the NIC %s within %s: "+
			"see that its kernel lets devices be removed while it runs, or stop the instance (seedbed vm stop)", mac, letGo)
	}, func(doc string) (string, bool, error) { return UnpluggedXML(doc, mac) })
}

// makeRoom gives a domain that is off room for further disks and NICs (RoomyXML).
func makeRoom(conn *lv.Connect, dom *lv.Domain) error { return amend(conn, dom, RoomyXML) }
