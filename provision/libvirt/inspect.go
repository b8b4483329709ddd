//go:build libvirt

package libvirt

import (
	"context"
	"errors"
	"time"

	lv "libvirt.org/go/libvirt"

	"seedbed"
	"seedbed/internal/cgate"
)

// DomainState returns the state of one tagged domain. It returns ErrNotFound if there is none of
// that ID or it is not tagged, or ErrUnavailable.
func (d *Driver) DomainState(ctx context.Context, id seedbed.InstanceID) (seedbed.DomainInfo, error) {
	return call(ctx, d, "state of domain "+string(id), "", func(_ context.Context, conn *lv.Connect) (seedbed.DomainInfo, error) {
		dom, tag, err := findVisible(conn, id)
		if err != nil {
			return seedbed.DomainInfo{}, err
		}
		defer free(dom)
		return info(dom, tag)
	})
}

// Domains lists all tagged domains in no particular order, including those that are shut off. It
// never returns a part of them with an error.
func (d *Driver) Domains(ctx context.Context) ([]seedbed.DomainInfo, error) {
	infos, err := call(ctx, d, "list the domains", "", tagged)
	if err != nil {
		return nil, err
	}
	d.remember(infos)
	return infos, nil
}

func tagged(ctx context.Context, conn *lv.Connect) ([]seedbed.DomainInfo, error) {
	infos := []seedbed.DomainInfo{}
	err := each(ctx, conn, func(dom *lv.Domain) error {
		one, ours, err := inspect(dom)
		if err == nil && ours {
			infos = append(infos, one)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return infos, nil
}

// each calls look for every domain and skips domains that have disappeared since they were listed.
func each(ctx context.Context, conn *lv.Connect, look func(*lv.Domain) error) error {
	doms, err := conn.ListAllDomains(0)
	if err != nil {
		return err
	}
	defer func() {
		for i := range doms {
			free(&doms[i])
		}
	}()
	for i := range doms {
		if err := ctx.Err(); err != nil {
			return cgate.GaveUp("libvirt", "list the domains", err)
		}
		if err := look(&doms[i]); err != nil && !has(err, lv.ERR_NO_DOMAIN) {
			return err
		}
	}
	return nil
}

func inspect(dom *lv.Domain) (one seedbed.DomainInfo, ours bool, err error) {
	uuid, err := dom.GetUUIDString()
	if err != nil {
		return one, false, err
	}
	tag, ours, err := tagOf(dom, seedbed.InstanceID(uuid))
	if err != nil || !ours {
		return one, false, err
	}
	one, err = info(dom, tag)
	return one, err == nil, err
}

// Console returns the end of the domain's console log: at most tail bytes, and at most 8 MiB. It
// returns ErrNotFound if there is no tagged domain of that ID, or ErrUnavailable.
func (d *Driver) Console(ctx context.Context, id seedbed.InstanceID, tail seedbed.Bytes) ([]byte, error) {
	return call(ctx, d, "console of domain "+string(id), "", func(_ context.Context, conn *lv.Connect) ([]byte, error) {
		dom, _, err := findVisible(conn, id)
		if err != nil {
			return nil, err
		}
		free(dom)
		return consoleTail(d.cfg.ConsoleDir, id, tail)
	})
}

// DomainXML returns the definitions of domains, without passwords, as they are at the next start.
// Those that do not exist or are not tagged are left out. It returns ErrUnavailable.
func (d *Driver) DomainXML(ctx context.Context, ids []seedbed.InstanceID) (map[seedbed.InstanceID]string, error) {
	return call(ctx, d, "definitions of domains", "", func(ctx context.Context, conn *lv.Connect) (map[seedbed.InstanceID]string, error) {
		all := make(map[seedbed.InstanceID]string, len(ids))
		for _, id := range ids {
			if err := ctx.Err(); err != nil {
				return nil, cgate.GaveUp("libvirt", "read the definitions of domains", err)
			}
			doc, err := definition(conn, id)
			switch {
			case err == nil:
				all[id] = doc
			case !errors.Is(err, seedbed.ErrNotFound):
				return nil, err
			}
		}
		return all, nil
	})
}

func definition(conn *lv.Connect, id seedbed.InstanceID) (string, error) {
	dom, _, err := findVisible(conn, id)
	if err != nil {
		return "", err
	}
	defer free(dom)
	doc, err := dom.GetXMLDesc(lv.DOMAIN_XML_INACTIVE)
	if err != nil {
		return "", absentDomain(err, id)
	}
	return doc, nil
}

// findVisible is like find for callers that only read: it reports a foreign domain as absent.
func findVisible(conn *lv.Connect, id seedbed.InstanceID) (*lv.Domain, Tag, error) {
	dom, tag, err := find(conn, id)
	if errors.Is(err, seedbed.ErrConflict) {
		return nil, Tag{}, seedbed.Errorf(seedbed.ErrNotFound, "%v", err)
	}
	return dom, tag, err
}

func info(dom *lv.Domain, tag Tag) (seedbed.DomainInfo, error) {
	name, err := dom.GetName()
	if err != nil {
		return seedbed.DomainInfo{}, err
	}
	state, reason, err := dom.GetState()
	if err != nil {
		return seedbed.DomainInfo{}, err
	}
	return seedbed.DomainInfo{ID: tag.Instance, Name: name, Project: tag.Project, Job: tag.Job, State: stateOf(state, reason)}, nil
}

// stateOf maps virDomainState. libvirt reports a domain that ended by its guest's panic as shut
// off, with the reason crashed.
func stateOf(state lv.DomainState, reason int) seedbed.DomainState {
	switch state {
	case lv.DOMAIN_RUNNING, lv.DOMAIN_BLOCKED, lv.DOMAIN_SHUTDOWN:
		return seedbed.DomainRunning
	case lv.DOMAIN_PAUSED, lv.DOMAIN_PMSUSPENDED:
		return seedbed.DomainPaused
	case lv.DOMAIN_CRASHED:
		return seedbed.DomainCrashed
	}
	if lv.DomainShutoffReason(reason) == lv.DOMAIN_SHUTOFF_CRASHED {
		return seedbed.DomainCrashed
	}
	return seedbed.DomainOff
}

// usageStats are the figures that DomainUsage reads.
const usageStats = lv.DOMAIN_STATS_CPU_TOTAL | lv.DOMAIN_STATS_BALLOON | lv.DOMAIN_STATS_VCPU | lv.DOMAIN_STATS_INTERFACE |
	lv.DOMAIN_STATS_BLOCK

// DomainUsage returns what the tagged domains that run have used. libvirt reads the figures of all domains in one call, which does not
// wait for those that it is doing something else with: what it cannot read then is 0, and a domain without any is left out.
func (d *Driver) DomainUsage(ctx context.Context) ([]seedbed.DomainUsage, error) {
	return call(ctx, d, "read what the domains have used", "", func(ctx context.Context, conn *lv.Connect) ([]seedbed.DomainUsage, error) {
		stats, err := conn.GetAllDomainStats(nil, usageStats,
			lv.CONNECT_GET_ALL_DOMAINS_STATS_ACTIVE|lv.CONNECT_GET_ALL_DOMAINS_STATS_NOWAIT)
		if err != nil {
			return nil, err
		}
		defer func() {
			for _, s := range stats {
				free(s.Domain)
			}
		}()
		all := make([]seedbed.DomainUsage, 0, len(stats))
		for _, s := range stats {
			id, ours, err := d.owned(s.Domain)
			switch {
			case has(err, lv.ERR_NO_DOMAIN): // it has ended
			case err != nil:
				return nil, err
			case ours && s.Cpu != nil && s.Cpu.TimeSet:
				all = append(all, usageOf(id, s))
			}
		}
		return all, nil
	})
}

// owned returns the ID of a domain, and reports whether it carries our tag. It asks libvirt only for the tag of a domain that it does
// not know.
func (d *Driver) owned(dom *lv.Domain) (seedbed.InstanceID, bool, error) {
	uuid, err := dom.GetUUIDString()
	if err != nil {
		return "", false, err
	}
	id := seedbed.InstanceID(uuid)
	d.mu.Lock()
	known := d.known[id]
	d.mu.Unlock()
	if known {
		return id, true, nil
	}
	_, ours, err := tagOf(dom, id)
	return id, ours, err
}

func usageOf(id seedbed.InstanceID, s lv.DomainStats) seedbed.DomainUsage {
	u := seedbed.DomainUsage{ID: id, CPU: time.Duration(s.Cpu.Time)}
	for _, v := range s.Vcpu {
		if v.StateSet && v.State != lv.VCPU_OFFLINE {
			u.VCPUs++
		}
	}
	if b := s.Balloon; b != nil {
		u.Memory, u.Resident = kib(b.Current), kib(b.Rss)
		if b.AvailableSet && b.UsableSet && b.Available >= b.Usable {
			u.Used = kib(b.Available - b.Usable)
		}
	}
	for _, n := range s.Net {
		u.Received += seedbed.Bytes(n.RxBytes)
		u.Sent += seedbed.Bytes(n.TxBytes)
	}
	for _, b := range s.Block {
		u.DiskRead += seedbed.Bytes(b.RdBytes)
		u.DiskWritten += seedbed.Bytes(b.WrBytes)
		u.Reads += int64(b.RdReqs)
		u.Writes += int64(b.WrReqs)
	}
	return u
}

func kib(n uint64) seedbed.Bytes { return seedbed.Bytes(n) * seedbed.KiB }

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
