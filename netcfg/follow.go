package netcfg

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"seedbed"
)

// Follow calls fn for each of the bridges with its current state, and then whenever that changes.
// up is true while the interface exists, is up, and was made by Apply, so a foreign bridge of that
// name is never reported as up. A bridge that was removed and made again is reported as false and
// then true, however quickly that happened, so that sockets can be bound again. An interface in
// uplinks, which Apply does not make, is reported as false each time that it arrives. So is the interface that has the address of
// this node for overlays, when it gets or loses that or has another MTU; it has no name if there is none any more. Meanwhile the
// rates of guests' interfaces are limited as these come. Follow returns nil
// when ctx ends, and otherwise the error that broke the subscription. fn runs in Follow's own
// goroutine; while it runs, the kernel queues changes.
func (m *Manager) Follow(ctx context.Context, bridges, uplinks []string, fn func(bridge string, up bool)) error {
	events, err := netlink.Dial(unix.NETLINK_ROUTE, &netlink.Config{
		Groups: unix.RTMGRP_LINK | unix.RTMGRP_IPV4_IFADDR | unix.RTMGRP_IPV6_IFADDR})
	if err != nil {
		return fmt.Errorf("follow interfaces: %w", err)
	}
	defer events.Close()
	stop := context.AfterFunc(ctx, func() { events.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()

	w := &watch{bridges: bridges, uplinks: uplinks, index: map[string]uint32{}, told: map[string]bool{}, fn: fn, guest: m.reshape,
		address: m.overlayAddress}
	if err := w.resync(); err != nil {
		return err
	}
	return w.follow(ctx, events)
}

// follow takes events until ctx ends or the subscription breaks.
func (w *watch) follow(ctx context.Context, events *netlink.Conn) error {
	for {
		msgs, err := events.Receive()
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, unix.ENOBUFS): // events were lost
			if err := w.resync(); err != nil {
				return err
			}
		case err != nil:
			return fmt.Errorf("follow interfaces: %w", err)
		}
		for _, msg := range msgs {
			if err := w.event(msg); err != nil {
				return err
			}
		}
	}
}

// overlayAddress returns the address of this node for overlays, or the zero Addr if it has none.
func (m *Manager) overlayAddress() netip.Addr {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.wanted == nil || !slices.ContainsFunc(m.wanted.networks, overlaid) {
		return netip.Addr{}
	}
	return m.wanted.address
}

// watch holds what was last reported of each bridge.
type watch struct {
	bridges []string
	uplinks []string
	index   map[string]uint32 // of those that exist
	told    map[string]bool
	fn      func(string, bool)
	guest   func(link) // called for each interface of a guest that came or went, and with the zero link if any may have
	// address returns the address of this node for overlays, which under has.
	address func() netip.Addr
	under   link
}

// resync compares with a listing.
func (w *watch) resync() error {
	rt, err := dialRoute()
	if err != nil {
		return err
	}
	defer rt.Close()
	links, err := rt.links()
	if err != nil {
		return err
	}
	w.guest(link{})
	for _, b := range slices.Concat(w.bridges, w.uplinks) {
		if l, ok := links[b]; ok {
			w.present(l)
		} else {
			w.gone(b)
		}
	}
	return w.overlay(rt)
}

// overlay compares the interface that has the address of this node for overlays with the last one.
func (w *watch) overlay(rt *route) error {
	was := w.under
	var err error
	if a := w.address(); !a.IsValid() {
		w.under = link{}
	} else if w.under, err = rt.under(a); err != nil {
		return err
	}
	if was.index != w.under.index || was.mtu != w.under.mtu {
		w.fn(w.under.name, false)
	}
	return nil
}

func (w *watch) event(msg netlink.Message) error {
	a, isAddr := address{}, msg.Header.Type == unix.RTM_NEWADDR || msg.Header.Type == unix.RTM_DELADDR
	if isAddr {
		a, _ = parseAddr(msg.Data)
	}
	if isAddr && a.prefix.IsValid() && a.prefix.Addr() == w.address() || !isAddr && w.changesUnder(msg) {
		rt, err := dialRoute()
		if err != nil {
			return err
		}
		defer rt.Close()
		if err := w.overlay(rt); err != nil {
			return err
		}
	}
	if !isAddr {
		w.link(msg)
	}
	return nil
}

// changesUnder reports whether an event is about the interface that has the address for overlays, and may change what of it
// matters.
func (w *watch) changesUnder(msg netlink.Message) bool {
	if w.under.index == 0 || len(msg.Data) == 0 || msg.Data[0] != unix.AF_UNSPEC {
		return false
	}
	l, err := parseLink(msg.Data)
	return err == nil && l.index == w.under.index && (l.mtu != w.under.mtu || msg.Header.Type == unix.RTM_DELLINK)
}

// link takes an event of an interface.
func (w *watch) link(msg netlink.Message) {
	// A port that leaves a bridge also gives RTM_DELLINK, in family AF_BRIDGE.
	if len(msg.Data) == 0 || msg.Data[0] != unix.AF_UNSPEC {
		return
	}
	l, err := parseLink(msg.Data)
	if err != nil {
		return
	}
	if _, ok := seedbed.NICOfTap(l.name); ok {
		if msg.Header.Type == unix.RTM_DELLINK {
			l.index = 0
		}
		w.guest(l)
	}
	for name, index := range w.index { // a renamed bridge is gone as well
		if index == l.index && (name != l.name || msg.Header.Type == unix.RTM_DELLINK) {
			w.gone(name)
		}
	}
	if msg.Header.Type == unix.RTM_NEWLINK && (slices.Contains(w.bridges, l.name) || slices.Contains(w.uplinks, l.name)) {
		w.present(l)
	}
}

func (w *watch) gone(bridge string) {
	delete(w.index, bridge)
	w.tell(bridge, false)
}

func (w *watch) present(l link) {
	index, known := w.index[l.name]
	if known && index != l.index {
		w.gone(l.name)
	}
	w.index[l.name] = l.index
	_, _, ours := l.madeFor()
	if slices.Contains(w.uplinks, l.name) && index != l.index {
		delete(w.told, l.name) // it arrived
	}
	w.tell(l.name, ours && l.up)
}

func (w *watch) tell(bridge string, up bool) {
	if last, ok := w.told[bridge]; !ok || last != up {
		w.told[bridge] = up
		w.fn(bridge, up)
	}
}
