//go:build libvirt

package libvirt

import (
	"errors"
	"fmt"

	lv "libvirt.org/go/libvirt"

	"seedbed"
)

// kindOf maps libvirt errors to our kinds
// (https://libvirt.org/html/libvirt-virterror.html#virErrorNumber). Other errors have no kind.
var kindOf = map[lv.ErrorNumber]error{
	lv.ERR_NO_DOMAIN:             seedbed.ErrNotFound,
	lv.ERR_DOM_EXIST:             seedbed.ErrConflict,
	lv.ERR_NO_CONNECT:            seedbed.ErrUnavailable,
	lv.ERR_INVALID_CONN:          seedbed.ErrUnavailable,
	lv.ERR_RPC:                   seedbed.ErrUnavailable,
	lv.ERR_AUTH_UNAVAILABLE:      seedbed.ErrUnavailable,
	lv.ERR_OPERATION_TIMEOUT:     seedbed.ErrUnavailable,
	lv.ERR_AUTH_FAILED:           seedbed.ErrForbidden,
	lv.ERR_AUTH_CANCELLED:        seedbed.ErrForbidden,
	lv.ERR_ACCESS_DENIED:         seedbed.ErrForbidden,
	lv.ERR_OPERATION_DENIED:      seedbed.ErrForbidden,
	lv.ERR_RESOURCE_BUSY:         seedbed.ErrInUse,
	lv.ERR_XML_ERROR:             seedbed.ErrInvalid,
	lv.ERR_XML_DETAIL:            seedbed.ErrInvalid,
	lv.ERR_XML_INVALID_SCHEMA:    seedbed.ErrInvalid,
	lv.ERR_CONFIG_UNSUPPORTED:    seedbed.ErrInvalid,
	lv.ERR_INVALID_ARG:           seedbed.ErrInvalid,
	lv.ERR_ARGUMENT_UNSUPPORTED:  seedbed.ErrInvalid,
	lv.ERR_OPERATION_UNSUPPORTED: seedbed.ErrInvalid,
	lv.ERR_NO_SUPPORT:            seedbed.ErrInvalid,
}

// explain translates a libvirt error into one of ours. what is the operation that failed.
func explain(what string, err error) error {
	var lverr lv.Error
	if !errors.As(err, &lverr) {
		return err
	}
	if kind, ok := kindOf[lverr.Code]; ok {
		return seedbed.Errorf(kind, "%s: %s", what, lverr.Message)
	}
	return fmt.Errorf("%s: %s (libvirt error %d of domain %d)", what, lverr.Message, lverr.Code, lverr.Domain)
}

// has reports whether err is a libvirt error of that number.
func has(err error, code lv.ErrorNumber) bool {
	var lverr lv.Error
	return errors.As(err, &lverr) && lverr.Code == code
}

// messageOf returns the text of a libvirt error.
func messageOf(err error) string {
	var lverr lv.Error
	if errors.As(err, &lverr) {
		return lverr.Message
	}
	return err.Error()
}
