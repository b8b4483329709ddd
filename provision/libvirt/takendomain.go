//go:build libvirt

package libvirt

import (
	"context"
	"errors"

	lv "libvirt.org/go/libvirt"

	"seedbed"
)

// TakenMACs implements worker.Network.
func (d *Driver) TakenMACs(ctx context.Context) ([]seedbed.TakenMAC, error) {
	taken, failed := neighbours()
	domains, err := call(
		ctx,
		d,
		"list the MAC addresses of foreign domains",
		"",
		func(ctx context.Context, conn *lv.Connect) (taken []seedbed.TakenMAC, err error) {
			err = each(ctx, conn, func(dom *lv.Domain) error {
				of, err := macsOfForeign(dom)
				taken = append(taken, of...)
				return err
			})
			if err != nil {
				return nil, err
			}
			return taken, nil
		},
	)
	return append(taken, domains...), errors.Join(failed, err)
}

// macsOfForeign returns the MAC addresses of a domain without our tag, and nothing for one with
// it.
func macsOfForeign(dom *lv.Domain) (taken []seedbed.TakenMAC, err error) {
	uuid, err := dom.GetUUIDString()
	if err != nil {
		return nil, err
	}
	if _, ours, err := tagOf(dom, seedbed.InstanceID(uuid)); err != nil || ours {
		return nil, err
	}
	name, err := dom.GetName()
	if err != nil {
		return nil, err
	}
	doc, err := dom.GetXMLDesc(lv.DOMAIN_XML_INACTIVE)
	if err != nil {
		return nil, err
	}
	macs, err := macsOf(doc)
	for _, mac := range macs {
		taken = append(taken, seedbed.TakenMAC{MAC: mac, By: "domain " + name})
	}
	return taken, err
}

// tapOfAnother returns the name of a running domain that has an interface of the name that doc, the
// document of dom, gives one of its own; empty if there is none or that cannot be read.
func tapOfAnother(ctx context.Context, conn *lv.Connect, dom *lv.Domain, doc string) (domain, tap string) {
	own, err := dom.GetUUIDString()
	if err != nil {
		return "", ""
	}
	_ = each(ctx, conn, func(other *lv.Domain) error { // which would only hide why the start failed
		if uuid, err := other.GetUUIDString(); err != nil || uuid == own || domain != "" {
			return err
		}
		if active, err := other.IsActive(); err != nil || !active {
			return err
		}
		theirs, err := other.GetXMLDesc(0)
		if err != nil {
			return err
		}
		if tap = sharedTap(doc, theirs); tap != "" {
			domain, err = other.GetName()
		}
		return err
	})
	return domain, tap
}
