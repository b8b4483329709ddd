//go:build libvirt && ceph

package main

import (
	"context"
	"log/slog"
	"path/filepath"

	"seedbed/internal/config"
	"seedbed/provision/ceph"
	"seedbed/provision/mapper"
	"seedbed/provision/worker"
)

// openCeph opens a pool in a Ceph cluster.
func openCeph(ctx context.Context, c config.Config, p config.Pool, mappings *mapper.Host, log *slog.Logger) (openedPool, error) {
	return ceph.Open(ctx, ceph.Config{
		Name: p.Name, Pool: p.CephPool, ConfFile: p.Conf, User: p.User, Keyring: p.Keyring,
		Node: c.Node, Lock: filepath.Join(c.RunDir, "pool-"+p.Name+".lock"), Scratch: c.Worker.Spool, Trash: p.Trash, Mapper: mappings, Log: log,
	})
}

// The compiler checks here that the driver implements the protocol's roles.
var (
	_ worker.Pool       = (*ceph.Pool)(nil)
	_ worker.RBDCluster = (*ceph.Pool)(nil)
)
