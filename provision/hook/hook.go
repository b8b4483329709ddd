// Package hook runs an administrator's scripts before and after stages of jobs. The scripts are
// files in one directory of this host, which only its owner may change. Each is run as the worker's
// own user, without a shell, in a process group that ends with it, and gets the facts on its
// standard input and in its environment.
package hook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"time"

	"seedbed"
	"seedbed/internal/command"
)

// Config says where the scripts are.
type Config struct {
	// Dir is their directory, an absolute path; it need not exist.
	Dir string
	// Named are the scripts that the configuration names, for Health.
	Named []string
	Log   *slog.Logger
}

// Runner runs the scripts of one host.
type Runner struct {
	cfg Config
	// owner is who may own directory and scripts, besides root.
	owner uint32
}

// The limits of one run. Its processor time is bounded by the time of its call.
const (
	maxMemory   = 4 * seedbed.GiB
	maxFileSize = 4 * seedbed.GiB
	maxFiles    = 1024
)

// defaultTime bounds a run whose call has no deadline.
const defaultTime = time.Hour

// New makes a runner. It reads nothing before the first call.
func New(c Config) *Runner {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return &Runner{cfg: c, owner: uint32(os.Geteuid())}
}

// RunHook runs the script that run names until it ends or ctx does, and then kills its process
// group. output is called for each line of its output, up to seedbed.MaxOutput in all, from one
// goroutine at a time and never after RunHook has returned. A script that fails is not an error.
// RunHook returns seedbed.ErrInvalid for an invalid name, ErrNotFound if the script does not exist,
// ErrForbidden for one that users other than root could have written, and the context's error if
// that has ended.
func (r *Runner) RunHook(ctx context.Context, run seedbed.HookRun, output func(seedbed.OutputLine)) (seedbed.HookResult, error) {
	file, err := r.open(run.Script)
	if err != nil {
		return seedbed.HookResult{}, err
	}
	defer file.Close()
	return r.run(ctx, file, run, output)
}

func (r *Runner) run(ctx context.Context, file *os.File, run seedbed.HookRun, output func(seedbed.OutputLine)) (seedbed.HookResult, error) {
	facts, err := json.Marshal(run)
	if err != nil {
		return seedbed.HookResult{}, fmt.Errorf("encode the facts of a hook: %w", err)
	}
	limit := defaultTime // the command's own limit is a little more, so that ctx ends it
	if deadline, ok := ctx.Deadline(); ok {
		limit = max(time.Until(deadline), time.Millisecond)
	}
	out := newLines(output)
	stdout, stderr := out.stream("stdout"), out.stream("stderr")
	start := time.Now()
	_, err = command.Run(ctx, command.Command{
		Name: run.Script, File: file, Timeout: limit + time.Second, Stdin: facts, Env: append(environment(run), "SEEDBED_HOOKS_DIR="+r.cfg.Dir),
		Stdout: stdout, Stderr: stderr, EndGroup: true,
		Limits: command.Limits{Memory: maxMemory, FileSize: maxFileSize, CPU: limit, Files: maxFiles},
	})
	out.end()
	r.cfg.Log.Info("hook script ended", "script", run.Script, "job", run.Job, "stage", run.Stage, "took",
		time.Since(start).Round(time.Millisecond), "err", err)
	return result(ctx, err, out.last())
}

// result distinguishes a script that failed from a run that was not possible.
func result(ctx context.Context, err error, last string) (seedbed.HookResult, error) {
	ended, ok := errors.AsType[*command.Error](err)
	switch {
	case err == nil:
		return seedbed.HookResult{}, nil
	case ctx.Err() != nil:
		return seedbed.HookResult{}, context.Cause(ctx)
	case !ok:
		return seedbed.HookResult{}, err
	case errors.Is(ended.Err, exec.ErrWaitDelay):
		return seedbed.HookResult{Problem: "a process that it started keeps its output open: redirect that output"}, nil
	case ended.Err != nil:
		return seedbed.HookResult{}, err
	case ended.Line == "":
		ended.Line = last
	}
	ended.Program = "it failed"
	return seedbed.HookResult{Problem: ended.Error()}, nil
}
