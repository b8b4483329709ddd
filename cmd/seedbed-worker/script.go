//go:build libvirt

package main

import (
	"context"
	"log/slog"
	"path/filepath"

	"seedbed/internal/config"
	"seedbed/provision/libvirt"
	"seedbed/provision/script"
	"seedbed/provision/script/sandbox"
	"seedbed/provision/worker"
)

// openSandboxes opens the sandboxes for scripts. It ends the scripts that an earlier worker left
// running, because their mounts keep the mappings busy.
func openSandboxes(ctx context.Context, c config.Config, log *slog.Logger) (*sandbox.Host, error) {
	h, err := sandbox.Open(sandbox.Config{Dir: filepath.Join(c.Worker.State, "sandbox"), Show: c.Scripts.Show, Log: log})
	if err != nil {
		return nil, err
	}
	if err := h.Sweep(ctx); err != nil {
		log.Warn("sandboxes of an earlier worker could not be removed; retrying at the next start", "err", err)
	}
	return h, nil
}

// scripts returns the driver that runs provisioning scripts on pools whose volumes can be mapped.
func scripts(c config.Config, boxes *sandbox.Host, pools map[string]worker.Pool, log *slog.Logger) *script.Driver {
	s := c.Scripts
	mappers := map[string]script.Mapper{}
	for name, pool := range pools {
		if m, ok := pool.(worker.Mapper); ok {
			mappers[name] = m
		}
	}
	return script.New(script.Config{
		Start:   func(ctx context.Context, spec sandbox.Spec) (script.Box, error) { return boxes.Start(ctx, spec) },
		Mappers: mappers, Python: s.Python, Idle: s.Idle, Privileged: s.Privileged, Node: c.Node, Log: log,
		Limits: sandbox.Limits{CPUs: float64(s.CPUs), Memory: s.Memory, Processes: s.Processes, Time: s.Time, Output: s.Output, Tmp: s.Tmp},
	})
}

// The compiler checks here that the driver implements the protocol's role.
var (
	_ worker.Scripts       = (*script.Driver)(nil)
	_ worker.DomainChecker = (*libvirt.Driver)(nil)
)
