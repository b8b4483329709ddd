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
