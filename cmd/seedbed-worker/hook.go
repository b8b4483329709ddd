//go:build libvirt

package main

import (
	"log/slog"

	"seedbed/internal/config"
	"seedbed/provision/hook"
	"seedbed/provision/worker"
)

// hookScripts returns the runner of stage hooks.
func hookScripts(c config.Config, log *slog.Logger) *hook.Runner {
	var named []string
	for _, h := range c.Jobs.Hooks {
		if h.Script != "" {
			named = append(named, h.Script)
		}
	}
	return hook.New(hook.Config{Dir: c.Worker.HooksDir, Named: named, Log: log})
}

// The compiler checks here that the runner implements the protocol's role.
var (
	_ worker.Hooks   = (*hook.Runner)(nil)
	_ worker.Checker = (*hook.Runner)(nil)
)
