package worker

import (
	"context"

	"seedbed"
)

// Hooks runs scripts of the administrator's beside stages.
type Hooks interface {
	// RunHook runs a script until it or ctx ends, with what it has started. output
	// is called for each line that it puts out, from one goroutine at a time and
	// never after the return. A script that fails is no error. Errors: ErrInvalid for
	// a name that is none, ErrNotFound without such a script, ErrForbidden for one
	// that others than root could have written.
	RunHook(ctx context.Context, run seedbed.HookRun, output func(seedbed.OutputLine)) (seedbed.HookResult, error)
}

const runHook = "run-hook"

// hookEffects are the effects of hooks.
func (s *Server) hookEffects() map[string]effect {
	return map[string]effect{
		runHook: does(func(ctx context.Context, c seedbed.Call, run seedbed.HookRun, out *outbox) (seedbed.HookResult, error) {
			if s.hooks == nil {
				return seedbed.HookResult{}, seedbed.Errorf(seedbed.ErrInvalid, "the worker on node %s runs no hook scripts", s.node)
			}
			if run.Job != c.Job {
				return seedbed.HookResult{}, seedbed.Errorf(seedbed.ErrInvalid, "the hook is of job %s, and the call of job %s", run.Job.Short(), c.Job.Short())
			}
			run.Node = s.node // where it runs
			return s.hooks.RunHook(ctx, run, out.output)
		}),
	}
}

// RunHook runs a script of the administrator's of the worker's host: see Hooks. output may be nil.
func (c *Client) RunHook(ctx context.Context, call seedbed.Call, run seedbed.HookRun, output func(seedbed.OutputLine)) (seedbed.HookResult, error) {
	return ask[seedbed.HookResult](ctx, c, exchange{effect: runHook, call: call, args: run, output: output})
}
