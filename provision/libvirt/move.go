//go:build libvirt

package libvirt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	lv "libvirt.org/go/libvirt"
	"libvirt.org/go/libvirtxml"

	"seedbed"
	"seedbed/internal/cgate"
	"seedbed/provision/seed"
)

const (
	// moveTime limits a migration, which its caller limits as well.
	moveTime = 24 * time.Hour
	// abortTime is how long a migration has to end that its caller no longer waits for.
	abortTime = 20 * time.Second
	// moveTick is how often the progress of a migration is asked for.
	moveTick = 500 * time.Millisecond
)

// newMoveGate returns the gate in front of migrations.
func newMoveGate() *cgate.Gate {
	return cgate.New(cgate.Config{
		Library: "libvirt", Owner: "the libvirt driver", Subject: "domain", Hint: "look at its log, or restart it (systemctl restart libvirtd)",
		Limit: moveTime,
	})
}

// CopyDomain implements worker.Mover.
func (d *Driver) CopyDomain(ctx context.Context, id seedbed.InstanceID) (seedbed.DomainCopy, error) {
	return call(ctx, d, "copy domain "+string(id), "", func(_ context.Context, conn *lv.Connect) (c seedbed.DomainCopy, err error) {
		dom, _, err := findVisible(conn, id)
		if err != nil {
			return c, err
		}
		defer free(dom)
		c.ID = id
		if c.XML, err = dom.GetXMLDesc(whole); err != nil {
			return c, err
		}
		if c.Variables, err = variables(c.XML); err != nil {
			return c, err
		}
		c.Dirs = d.dirs()
		c.Console, err = consoleTail(d.cfg.ConsoleDir, id, seedbed.MaxConsoleCopy)
		return c, err
	})
}

// dirs returns the directories of this host that definitions name.
func (d *Driver) dirs() seedbed.HostDirs {
	return seedbed.HostDirs{Console: d.cfg.ConsoleDir, CDROM: d.cfg.CDROMDir}
}

// relocated returns the definition of a domain of a host with the directories from, for one with the directories to.
func relocated(doc string, id seedbed.InstanceID, from, to seedbed.HostDirs) string {
	var pairs []string
	if from.Console != "" && to.Console != "" {
		pairs = append(pairs, consoleLog(from.Console, id), consoleLog(to.Console, id))
	}
	if from.CDROM != "" && to.CDROM != "" {
		pairs = append(pairs, seed.Path(from.CDROM, id), seed.Path(to.CDROM, id))
	}
	return strings.NewReplacer(pairs...).Replace(doc)
}

// variablesAt returns the file with the variables of a domain's UEFI firmware, or "".
func variablesAt(doc string) (string, error) {
	var d libvirtxml.Domain
	if err := d.Unmarshal(doc); err != nil {
		return "", fmt.Errorf("read the domain's XML: %w", err)
	}
	if d.OS == nil || d.OS.NVRam == nil {
		return "", nil
	}
	return d.OS.NVRam.NVRam, nil
}

// variables reads the variables of a domain's firmware. A domain that was never started has none.
func variables(doc string) ([]byte, error) {
	path, err := variablesAt(doc)
	if path == "" || err != nil {
		return nil, err
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read the variables of the firmware: %w", err)
	case info.Size() > int64(seedbed.MaxVariables):
		return nil, seedbed.Errorf(seedbed.ErrInvalid, "the variables of the firmware (%s) have %d bytes: expected at most %s", path, info.Size(),
			seedbed.MaxVariables)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the variables of the firmware: %w", err)
	}
	return b, nil
}

// ReceiveDomain implements worker.Mover.
func (d *Driver) ReceiveDomain(ctx context.Context, c seedbed.DomainCopy) error {
	return d.do(ctx, "receive domain "+string(c.ID), c.ID, func(_ context.Context, conn *lv.Connect) error {
		c.XML = relocated(c.XML, c.ID, c.Dirs, d.dirs())
		spec, err := specOfCopy(c)
		if err != nil {
			return err
		}
		active, err := runs(conn, spec)
		if err == nil && !active { // what an earlier migration has left behind is replaced
			err = d.receive(conn, c, spec)
		}
		if err != nil {
			return err
		}
		return keepConsole(d.cfg.ConsoleDir, c.ID, c.Console, active)
	})
}

// runs reports whether a domain is there and active.
func runs(conn *lv.Connect, spec seedbed.DomainSpec) (bool, error) {
	if there, err := defined(conn, spec); err != nil || !there {
		return false, err
	}
	dom, _, err := find(conn, spec.ID)
	if err != nil {
		return false, err
	}
	defer free(dom)
	return dom.IsActive()
}

// specOfCopy returns the ID and the name of a copied domain, which carries our tag.
func specOfCopy(c seedbed.DomainCopy) (spec seedbed.DomainSpec, err error) {
	var d libvirtxml.Domain
	if err := d.Unmarshal(c.XML); err != nil {
		return spec, seedbed.Errorf(seedbed.ErrInvalid, "the copy of domain %s is not a definition: %v", c.ID, err)
	}
	if d.UUID != string(c.ID) || d.Metadata == nil {
		return spec, seedbed.Errorf(seedbed.ErrInvalid, "the copy of domain %s is of domain %q, or has no tag of Seedbed", c.ID, d.UUID)
	}
	return seedbed.DomainSpec{ID: c.ID, Name: d.Name}, nil
}

// receive defines a copied domain, with the variables of its firmware, and gives libvirt the keys of its disks.
func (d *Driver) receive(conn *lv.Connect, c seedbed.DomainCopy, spec seedbed.DomainSpec) error {
	d.know(c.ID, true) // before libvirt reports it
	dom, err := conn.DomainDefineXML(c.XML)
	if err != nil {
		d.know(c.ID, false)
	}
	err = unstartable(conn, c.XML, err)
	if has(err, lv.ERR_OPERATION_FAILED) {
		return inTheWay(conn, spec, err)
	}
	if err != nil {
		return err
	}
	defer free(dom)
	err = d.complete(conn, dom, c)
	if err != nil {
		err = errors.Join(err, undefine(dom))
	}
	return err
}

// complete prepares a copied domain that is defined.
func (d *Driver) complete(conn *lv.Connect, dom *lv.Domain, c seedbed.DomainCopy) error {
	if _, ours, err := tagOf(dom, c.ID); err != nil || !ours {
		return cmp.Or(err, seedbed.Errorf(seedbed.ErrInvalid, "the copy of domain %s has no tag of Seedbed", c.ID))
	}
	if err := d.defineSecrets(conn, dom); err != nil {
		return err
	}
	if err := d.reachUplinks(conn, dom); err != nil {
		return err
	}
	path, err := variablesAt(c.XML)
	if err != nil {
		return err
	}
	if path != "" && c.Variables != nil {
		if err := os.WriteFile(path, c.Variables, 0o600); err != nil { // libvirt gives it to QEMU's user
			return fmt.Errorf("write the variables of the firmware: %w", err)
		}
	}
	return nil
}

// MigrateDomain implements worker.Mover. libvirt on this host does the migration, also after this process has ended.
func (d *Driver) MigrateDomain(ctx context.Context, m seedbed.Migration, progress func(seedbed.Progress)) error {
	if err := ctx.Err(); err != nil {
		return cgate.GaveUp("libvirt", "migrate domain "+string(m.ID), err)
	}
	// The caller's end ends the migration, and that takes a moment.
	outer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(abortTime, cancel) })
	defer stop()
	what := "migrate domain " + string(m.ID)
	_, err := cgate.Through(outer, d.moves, what, string(m.ID), func(outer context.Context) (struct{}, error) {
		return connected(outer, d, what, func(_ context.Context, conn *lv.Connect) (struct{}, error) {
			return struct{}{}, d.migrate(ctx, conn, m, progress)
		})
	})
	return err
}

func (d *Driver) migrate(ctx context.Context, conn *lv.Connect, m seedbed.Migration, progress func(seedbed.Progress)) error {
	dom, tag, err := find(conn, m.ID)
	if err != nil {
		return err
	}
	defer free(dom)
	if err := unmoved(ctx, dom); err != nil {
		return err
	}
	switch state, reason, err := dom.GetState(); {
	case err != nil:
		return err
	case state == lv.DOMAIN_SHUTOFF && lv.DomainShutoffReason(reason) == lv.DOMAIN_SHUTOFF_MIGRATED:
		return nil
	case state != lv.DOMAIN_RUNNING && state != lv.DOMAIN_BLOCKED && state != lv.DOMAIN_PAUSED:
		return seedbed.Errorf(seedbed.ErrConflict, "domain %s does not run, so it cannot be migrated", m.ID)
	}
	params := &lv.DomainMigrateParameters{URI: m.Data, URISet: m.Data != ""}
	if err := d.relocate(dom, m, params); err != nil {
		return err
	}
	flags := lv.MIGRATE_LIVE | lv.MIGRATE_PEER2PEER | lv.MIGRATE_PERSIST_DEST | lv.MIGRATE_AUTO_CONVERGE | lv.MIGRATE_ABORT_ON_ERROR
	if m.TLS {
		flags |= lv.MIGRATE_TLS
	}
	err = move(ctx, dom, m.URI, params, tag, flags, progress)
	if has(err, lv.ERR_MIGRATE_UNSAFE) {
		// libvirt does not know that the file system is shared; the pools are, and QEMU drops what its host has cached of their files.
		if err := d.inPools(dom); err != nil {
			return err
		}
		err = move(ctx, dom, m.URI, params, tag, flags|lv.MIGRATE_UNSAFE, progress)
	}
	return err
}

// relocate has the domain defined and run on the other host with the directories of that.
func (d *Driver) relocate(dom *lv.Domain, m seedbed.Migration, params *lv.DomainMigrateParameters) error {
	runs, err := dom.GetXMLDesc(lv.DOMAIN_XML_SECURE | lv.DOMAIN_XML_MIGRATABLE)
	if err != nil {
		return err
	}
	defined, err := dom.GetXMLDesc(whole)
	if err != nil {
		return err
	}
	if dest := relocated(runs, m.ID, d.dirs(), m.Dirs); dest != runs {
		params.DestXML, params.DestXMLSet = dest, true
	}
	if dest := relocated(defined, m.ID, d.dirs(), m.Dirs); dest != defined {
		params.PersistXML, params.PersistXMLSet = dest, true
	}
	return nil
}

// move runs one migration. If ctx ends, it is aborted.
func move(ctx context.Context, dom *lv.Domain, uri string, params *lv.DomainMigrateParameters, tag Tag, flags lv.DomainMigrateFlags,
	progress func(seedbed.Progress),
) error {
	done := make(chan error, 1)
	go func() { done <- dom.MigrateToURI3(uri, params, flags) }()
	tick := time.NewTicker(moveTick)
	defer tick.Stop()
	ended := ctx.Done()
	aborting := false
	downtime := tag.MaxDowntime
	for {
		select {
		case err := <-done:
			return err
		case <-ended:
			ended, aborting = nil, true
			_ = dom.AbortJob() // if it is too late for that, the migration succeeds
		case <-tick.C:
			if aborting { // it was too early for it
				_ = dom.AbortJob()
				continue
			}
			if downtime > 0 && dom.MigrateSetMaxDowntime(uint64(downtime), 0) == nil {
				downtime = 0
			}
			if info, err := dom.GetJobStats(0); err == nil && progress != nil && info.DataTotalSet && info.DataTotal > 0 {
				progress(seedbed.Progress{Done: seedbed.Bytes(info.DataProcessed), Total: seedbed.Bytes(info.DataTotal)})
			}
		}
	}
}

// inPools returns ErrConflict for a domain with a disk in a file that is not of a pool.
func (d *Driver) inPools(dom *lv.Domain) error {
	doc, err := dom.GetXMLDesc(0)
	if err != nil {
		return err
	}
	var of libvirtxml.Domain
	if err := of.Unmarshal(doc); err != nil {
		return fmt.Errorf("read the domain's XML: %w", err)
	}
	for _, disk := range dataDisks(&of) {
		if disk.ReadOnly != nil || disk.Source == nil || disk.Source.Network != nil {
			continue
		}
		if disk.Source.File != nil && d.cfg.Volumes != nil {
			_, ok, err := d.cfg.Volumes(disk.Source.File.File)
			if err != nil {
				return err
			}
			if ok {
				continue
			}
		}
		name := ""
		if disk.Target != nil {
			name = disk.Target.Dev
		}
		return seedbed.Errorf(seedbed.ErrConflict, "domain %s has a disk %s that is not in a pool, so other nodes may not have it", of.Name, name)
	}
	return nil
}

// unmoved waits until no job of libvirt works on the domain. If ctx ends, it aborts that job first.
func unmoved(ctx context.Context, dom *lv.Domain) error {
	ended := ctx.Done()
	for {
		info, err := dom.GetJobInfo()
		if has(err, lv.ERR_OPERATION_INVALID) || has(err, lv.ERR_NO_SUPPORT) || err == nil && !underWay(info) { // or not even active
			return ctx.Err()
		}
		if err != nil {
			return err
		}
		select {
		case <-ended:
			ended = nil
			_ = dom.AbortJob()
		case <-time.After(moveTick):
		}
	}
}

func underWay(info *lv.DomainJobInfo) bool {
	return info.Type == lv.DOMAIN_JOB_BOUNDED || info.Type == lv.DOMAIN_JOB_UNBOUNDED
}

// StopMigration implements worker.Mover.
func (d *Driver) StopMigration(ctx context.Context, id seedbed.InstanceID) error {
	return d.do(ctx, "stop the migration of domain "+string(id), id, func(ctx context.Context, conn *lv.Connect) error {
		dom, _, err := find(conn, id)
		switch {
		case errors.Is(err, seedbed.ErrNotFound):
			return nil
		case err != nil:
			return err
		}
		defer free(dom)
		ended, cancel := context.WithCancel(ctx)
		cancel()
		if err := unmoved(ended, dom); !errors.Is(err, context.Canceled) {
			return err
		}
		return ctx.Err()
	})
}
