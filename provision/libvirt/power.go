//go:build libvirt

package libvirt

import (
	"context"
	"errors"
	"slices"
	"time"

	lv "libvirt.org/go/libvirt"

	"seedbed"
)

// StartDomain starts the domain, or resumes it if it is paused. It succeeds if the domain is
// running. It returns ErrNotFound, ErrConflict if the domain is not tagged or has crashed,
// ErrInvalid if it needs UEFI firmware that the node does not have, or ErrUnavailable.
func (d *Driver) StartDomain(ctx context.Context, id seedbed.InstanceID) error {
	return d.do(ctx, "start domain "+string(id), id, func(ctx context.Context, conn *lv.Connect) error {
		dom, _, err := find(conn, id)
		if err != nil {
			return err
		}
		defer free(dom)
		state, err := settled(ctx, dom)
		if err != nil {
			return err
		}
		switch state {
		case lv.DOMAIN_RUNNING, lv.DOMAIN_BLOCKED, lv.DOMAIN_SHUTDOWN:
			return nil
		case lv.DOMAIN_PAUSED:
			return resume(dom)
		case lv.DOMAIN_PMSUSPENDED:
			return dom.PMWakeup(0)
		case lv.DOMAIN_CRASHED:
			return seedbed.Errorf(seedbed.ErrConflict, "domain %s has crashed and is kept for inspection: destroy it first", id)
		}
		if err := d.defineSecrets(conn, dom); err != nil {
			return err
		}
		if err := d.defineChains(conn, dom); err != nil {
			return err
		}
		if err := makeRoom(conn, dom); err != nil { // it starts without, and then an attach says that there is no place
			d.cfg.Log.WarnContext(ctx, "no room is made for further disks and NICs", "domain", id, "error", err)
		}
		if err := d.reachUplinks(conn, dom); err != nil {
			return err
		}
		err = dom.Create()
		if has(err, lv.ERR_OPERATION_INVALID) {
			// Another client may have started it since we looked.
			if active, activeErr := dom.IsActive(); activeErr == nil && active {
				return nil
			}
		}
		if err == nil {
			return nil
		}
		doc, docErr := dom.GetXMLDesc(lv.DOMAIN_XML_INACTIVE)
		if docErr != nil {
			return err
		}
		if of, tap := tapOfAnother(ctx, conn, dom, doc); of != "" {
			return seedbed.Errorf(seedbed.ErrConflict, "interface %s of domain %s is that of the running domain %s. "+
				"If seedbed orphan list has that domain, the database does not know it, as after an older copy was put back: "+
				"put the newer database back, or shut that domain down (virsh shutdown %s), and start this one again (%v)", tap, id, of, of, err)
		}
		return unstartable(conn, doc, err)
	})
}

// paused is a domain that was found paused.
type paused interface {
	Resume() error
	GetState() (lv.DomainState, int, error)
}

// resume resumes a domain. One that is just being started is also paused: it either runs by itself
// soon or, if libvirtd was killed while it started it, is switched off by the new libvirtd and can be
// started again, so resume returns ErrUnavailable.
func resume(dom paused) error {
	err := dom.Resume()
	if !has(err, lv.ERR_OPERATION_INVALID) {
		return err
	}
	state, _, stateErr := dom.GetState()
	switch {
	case stateErr != nil:
		return err
	case state == lv.DOMAIN_RUNNING:
		return nil
	case state == lv.DOMAIN_SHUTOFF:
		return seedbed.Errorf(seedbed.ErrUnavailable, "the domain was switched off while it was being started, as when libvirtd is killed")
	}
	return err
}

// defineChains checks what the files of a domain's volumes say of other files, and defines the domain
// again if its definition leaves that to libvirt (Chained).
func (d *Driver) defineChains(conn *lv.Connect, dom *lv.Domain) error {
	if d.cfg.Volumes == nil {
		return nil
	}
	return amend(conn, dom, func(doc string) (string, bool, error) { return Chained(doc, d.cfg.Volumes) })
}

// reachUplinks makes sure that the uplinks of a domain's NICs exist, and the pools of those with virtual functions.
func (d *Driver) reachUplinks(conn *lv.Connect, dom *lv.Domain) error {
	doc, err := dom.GetXMLDesc(lv.DOMAIN_XML_INACTIVE)
	if err != nil {
		return err
	}
	macvtap, functions, err := uplinksOf(doc)
	if err != nil {
		return err
	}
	for _, on := range slices.Concat(macvtap, functions) {
		if err := missing(on); err != nil {
			return err
		}
	}
	for _, on := range functions {
		if err := d.openPool(conn, on); err != nil {
			return unusable(on, err)
		}
	}
	return nil
}

// unusable explains why the pool of the virtual functions of an interface could not be opened. libvirt has no error number for a lack of
// such functions.
func unusable(on string, err error) error {
	if !has(err, lv.ERR_INTERNAL_ERROR) && !has(err, lv.ERR_SYSTEM_ERROR) {
		return explain("open the pool of the virtual functions of interface "+on, err)
	}
	return seedbed.Errorf(seedbed.ErrConflict,
		"the virtual functions of interface %s cannot be used: %v: does it have some (sriov_numvfs), and the node an IOMMU?", on, err)
}

// openPool makes and starts the pool of the virtual functions of an interface, which then starts with libvirt. It does so one call
// at a time: several guests may be the first at the interface.
func (d *Driver) openPool(conn *lv.Connect, on string) error {
	d.pools.Lock()
	defer d.pools.Unlock()
	pool, err := conn.LookupNetworkByName(functionPool + on)
	if has(err, lv.ERR_NO_NETWORK) {
		var doc string
		if doc, err = FunctionPoolXML(on); err == nil {
			pool, err = conn.NetworkDefineXML(doc)
		}
	}
	if err != nil {
		return err
	}
	defer func() { _ = pool.Free() }()
	active, err := pool.IsActive()
	if err == nil && !active {
		err = pool.Create()
	}
	if err != nil {
		return err
	}
	return pool.SetAutostart(true)
}

// settled returns the domain's state. A domain that has crashed is in that state for a moment
// before libvirt removes it, and permanently if it is kept. settled waits to find out which.
func settled(ctx context.Context, dom *lv.Domain) (lv.DomainState, error) {
	tick := time.NewTicker(crashTick)
	defer tick.Stop()
	for end := time.Now().Add(crashFor); ; {
		state, _, err := dom.GetState()
		if err != nil || state != lv.DOMAIN_CRASHED || time.Now().After(end) {
			return state, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return state, ctx.Err()
		}
	}
}

// crashFor is how long libvirt may take to remove a crashed domain, and crashTick the interval of
// polling.
const (
	crashFor  = 3 * time.Second
	crashTick = 50 * time.Millisecond
)

// ShutdownDomain asks the guest to shut down: through its agent if that is connected, or else by
// ACPI, as libvirt chooses (virDomainShutdownFlags, 0). It succeeds if the domain is shut off or
// absent. It returns ErrConflict if the domain is not tagged, ErrInUse while it is paused, or
// ErrUnavailable.
func (d *Driver) ShutdownDomain(ctx context.Context, id seedbed.InstanceID) error {
	return d.do(ctx, "shut down domain "+string(id), id, func(_ context.Context, conn *lv.Connect) error {
		dom, _, err := find(conn, id)
		switch {
		case errors.Is(err, seedbed.ErrNotFound):
			return nil
		case err != nil:
			return err
		}
		defer free(dom)
		if err = dom.ShutdownFlags(lv.DOMAIN_SHUTDOWN_DEFAULT); err == nil || has(err, lv.ERR_NO_DOMAIN) {
			return nil
		}
		state, _, stateErr := dom.GetState()
		switch {
		case has(stateErr, lv.ERR_NO_DOMAIN):
			return nil
		case stateErr != nil:
			return err
		case state == lv.DOMAIN_SHUTDOWN, state == lv.DOMAIN_SHUTOFF, state == lv.DOMAIN_CRASHED:
			return nil // it was shut off, or is about to be
		case state == lv.DOMAIN_PAUSED, state == lv.DOMAIN_PMSUSPENDED:
			return seedbed.Errorf(seedbed.ErrInUse, "domain %s is paused, so its guest cannot shut down: resume it, or switch it off", id)
		}
		return err
	})
}

// DestroyDomain switches the domain off at once. It succeeds if the domain is shut off or absent.
// It returns ErrConflict if the domain is not tagged, or ErrUnavailable.
func (d *Driver) DestroyDomain(ctx context.Context, id seedbed.InstanceID) error {
	return d.do(ctx, "destroy domain "+string(id), id, func(_ context.Context, conn *lv.Connect) error {
		dom, _, err := find(conn, id)
		switch {
		case errors.Is(err, seedbed.ErrNotFound):
			return nil
		case err != nil:
			return err
		}
		defer free(dom)
		err = dom.Destroy()
		if has(err, lv.ERR_NO_DOMAIN) {
			return nil // transient, and gone in the meantime
		}
		if has(err, lv.ERR_OPERATION_INVALID) {
			if active, activeErr := dom.IsActive(); activeErr == nil && !active {
				return nil
			}
		}
		return err
	})
}
