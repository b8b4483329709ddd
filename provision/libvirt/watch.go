//go:build libvirt

package libvirt

import (
	"context"
	"errors"
	"time"

	lv "libvirt.org/go/libvirt"

	"seedbed"
)

// lookLimit bounds the look at the domain of an event.
const lookLimit = 10 * time.Second

// rawEvent is an event that libvirt reported, of any domain.
type rawEvent struct {
	resync bool
	event  seedbed.DomainEvent
}

// Watch calls event for every change of a tagged domain until ctx ends, and returns the context's
// error. A resync comes first, and again whenever changes may have been missed because libvirtd was
// away or the watcher lagged.
func (d *Driver) Watch(ctx context.Context, event func(seedbed.DomainEvent)) error {
	return d.hub.watch(ctx, event)
}

// prepare registers for events on a new connection.
func (d *Driver) prepare(conn *lv.Connect) (int, error) {
	is, err := d.findHost(conn)
	if err != nil {
		return 0, err
	}
	v, err := version(conn)
	if err != nil {
		return 0, err
	}
	d.cfg.Log.Info("chose the domain type", "type", is.host.DomainType, "why", is.reason, "version", v)
	if c := checkKVMDevice(kvmDevice); !c.OK {
		d.cfg.Log.Warn("libvirt is slow on this host", "why", c.Detail, "hint", c.Hint)
	}
	for _, secret := range d.cfg.Secrets {
		if err := secret.define(conn); err != nil {
			d.cfg.Log.Warn("libvirt has no secret for a Ceph pool", "secret", secret.Name, "err", err)
		}
	}
	id, err := conn.DomainEventLifecycleRegister(nil, d.heard)
	if err != nil {
		return 0, explain("register for libvirt's events", err)
	}
	return id, nil
}

func (d *Driver) followed() { d.notice(rawEvent{resync: true}) }

// unfollowed clears what is only valid for one run of libvirtd.
func (d *Driver) unfollowed() {
	d.hub.follow(false)
	d.forgetHost()
}

// heard is called by the event loop and must not block.
func (d *Driver) heard(_ *lv.Connect, dom *lv.Domain, e *lv.DomainEventLifecycle) {
	name, nameErr := dom.GetName()
	id, idErr := dom.GetUUIDString()
	event, ok := eventNames[e.Event]
	if nameErr != nil || idErr != nil || !ok {
		return
	}
	if e.Event == lv.DOMAIN_EVENT_STOPPED && lv.DomainEventStoppedDetailType(e.Detail) == lv.DOMAIN_EVENT_STOPPED_CRASHED {
		event = "crashed"
	}
	d.notice(rawEvent{event: seedbed.DomainEvent{ID: seedbed.InstanceID(id), Name: name, Event: event, At: time.Now()}})
}

// eventNames maps virDomainEventType to our names.
var eventNames = map[lv.DomainEventType]string{
	lv.DOMAIN_EVENT_DEFINED:     "defined",
	lv.DOMAIN_EVENT_UNDEFINED:   "undefined",
	lv.DOMAIN_EVENT_STARTED:     "started",
	lv.DOMAIN_EVENT_SUSPENDED:   "suspended",
	lv.DOMAIN_EVENT_RESUMED:     "resumed",
	lv.DOMAIN_EVENT_STOPPED:     "stopped",
	lv.DOMAIN_EVENT_SHUTDOWN:    "shutdown",
	lv.DOMAIN_EVENT_PMSUSPENDED: "suspended",
	lv.DOMAIN_EVENT_CRASHED:     "crashed",
}

// notice queues an event for dispatch. If the queue is full, the event is dropped and everything is
// read again.
func (d *Driver) notice(e rawEvent) {
	select {
	case d.raw <- e:
	default:
		d.overflow.Store(true)
	}
}

// dispatch finds the events of our domains and passes them on.
func (d *Driver) dispatch(ctx context.Context) {
	for {
		select {
		case e := <-d.raw:
			switch {
			case e.resync || d.overflow.Swap(false):
				d.resync(ctx)
			case d.concerns(ctx, e.event):
				d.hub.send(e.event)
			}
		case <-ctx.Done():
			return
		}
	}
}

// resync learns which domains are ours, and sends the watchers a resync.
func (d *Driver) resync(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	d.forget()
	if _, err := d.Domains(ctx); err != nil && !errors.Is(err, context.Canceled) {
		d.cfg.Log.Warn("list the domains after connecting", "err", err)
	}
	d.hub.follow(true)
}

// concerns reports whether the event's domain carries our tag, or did when it was last seen: a
// domain that is gone has no metadata, and a watcher looks itself at a domain that has lost its
// tag.
func (d *Driver) concerns(ctx context.Context, e seedbed.DomainEvent) bool {
	d.mu.Lock()
	known := d.known[e.ID]
	d.mu.Unlock()
	if known && e.Event != "undefined" {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	_, err := d.DomainState(ctx, e.ID)
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil {
		d.known[e.ID] = true
		return true
	}
	if e.Event == "undefined" && errors.Is(err, seedbed.ErrNotFound) {
		delete(d.known, e.ID)
	}
	return known
}

// forget clears what was known, before everything is read again.
func (d *Driver) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.known)
}

// know records whether there is a domain of ours of that ID.
func (d *Driver) know(id seedbed.InstanceID, is bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if is {
		d.known[id] = true
	} else {
		delete(d.known, id)
	}
}

// remember records domains that carry our tag.
func (d *Driver) remember(infos []seedbed.DomainInfo) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, i := range infos {
		d.known[i.ID] = true
	}
}
