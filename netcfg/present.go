package netcfg

import (
	"context"
	"errors"
	"fmt"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"seedbed"
)

// HasLink reports whether the namespace has an interface of that name. It sends one RTM_GETLINK,
// which takes some microseconds at any number of interfaces.
func (m *Manager) HasLink(ctx context.Context, name string) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	if !seedbed.ValidInterface(name) {
		return false, seedbed.Errorf(seedbed.ErrInvalid, "interface %q: expected 1 to 15 characters without blanks, '/' or ':'", name)
	}
	ae := netlink.NewAttributeEncoder()
	ae.String(unix.IFLA_IFNAME, name)
	ae.Uint32(unix.IFLA_EXT_MASK, rtextFilterSkipStats)
	attrs, err := ae.Encode()
	if err != nil {
		return false, err
	}
	_, err = m.neigh.ask(netlink.Message{Header: netlink.Header{Type: unix.RTM_GETLINK, Flags: netlink.Request},
		Data: append(make([]byte, unix.SizeofIfInfomsg), attrs...)})
	switch {
	case errors.Is(err, unix.ENODEV):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("look for interface %s: %w", name, err)
	}
	return true, nil
}
