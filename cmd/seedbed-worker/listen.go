//go:build libvirt

package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"

	"seedbed"
	"seedbed/internal/config"
	"seedbed/internal/mtls"
	"seedbed/internal/run"
)

// listen opens the worker's listeners for control hosts: the socket, which only the owner of its
// directory may open, and, with worker.cluster_listen, an address for other hosts. checks are those
// of the address's certificate.
func listen(ctx context.Context, c config.Config, log *slog.Logger) (all []net.Listener,
	checks func(context.Context) []seedbed.Check, err error) {
	ln, err := run.Socket{Path: c.Worker.Socket, Mode: 0o600, DirOwner: true, Log: log}.Listen(ctx)
	if err != nil {
		return nil, nil, err
	}
	if c.Worker.ClusterListen == "" {
		return []net.Listener{ln}, nil, nil
	}
	identity, err := mtls.Open(mtls.Files{Name: "cluster.worker", CA: c.Cluster.CA, Cert: c.Cluster.Worker.Cert,
		Key: c.Cluster.Worker.Key}, mtls.Worker, c.Node, log)
	if err != nil {
		ln.Close()
		return nil, nil, err
	}
	remote, err := identity.Listen(ctx, c.Worker.ClusterListen, mtls.Control)
	if err != nil {
		ln.Close()
		return nil, nil, fmt.Errorf("worker.cluster_listen: %w", err)
	}
	return []net.Listener{ln, remote}, identity.Checks, nil
}
