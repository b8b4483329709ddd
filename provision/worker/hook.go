package worker

import (
	"context"

	"seedbed"
)

// Hooks runs an administrator's scripts before and after stages.
type Hooks interface {
	// RunHook runs a script until it or ctx ends, together with the processes that it has started.
	// output is called for each line that it prints, from one goroutine at a time and never after
	// the return. A script that fails is not an error. Errors: ErrInvalid for a malformed name,
	// ErrNotFound if the script does not exist, ErrForbidden for a script that users other than
	// root could have written.
	RunHook(ctx context.Context, run seedbed.HookRun, output func(seedbed.OutputLine)) (seedbed.HookResult, error)
}
