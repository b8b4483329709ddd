package worker

import (
	"context"
	"net"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"seedbed"
	"seedbed/provision/effects"
)

var stepNames = []string{"setup", "create", "prepare", "install", "cleanup"}

// handleScripts adds the effects of provisioning scripts and of hooks.
func (s *Server) handleScripts(h effects.Handlers) {
	effects.RunScript.Handle(h, func(
		ctx context.Context, c seedbed.Call, a seedbed.ScriptTurn, to effects.Listener,
	) (seedbed.ScriptResult, error) {
		if err := s.checkTurn(a); err != nil {
			return seedbed.ScriptResult{}, err
		}
		return s.scripts.RunScript(ctx, c, a, to.Output)
	})
	effects.CloseScript.Handle(h, func(ctx context.Context, c seedbed.Call, a effects.DomainRef) error {
		if s.scripts == nil {
			return nil
		}
		if err := checkInstance(a.ID); err != nil {
			return err
		}
		return s.scripts.CloseScript(ctx, c.Job, a.ID)
	})
	effects.ScriptHost.Handle(h, func(ctx context.Context, a effects.ToolNames) (seedbed.ScriptHost, error) {
		return s.scriptHost(ctx, a.Tools)
	})
	effects.CheckDomain.Handle(h, func(ctx context.Context, a seedbed.DomainSpec) ([]string, error) {
		c, ok := s.hypervisor.(DomainChecker)
		if !ok {
			return nil, s.noScripts()
		}
		return c.CheckDomain(ctx, a)
	})
	effects.RunHook.Handle(h, s.runHook)
}

// runHook runs an administrator's script, on this node whichever node run names.
func (s *Server) runHook(ctx context.Context, c seedbed.Call, run seedbed.HookRun, to effects.Listener) (seedbed.HookResult, error) {
	if s.hooks == nil {
		return seedbed.HookResult{}, seedbed.Errorf(seedbed.ErrInvalid, "the worker on node %s runs no hook scripts", s.node)
	}
	if run.Job != c.Job {
		return seedbed.HookResult{}, seedbed.Errorf(seedbed.ErrInvalid, "the hook is of job %s, and the call of job %s",
			run.Job.Short(), c.Job.Short())
	}
	run.Node = s.node
	return s.hooks.RunHook(ctx, run, to.Output)
}

func (s *Server) noScripts() error {
	return seedbed.Errorf(seedbed.ErrInvalid, "the worker on node %s runs no provisioning scripts", s.node)
}

func (s *Server) checkTurn(t seedbed.ScriptTurn) error {
	switch {
	case s.scripts == nil:
		return s.noScripts()
	case t.Start != nil:
		if err := checkInstance(t.Start.Instance); err != nil {
			return err
		}
		return seedbed.CheckFullName(t.Start.Name)
	case t.Step != "" && !slices.Contains(stepNames, t.Step):
		return seedbed.Errorf(seedbed.ErrInvalid, "a script has no step %q: expected %s", t.Step, strings.Join(stepNames, ", "))
	case t.Step == "" && t.Answer == nil:
		return seedbed.Errorf(seedbed.ErrInvalid, "the turn asks a script for nothing: expected start, step or answer")
	}
	return nil
}

// scriptHost returns what this host has for scripts.
func (s *Server) scriptHost(ctx context.Context, tools []string) (seedbed.ScriptHost, error) {
	if s.scripts == nil {
		return seedbed.ScriptHost{}, s.noScripts()
	}
	host := seedbed.ScriptHost{Pools: []seedbed.PoolInfo{}, Missing: s.scripts.Tools(tools), Monitors: []string{}}
	var uts unix.Utsname
	if err := unix.Uname(&uts); err != nil {
		return host, err
	}
	host.Arch = unix.ByteSliceToString(uts.Machine[:])
	for _, name := range s.poolNames() {
		info, err := s.pools[name].Info(ctx)
		if err != nil {
			return host, err
		}
		host.Pools = append(host.Pools, info)
		c, ok := s.pools[name].(RBDCluster)
		if !ok || host.Secret != "" {
			continue
		}
		source, err := c.Cluster(ctx)
		if err != nil {
			return host, err
		}
		host.Secret = source.Secret
		for m := range strings.SplitSeq(source.Monitors, ",") {
			name, port, err := net.SplitHostPort(m)
			if err != nil {
				continue
			}
			if host.MonitorPort == "" {
				host.MonitorPort = port
			}
			host.Monitors = append(host.Monitors, name)
		}
	}
	return host, nil
}
