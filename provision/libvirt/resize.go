//go:build libvirt

package libvirt

import (
	"context"
	"errors"

	lv "libvirt.org/go/libvirt"

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
		doc, err := dom.GetXMLDesc(whole)
		if err != nil {
			return err
		}
		doc, changed, err := ResizedXML(doc, vcpus, memory)
		if err != nil || !changed {
			return err
		}
		if active, err := dom.IsActive(); err != nil {
			return err
		} else if active {
			return seedbed.Errorf(seedbed.ErrInUse, "domain %s is running: shut it down first (seedbed vm stop)", id)
		}
		return replace(conn, doc)
	})
}
