//go:build libvirt

package libvirt

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	lv "libvirt.org/go/libvirt"

	"seedbed"
)

// whole selects a domain's own document with what libvirt otherwise leaves out, such as the
// password of its screen, which would be lost when the domain is redefined.
const whole = lv.DOMAIN_XML_INACTIVE | lv.DOMAIN_XML_SECURE

// ForeignDomains lists the domains without our tag, ordered by name.
func (d *Driver) ForeignDomains(ctx context.Context) ([]seedbed.ForeignDomain, error) {
	return call(ctx, d, "list foreign domains", "", func(ctx context.Context, conn *lv.Connect) ([]seedbed.ForeignDomain, error) {
		all := []seedbed.ForeignDomain{}
		err := each(ctx, conn, func(dom *lv.Domain) error {
			f, ours, err := inspectForeign(dom)
			if err == nil && !ours {
				all = append(all, f)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		slices.SortFunc(all, func(a, b seedbed.ForeignDomain) int { return strings.Compare(a.Name, b.Name) })
		return all, nil
	})
}

// inspectForeign returns what is known of a domain without further calls.
func inspectForeign(dom *lv.Domain) (f seedbed.ForeignDomain, ours bool, err error) {
	uuid, err := dom.GetUUIDString()
	if err != nil {
		return f, false, err
	}
	f.ID = seedbed.InstanceID(uuid)
	tag, ours, err := tagOf(dom, f.ID)
	if err != nil || ours {
		return f, ours, err
	}
	f.Project = tag.Project
	if f.Name, err = dom.GetName(); err != nil {
		return f, false, err
	}
	info, err := dom.GetInfo()
	if err != nil {
		return f, false, err
	}
	state, reason, err := dom.GetState()
	if err != nil {
		return f, false, err
	}
	f.State, f.VCPUs, f.Memory = stateOf(state, reason), int(info.NrVirtCpu), seedbed.Bytes(info.MaxMem)*seedbed.KiB
	f.Disks, f.NICs, f.Problems = []seedbed.ForeignDisk{}, []seedbed.ForeignNIC{}, []string{}
	return f, false, nil
}

// ForeignDomain describes the domain of that name, with what prevents its adoption. It returns
// ErrNotFound, or ErrConflict if the domain is an instance.
func (d *Driver) ForeignDomain(ctx context.Context, name string) (seedbed.ForeignDomain, error) {
	return call(ctx, d, "look at domain "+name, "", func(ctx context.Context, conn *lv.Connect) (f seedbed.ForeignDomain, err error) {
		dom, err := conn.LookupDomainByName(name)
		if has(err, lv.ERR_NO_DOMAIN) {
			return f, seedbed.Errorf(seedbed.ErrNotFound, "domain %q does not exist on this node", name)
		}
		if err != nil {
			return f, err
		}
		defer free(dom)
		first, ours, err := inspectForeign(dom)
		if err != nil {
			return f, err
		}
		if ours {
			return f, seedbed.Errorf(seedbed.ErrConflict, "domain %q is already an instance (%s)", name, first.ID)
		}
		doc, err := dom.GetXMLDesc(lv.DOMAIN_XML_INACTIVE)
		if err != nil {
			return f, err
		}
		f, err = ParseForeign(doc, func(network string) (string, error) {
			n, err := conn.LookupNetworkByName(network)
			if err != nil {
				return "", err
			}
			defer func() { _ = n.Free() }()
			return n.GetBridgeName()
		})
		if err != nil {
			return f, err
		}
		f.State, f.Project = first.State, first.Project
		if persistent, err := dom.IsPersistent(); err != nil {
			return f, err
		} else if !persistent {
			f.Problems = append(f.Problems, "the domain is transient: define it first (virsh define)")
		}
		if f.State != seedbed.DomainOff && f.State != seedbed.DomainCrashed {
			f.Problems = append(f.Problems,
				fmt.Sprintf("the domain is %s: shut it down first, because adoption renames its disks and taps", f.State))
		}
		return f, nil
	})
}

// AdoptDomain implements worker.DomainAdopter.
func (d *Driver) AdoptDomain(ctx context.Context, a seedbed.DomainAdoption) error {
	return d.do(ctx, "adopt domain "+a.Name, a.ID, func(_ context.Context, conn *lv.Connect) error {
		dom, err := conn.LookupDomainByUUIDString(string(a.ID))
		if err != nil {
			return absentDomain(err, a.ID)
		}
		defer free(dom)
		if _, ours, err := tagOf(dom, a.ID); err != nil || ours {
			return err
		}
		if name, err := dom.GetName(); err != nil || name != a.Name {
			return errors.Join(err, seedbed.Errorf(seedbed.ErrConflict, "domain %s is now called %q, not %q", a.ID, name, a.Name))
		}
		return redefine(conn, dom, a, func(doc string) (string, error) { return AdoptedXML(doc, a, d.cfg.ConsoleDir) })
	})
}

// ReleaseDomain implements worker.DomainAdopter.
func (d *Driver) ReleaseDomain(ctx context.Context, a seedbed.DomainAdoption) error {
	return d.do(ctx, "release domain "+string(a.ID), a.ID, func(_ context.Context, conn *lv.Connect) error {
		dom, err := conn.LookupDomainByUUIDString(string(a.ID))
		if has(err, lv.ERR_NO_DOMAIN) {
			return nil
		}
		if err != nil {
			return err
		}
		defer free(dom)
		if _, ours, err := tagOf(dom, a.ID); err != nil || !ours {
			return err
		}
		if len(a.Sources) > 0 || len(a.NICs) > 0 {
			if err := redefine(conn, dom, a, func(doc string) (string, error) { return GivenBackXML(doc, a, d.cfg.ConsoleDir) }); err != nil {
				return err
			}
		}
		where := lv.DOMAIN_AFFECT_CONFIG
		active, err := dom.IsActive()
		if err != nil {
			return err
		}
		if active {
			where |= lv.DOMAIN_AFFECT_LIVE
		}
		return dom.SetMetadata(lv.DOMAIN_METADATA_ELEMENT, "", "", Namespace, where)
	})
}

// redefine gives a domain that is shut off another document.
func redefine(conn *lv.Connect, dom *lv.Domain, a seedbed.DomainAdoption, change func(string) (string, error)) error {
	active, err := dom.IsActive()
	if err != nil {
		return err
	}
	if active {
		return seedbed.Errorf(seedbed.ErrInUse, "domain %s is running: shut it down first", a.Name)
	}
	return amend(conn, dom, func(doc string) (string, bool, error) {
		doc, err := change(doc)
		return doc, true, err
	})
}
