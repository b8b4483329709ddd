package mapper

import (
	"context"
	"os"
	"strings"

	"seedbed"
	"seedbed/internal/command"
)

// way is one way in which a volume becomes a block device.
type way interface {
	trait
	// attach makes the device and returns its path. What it makes carries the entry's token.
	attach(ctx context.Context, e *entry) (device string, err error)
	// detach takes away what attach has made of the entry, or a part of it; nothing
	// is fine. Unless force is true nothing is lost: ErrInUse while the device is mounted or open.
	detach(ctx context.Context, e *entry, force bool) error
	// device is the entry's device as the kernel has it now, empty when it has none,
	// and whether it works: what serves it may have died.
	device(ctx context.Context, e *entry) (device string, works bool, err error)
}

// trait is what is known of a way beforehand.
type trait interface {
	// name is what records and messages call it.
	name() string
	// takes tells whether it is for volumes of that kind.
	takes(v Volume) bool
	// can refuses with ErrUnavailable what this host does not have.
	can(ctx context.Context) error
}

// allWays are the ways in the order in which they are tried.
func (h *Host) allWays() []way {
	return []way{
		kernelRBD{deviceType: "krbd"},
		kernelRBD{deviceType: "nbd"},
		&fuse{h: h, rbd: true},
		&networkDisk{h: h},
		&fuse{h: h},
	}
}

// wayOf is the way of a record; one that a later release had is nobody's.
func (h *Host) wayOf(e *entry) way {
	for _, w := range h.ways {
		if w.name() == e.Way {
			return w
		}
	}
	return unknown(e.Way)
}

// unknown is a way that this release does not know.
type unknown string

func (u unknown) name() string { return string(u) }

func (u unknown) takes(Volume) bool { return false }

func (u unknown) can(context.Context) error { return u.refuse() }

func (u unknown) attach(context.Context, *entry) (string, error) { return "", u.refuse() }

func (u unknown) detach(context.Context, *entry, bool) error { return u.refuse() }

func (u unknown) device(context.Context, *entry) (string, bool, error) { return "", false, u.refuse() }

func (u unknown) refuse() error {
	return seedbed.Errorf(seedbed.ErrVersion, "the way of mapping %q is not known to this release: end the mapping by hand and remove its record", string(u))
}

// kernelHas loads a kernel module unless what it brings is there.
func kernelHas(ctx context.Context, module, brings string) error {
	if _, err := os.Stat(brings); err == nil {
		return nil
	}
	if command.Installed("modprobe") == nil {
		// It fails where the kernel has no such module: what counts is whether it is there then.
		_, _ = command.Run(ctx, command.Command{Name: "modprobe", Args: []string{"-q", module}, Timeout: shortTime})
	}
	if _, err := os.Stat(brings); err != nil {
		return seedbed.Errorf(seedbed.ErrUnavailable, "the kernel has no %s (%s)", module, brings)
	}
	return nil
}

// toolError gives the kinds that a tool's last line shows.
func toolError(err error) error {
	if err == nil {
		return nil
	}
	for text, kind := range map[string]error{
		"Is another process using the image": seedbed.ErrInUse,
		`Failed to get "write" lock`:         seedbed.ErrInUse,
		"Device or resource busy":            seedbed.ErrInUse,
	} {
		if strings.Contains(err.Error(), text) {
			return seedbed.Errorf(kind, "%v", err)
		}
	}
	return err
}
