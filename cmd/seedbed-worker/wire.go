//go:build libvirt

package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"seedbed"
	"seedbed/internal/config"
	"seedbed/internal/run"
	"seedbed/netcfg"
	"seedbed/netcfg/probe"
	"seedbed/netcfg/wireguard"
	"seedbed/provision/ceph"
	"seedbed/provision/dir"
	"seedbed/provision/hook"
	"seedbed/provision/image"
	"seedbed/provision/libvirt"
	"seedbed/provision/mapper"
	"seedbed/provision/worker"
)

// serve runs the worker until ctx ends.
func serve(ctx context.Context, c config.Config, log *slog.Logger) (err error) {
	// This comes first, because it refuses to start a second worker, which would end the first
	// one's scripts.
	mappings, err := mapper.Open(mapper.Config{Dir: filepath.Join(c.Worker.State, "mappings"), Log: log})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, mappings.Close()) }()
	boxes, err := openSandboxes(ctx, c, log)
	if err != nil {
		return err
	}
	if err := mappings.Sweep(ctx); err != nil {
		log.Warn("mappings of an earlier worker could not be removed, and their volumes stay in use; retrying at the next start", "err", err)
	}
	pools := map[string]worker.Pool{}
	var files []*dir.Pool
	for _, p := range c.Storage.Pools {
		pool, err := openPool(ctx, c, p, mappings, log)
		if err != nil {
			return err
		}
		defer pool.Close()
		pools[p.Name] = pool
		if ofFiles, ok := pool.(*dir.Pool); ok {
			files = append(files, ofFiles)
		}
	}
	hypervisor, err := libvirt.Open(ctx, libvirt.Config{
		URI: c.Libvirt.URI, DomainType: c.Libvirt.DomainType, ConsoleDir: c.Libvirt.ConsoleDir,
		CDROMDir: c.Libvirt.CDROMDir, Uplinks: c.Network.Uplinks,
		Secrets: secrets(c.Storage.Pools), Volumes: volumesIn(files), Log: log,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, hypervisor.Close()) }()

	runner := scripts(c, boxes, pools, log)
	defer func() { err = errors.Join(err, runner.Close()) }()
	effects, checks, err := listen(ctx, c, log)
	if err != nil {
		return err
	}
	for _, ln := range effects {
		defer ln.Close()
	}
	incarnation, err := worker.OpenIncarnation(filepath.Join(c.Worker.DataDir, "incarnation"))
	if err != nil {
		return err
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return err
	}
	server := worker.New(worker.Config{Node: c.Node, Pools: pools, Hypervisor: hypervisor, Scripts: runner, Privileged: c.Scripts.Privileged,
		Backups:   worker.Backups{Dirs: c.Storage.BackupDirs, Commands: c.Storage.BackupCommands},
		Address:   func() (netip.Addr, int, error) { return netcfg.NodeAddress(c.Network.Address) },
		Tunnel:    tunnel(c),
		LeftOut:   func() (map[string]string, error) { return netcfg.ReadLeftOut(c.Metadata.State) },
		Migration: migration(c),
		Probe:     probe.Used,
		Hooks:     hookScripts(c, log), Fences: hook.New(hook.Config{Dir: c.Worker.FenceDir, Log: log}), Incarnation: incarnation,
		Boot: strings.TrimSpace(string(boot)), Frozen: filepath.Join(c.Worker.State, "frozen"), Checks: checks, Log: log})
	health, err := run.ListenLoopback(ctx, c.Worker.Listen)
	if err != nil {
		return err
	}
	defer health.Close()

	group := run.NewGroup(log)
	group.Add("effects", func(ctx context.Context) error { return server.Serve(ctx, effects...) })
	group.Add("health", func(ctx context.Context) error {
		return run.Health{Checks: server.Health, Registry: run.NewRegistry()}.Serve(ctx, health)
	})
	group.Add("watchdog", run.Watchdog(log, func(context.Context) error { return nil }))
	log.Info("listening", "effects", c.Worker.Socket, "cluster", c.Worker.ClusterListen, "health", c.Worker.Listen)
	return group.Run(ctx)
}

// migration returns how guests that run come to this host; the zero value if they do not.
func migration(c config.Config) seedbed.MigrationTarget {
	m := c.Libvirt.Migration
	if m.URI == "" {
		return seedbed.MigrationTarget{}
	}
	return seedbed.MigrationTarget{URI: m.URI, Data: m.DataURI, TLS: m.TLS,
		Dirs: seedbed.HostDirs{Console: c.Libvirt.ConsoleDir, CDROM: c.Libvirt.CDROMDir}}
}

// tunnel returns what finds the key that the guest plane of this host has made, or nil if overlays are not encrypted.
func tunnel(c config.Config) func() (seedbed.Tunnel, error) {
	o := c.Network.Overlay
	if !o.Encrypted() {
		return nil
	}
	return func() (seedbed.Tunnel, error) {
		key, err := wireguard.ReadPublic(c.Metadata.State)
		if err != nil {
			return seedbed.Tunnel{Port: o.Port}, err
		}
		return seedbed.Tunnel{Key: key, Port: o.Port}, nil
	}
}

// The compiler checks here that the drivers implement the protocol's roles.
var (
	_ worker.Pool       = (*dir.Pool)(nil)
	_ worker.Hypervisor = (*libvirt.Driver)(nil)
)

// openedPool is a driver that the worker closes at its end.
type openedPool interface {
	worker.Pool
	io.Closer
}

// openPool opens a pool by its type.
func openPool(ctx context.Context, c config.Config, p config.Pool, mappings *mapper.Host, log *slog.Logger) (openedPool, error) {
	if p.Type == config.PoolCeph {
		return openCeph(ctx, c, p, mappings, log)
	}
	return dir.Open(dir.Config{Name: p.Name, Path: p.Path, Trash: p.Trash, Shared: p.Shared, Node: c.Node,
		Known: filepath.Join(c.Worker.DataDir, "pools", p.Name), Imports: c.Storage.ImportDirs, Mapper: mappings, Log: log})
}

// volumesIn finds the volume at a path in any of the pools.
func volumesIn(pools []*dir.Pool) libvirt.Volumes {
	return func(path string) (file image.Volume, ok bool, err error) {
		for _, p := range pools {
			if file, ok, err = p.VolumeAt(path); ok || err != nil {
				return file, ok, err
			}
		}
		return image.Volume{}, false, nil
	}
}

// secrets returns the keys that domains need for volumes in Ceph pools.
func secrets(pools []config.Pool) []libvirt.Secret {
	var all []libvirt.Secret
	for _, p := range pools {
		if p.Type == config.PoolCeph {
			all = append(all, libvirt.Secret{
				ID: ceph.SecretID(p.Name, p.User), Name: "seedbed pool " + p.Name + " client." + p.User, User: p.User, Keyring: p.Keyring,
			})
		}
	}
	return all
}
