package ceph

import (
	"errors"
	"fmt"
	"syscall"

	"seedbed"
)

// coded is an error of librados or librbd: a negative errno (rados/librados.h, rbd/librbd.h).
type coded interface{ ErrorCode() int }

// errno is the errno behind err, or 0.
func errno(err error) syscall.Errno {
	var c coded
	if !errors.As(err, &c) {
		return 0
	}
	return syscall.Errno(max(c.ErrorCode(), -c.ErrorCode()))
}

// is reports whether err has one of the codes.
func is(err error, codes ...syscall.Errno) bool {
	e := errno(err)
	for _, c := range codes {
		if e != 0 && e == c {
			return true
		}
	}
	return false
}

// shutDown is the error of every operation once the cluster has blocklisted the client.
const shutDown = syscall.ESHUTDOWN

// errLeftOpen is returned if our own connection has an image open, but none of our calls. An operation
// that has timed out may leave librbd's watch on the image, which then lasts as long as the connection.
var errLeftOpen = seedbed.Errorf(seedbed.ErrUnavailable,
	"an operation that Ceph did not answer in time has left it open: it is free half a minute after this host has connected again")

// kindOf maps errnos to our kinds of errors. Other errnos have no kind.
var kindOf = map[syscall.Errno]error{
	syscall.ETIMEDOUT:    seedbed.ErrUnavailable,
	syscall.ESHUTDOWN:    seedbed.ErrUnavailable,
	syscall.ENOTCONN:     seedbed.ErrUnavailable,
	syscall.ECONNREFUSED: seedbed.ErrUnavailable,
	syscall.EHOSTUNREACH: seedbed.ErrUnavailable,
	syscall.EROFS:        seedbed.ErrUnavailable, // a client that does not answer holds the exclusive lock
	syscall.EPERM:        seedbed.ErrForbidden,
	syscall.EACCES:       seedbed.ErrForbidden,
	syscall.ENOSPC:       seedbed.ErrFull,
	syscall.EDQUOT:       seedbed.ErrFull,
	syscall.EBUSY:        seedbed.ErrInUse,
	syscall.ENOTEMPTY:    seedbed.ErrInUse,
}

// explain translates an error of Ceph's into one of ours. what is the operation that failed.
func explain(what string, err error) error {
	code := errno(err)
	if code == 0 {
		var ours *seedbed.Error
		if err == nil || errors.As(err, &ours) {
			return err
		}
		return fmt.Errorf("%s: %w", what, err)
	}
	switch kind := kindOf[code]; kind {
	case nil:
		return fmt.Errorf("%s: %w", what, err)
	case seedbed.ErrUnavailable:
		return seedbed.Errorf(kind, "%s: Ceph did not answer in time (%v): look at the cluster's health (ceph -s)", what, code)
	case seedbed.ErrForbidden:
		return seedbed.Errorf(kind, "%s: Ceph refuses (%v): the user needs the caps mon 'profile rbd', osd 'profile rbd' and mgr 'profile rbd'",
			what, code)
	default:
		return seedbed.Errorf(kind, "%s: %v", what, err)
	}
}
