package mapper

import (
	"context"
	"os"
	"strings"

	"seedbed"
	"seedbed/internal/command"
)

// way is one method of making a volume a block device.
type way interface {
	trait
	// attach makes the device and returns its path. What it makes carries the entry's token.
	attach(ctx context.Context, e *entry) (device string, err error)
	// detach removes what attach has made for the entry, or a part of it. It succeeds if there is
	// nothing. Unless force is true no data is lost: it returns ErrInUse while the device is
	// mounted or open.
	detach(ctx context.Context, e *entry, force bool) error
	// device returns the entry's device according to the kernel, or "", and whether it works: the
	// process that serves it may have died.
	device(ctx context.Context, e *entry) (device string, works bool, err error)
}

// trait is what is known of a method in advance.
type trait interface {
	// name is its name in records and messages.
	name() string
	// takes reports whether it is for volumes of that kind.
	takes(v Volume) bool
	// can returns ErrUnavailable if this host cannot use it.
	can(ctx context.Context) error
}

// allWays returns the methods in the order in which they are tried.
func (h *Host) allWays() []way {
	return []way{
		kernelRBD{deviceType: "krbd"},
		kernelRBD{deviceType: "nbd"},
		&fuse{h: h, rbd: true},
		&networkDisk{h: h},
		&fuse{h: h},
	}
}

// wayOf returns the method of a record. A newer release may have methods that are unknown here.
func (h *Host) wayOf(e *entry) way {
	for _, w := range h.ways {
		if w.name() == e.Way {
			return w
		}
	}
	return unknown(e.Way)
}

// unknown is a method that this release does not know.
type unknown string

func (u unknown) name() string { return string(u) }

func (u unknown) takes(Volume) bool { return false }

func (u unknown) can(context.Context) error { return u.refuse() }

func (u unknown) attach(context.Context, *entry) (string, error) { return "", u.refuse() }

func (u unknown) detach(context.Context, *entry, bool) error { return u.refuse() }

func (u unknown) device(context.Context, *entry) (string, bool, error) { return "", false, u.refuse() }

func (u unknown) refuse() error {
	return seedbed.Errorf(seedbed.ErrVersion,
		"the mapping method %q is not known to this release: end the mapping by hand and remove its record", string(u))
}

// kernelHas loads a kernel module unless the path that it creates exists.
func kernelHas(ctx context.Context, module, brings string) error {
	if _, err := os.Stat(brings); err == nil {
		return nil
	}
	if command.Installed("modprobe") == nil {
		// This fails on kernels without the module: what counts is whether the path exists then.
		_, _ = command.Run(ctx, command.Command{Name: "modprobe", Args: []string{"-q", module}, Timeout: shortTime})
	}
	if _, err := os.Stat(brings); err != nil {
		return seedbed.Errorf(seedbed.ErrUnavailable, "the kernel has no %s (%s)", module, brings)
	}
	return nil
}

// toolError translates the last line of a tool to one of our kinds of errors.
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
