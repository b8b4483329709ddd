package netcfg

import (
	"context"
	"errors"
	"fmt"
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
// uplinks, which Apply does not make, is reported as false each time that it arrives. Meanwhile the rates of guests'
// interfaces are limited as these come. Follow returns nil
// when ctx ends, and otherwise the error that broke the subscription. fn runs in Follow's own
// goroutine; while it runs, the kernel queues changes.
func (m *Manager) Follow(ctx context.Context, bridges, uplinks []string, fn func(bridge string, up bool)) error {
	events, err := netlink.Dial(unix.NETLINK_ROUTE, &netlink.Config{Groups: unix.RTMGRP_LINK})
	if err != nil {
		return fmt.Errorf("follow interfaces: %w", err)
	}
	defer events.Close()
	stop := context.AfterFunc(ctx, func() { events.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()

	w := &watch{bridges: bridges, uplinks: uplinks, index: map[string]uint32{}, told: map[string]bool{}, fn: fn, guest: m.reshape}
	if err := w.resync(); err != nil {
		return err
	}
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
			w.event(msg)
		}
	}
}

// watch holds what was last reported of each bridge.
type watch struct {
	bridges []string
	uplinks []string
	index   map[string]uint32 // of those that exist
	told    map[string]bool
	fn      func(string, bool)
	guest   func(link) // called for each interface of a guest that came or went, and with the zero link if any may have
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
	return nil
}

func (w *watch) event(msg netlink.Message) {
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
