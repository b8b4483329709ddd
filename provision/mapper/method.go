package mapper

import (
	"context"
	"os"
	"strings"

	"seedbed"
	"seedbed/internal/command"
)

// method is one method of making a volume a block device.
type method interface {
	methodInfo
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

// methodInfo is what is known of a method in advance.
type methodInfo interface {
	// name is its name in records and messages.
	name() string
	// takes reports whether it is for volumes of that kind.
	takes(v Volume) bool
	// can returns ErrUnavailable if this host cannot use it.
	can(ctx context.Context) error
}

// allMethods returns the methods in the order in which they are tried.
func (h *Host) allMethods() []method {
	return []method{
		kernelRBD{deviceType: "krbd"},
		kernelRBD{deviceType: "nbd"},
		&fuse{h: h, rbd: true},
		&networkDisk{h: h},
		&fuse{h: h},
	}
}

// methodOf returns the method of a record. A newer release may have methods that are unknown here.
func (h *Host) methodOf(e *entry) method {
	for _, w := range h.methods {
		if w.name() == e.Method {
			return w
		}
	}
	return unknownMethod(e.Method)
}

// unknownMethod is a method that this release does not know.
type unknownMethod string

func (u unknownMethod) name() string { return string(u) }

func (u unknownMethod) takes(Volume) bool { return false }

func (u unknownMethod) can(context.Context) error { return u.refuse() }

func (u unknownMethod) attach(context.Context, *entry) (string, error) { return "", u.refuse() }

func (u unknownMethod) detach(context.Context, *entry, bool) error { return u.refuse() }

func (u unknownMethod) device(context.Context, *entry) (string, bool, error) {
	return "", false, u.refuse()
}

func (u unknownMethod) refuse() error {
	return seedbed.Errorf(seedbed.ErrVersion,
		"the mapping method %q is not known to this release: end the mapping manually and remove its record", string(u))
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
