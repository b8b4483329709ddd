package hook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"seedbed"
	"seedbed/internal/command"
)

// agentDir is where Debian's fence-agents are, and agentPrefix is how their names begin.
const (
	agentDir    = "/usr/sbin"
	agentPrefix = "fence_"
)

// fenceTime bounds one run of a fence agent.
const fenceTime = 2 * time.Minute

// maxSaid limits what is repeated of the output of an agent.
const maxSaid = 500

// RunFence runs a fence agent of the directory or, if its name begins with fence_ and the directory does
// not have it, of fence-agents. The agent reads what to do from its standard input, one name=value a
// line. Its exit status is returned, with the end of its output, in which the secrets are masked. Errors
// are those of RunHook.
func (r *Runner) RunFence(ctx context.Context, c seedbed.FenceCall, action string) (status int, said string, err error) {
	file, err := r.open(c.Agent)
	if errors.Is(err, seedbed.ErrNotFound) && strings.HasPrefix(c.Agent, agentPrefix) {
		file, err = New(Config{Dir: agentDir, Log: r.cfg.Log}).open(c.Agent)
	}
	if err != nil {
		return 0, "", err
	}
	defer file.Close()
	var in, out bytes.Buffer
	fmt.Fprintf(&in, "action=%s\n", action)
	for _, options := range []map[string]string{c.Options, c.Secrets} {
		for _, name := range slices.Sorted(maps.Keys(options)) {
			fmt.Fprintf(&in, "%s=%s\n", name, options[name])
		}
	}
	start := time.Now()
	got, err := command.Run(ctx, command.Command{Name: c.Agent, File: file, Timeout: fenceTime, Stdin: in.Bytes(),
		Stderr: &out, EndGroup: true,
		Limits: command.Limits{Memory: maxMemory, FileSize: maxFileSize, Files: maxFiles}})
	said = string(got.Stderr) + string(got.Stdout)
	for _, secret := range c.Secrets {
		if secret != "" {
			said = strings.ReplaceAll(said, secret, "***")
		}
	}
	if said = strings.TrimSpace(said); len(said) > maxSaid {
		said = strings.ToValidUTF8(said[len(said)-maxSaid:], "")
	}
	if ended, ok := errors.AsType[*command.Error](err); ok && ended.Err == nil && ended.Status > 0 {
		status, err = ended.Status, nil
	}
	r.cfg.Log.Info("fence agent ended", "agent", c.Agent, "action", action, "status", status,
		"took", time.Since(start).Round(time.Millisecond))
	if err != nil && ctx.Err() != nil {
		return 0, "", context.Cause(ctx)
	}
	if err != nil {
		return 0, "", seedbed.Errorf(seedbed.ErrConflict, "fence agent %s did not end by itself within %s, or was not started", c.Agent,
			fenceTime)
	}
	return status, said, nil
}
