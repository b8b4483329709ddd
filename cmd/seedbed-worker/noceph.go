//go:build libvirt && !ceph

package main

import (
	"context"
	"log/slog"

	"seedbed"
	"seedbed/internal/config"
	"seedbed/provision/mapper"
)

// openCeph returns ErrInvalid: this build has no Ceph driver.
func openCeph(_ context.Context, _ config.Config, p config.Pool, _ *mapper.Host, _ *slog.Logger) (openedPool, error) {
	return nil, seedbed.Errorf(seedbed.ErrInvalid,
		"storage pool %s has type ceph, and this seedbed-worker was built without Ceph: "+
			"build it with -tags ceph,libvirt (on Debian 12 also pacific), or give the pool type dir", p.Name)
}
