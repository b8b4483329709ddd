package main

import (
	"context"
	"log/slog"
	"runtime"

	"golang.org/x/sys/unix"

	"seedbed"
	"seedbed/internal/build"
	"seedbed/internal/config"
	"seedbed/provision"
	"seedbed/store/local"
	"seedbed/store/zk"
)

// coordinator tells the control hosts of an installation of each other. Run
// keeps it going; the others work while it does.
type coordinator interface {
	provision.Coordination
	Join(context.Context, seedbed.Member) error
	Check(context.Context) []seedbed.Check
	Run(context.Context) error
}

// openCoordination makes the one that the configuration asks for.
func openCoordination(c config.Coordination, log *slog.Logger) coordinator {
	if c.Driver == config.CoordinationZooKeeper {
		return zk.New(zk.Config{Servers: c.Servers, SessionTimeout: c.SessionTimeout, Root: c.Root, Log: log})
	}
	return local.New()
}

// host is this seedbedd as the other control hosts see it. A host that does
// not tell its memory has none.
func host(node string) seedbed.Member {
	m := seedbed.Member{Node: node, Version: build.Version(), CPUs: runtime.NumCPU()}
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil {
		m.Memory = seedbed.Bytes(uint64(info.Totalram) * uint64(info.Unit))
	}
	return m
}
