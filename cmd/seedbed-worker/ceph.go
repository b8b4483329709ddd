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
	return ceph.Open(ctx, cephConfig(c, p, mappings, log))
}

// cephConfig returns how the pool is opened. Its lock is in the worker's own directory: in run_dir,
// which is seedbedd's user's, that user could have root make a file anywhere, by a symbolic link.
func cephConfig(c config.Config, p config.Pool, mappings *mapper.Host, log *slog.Logger) ceph.Config {
	return ceph.Config{
		Name: p.Name, Pool: p.CephPool, ConfFile: p.Conf, User: p.User, Keyring: p.Keyring, Node: c.Node,
		Lock: filepath.Join(c.Worker.State, "pool-"+p.Name+".lock"), Scratch: c.Worker.Spool,
		Imports: c.Storage.ImportDirs, Trash: p.Trash, Mapper: mappings, Log: log,
	}
}

// The compiler checks here that the driver implements the protocol's roles.
var (
	_ worker.Pool       = (*ceph.Pool)(nil)
	_ worker.RBDCluster = (*ceph.Pool)(nil)
)
