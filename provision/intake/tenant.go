package intake

import (
	"context"
	"errors"

	"seedbed"
)

// unplaced returns the error of a placement. It does not tell a tenant which nodes there are, and what
// room they have.
func unplaced(ctx context.Context, err error) error {
	e, known := errors.AsType[*seedbed.Error](err)
	switch {
	case !known || !seedbed.IsTenant(ctx):
		return err
	case errors.Is(err, seedbed.ErrInvalid):
		return seedbed.Errorf(e.Kind, "no node can ever have it: ask for less")
	}
	return seedbed.Errorf(e.Kind, "no node has room for it now, or its placement group allows none: ask for less, or try again later")
}

// unheld returns the error for a pool in which no node can make an image. It does not tell a tenant which
// nodes there are.
func unheld(ctx context.Context, pool string, err error) error {
	if e, known := errors.AsType[*seedbed.Error](err); known && seedbed.IsTenant(ctx) {
		return seedbed.Errorf(e.Kind, "no node takes an image in the pool %q now", seedbed.Clip(pool))
	}
	return err
}

// macUsed returns the error for a MAC address that is used on a node. It does not tell a tenant by whom.
func macUsed(ctx context.Context, mac seedbed.MAC, node, by string) error {
	if seedbed.IsTenant(ctx) {
		return seedbed.Errorf(seedbed.ErrExists, "MAC address %s is taken", mac)
	}
	return seedbed.Errorf(seedbed.ErrExists, "MAC address %s is used on node %s already, by %s", mac, node, by)
}
