package main

import (
	"context"
	"log/slog"
	"runtime"

	"golang.org/x/sys/unix"

	"seedbed"
	"seedbed/internal/build"
	"seedbed/internal/config"
	"seedbed/provision/record"
	"seedbed/store/local"
	"seedbed/store/zk"
)

// coordinator lets the control hosts of an installation find each other. Its other methods work
// only while Run runs.
type coordinator interface {
	record.Coordination
	Join(context.Context, seedbed.Member) error
	Check(context.Context) []seedbed.Check
	Run(context.Context) error
}

// openCoordination returns the configured coordinator.
func openCoordination(c config.Coordination, log *slog.Logger) coordinator {
	if c.Driver == config.CoordinationZooKeeper {
		return zk.New(zk.Config{Servers: c.Servers, SessionTimeout: c.SessionTimeout, Root: c.Root, Log: log})
	}
	return local.New()
}

// host returns this seedbedd as the other control hosts see it. Its memory is 0 if the host does
// not report it.
func host(node string) seedbed.Member {
	m := seedbed.Member{Node: node, Version: build.Version(), CPUs: runtime.NumCPU()}
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil {
		m.Memory = seedbed.Bytes(uint64(info.Totalram) * uint64(info.Unit))
	}
	return m
}
