package provision

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"seedbed"
	"seedbed/provision/engine"
)

func (h *host) RunHook(
	ctx context.Context, call seedbed.Call, run seedbed.HookRun, output func(seedbed.OutputLine),
) (seedbed.HookResult, error) {
	if err := h.fence(call); err != nil {
		return seedbed.HookResult{}, err
	}
	return h.hooked(ctx, run, output)
}

// TestHookScripts checks when scripts run and what they are told, that the failure of a required
// one prevents its stage from beginning or being committed, and that the failure of another does
// not.
func TestHookScripts(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		hook     seedbed.StageHook
		problem  string
		err      error
		want     seedbed.JobState
		says     string // in the job's history
		domains  int    // when the script runs
		attempts int    // how often it is run
	}{
		{"before, well", seedbed.StageHook{When: seedbed.HookBefore, Required: true}, "", nil,
			seedbed.JobSucceeded, "hook before the stage: script gate has ended well", 0, 1},
		{"after, well", seedbed.StageHook{When: seedbed.HookAfter}, "", nil, seedbed.JobSucceeded,
			"hook after the stage: script gate has ended well", 1, 1},
		{"before, required", seedbed.StageHook{When: seedbed.HookBefore, Required: true},
			"it failed: exit status 3: no", nil, seedbed.JobRolledBack,
			"stage define: hook before the stage, script gate: it failed: exit status 3: no", 0, 1},
		{"after, required", seedbed.StageHook{When: seedbed.HookAfter, Required: true}, "it failed: exit status 3", nil, seedbed.JobRolledBack,
			"stage define: hook after the stage, script gate: it failed: exit status 3", 1, 1},
		{"before, best effort", seedbed.StageHook{When: seedbed.HookBefore}, "it failed: exit status 3", nil, seedbed.JobSucceeded,
			"warn define: hook before the stage, script gate: it failed: exit status 3; going on without it", 0, 1},
		{"after, best effort", seedbed.StageHook{When: seedbed.HookAfter}, "it failed: exit status 3", nil, seedbed.JobSucceeded,
			"hook after the stage, script gate: it failed: exit status 3; going on without it", 1, 1},
		{"no such script", seedbed.StageHook{When: seedbed.HookBefore, Required: true}, "",
			seedbed.Errorf(seedbed.ErrNotFound, "the hook script gate does not exist"),
			seedbed.JobRolledBack, "the hook script gate does not exist", 0, 1},
		{"no answer at first", seedbed.StageHook{When: seedbed.HookBefore, Required: true}, "",
			seedbed.Errorf(seedbed.ErrUnavailable, "no worker"),
			seedbed.JobSucceeded, "no worker; trying again", 0, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t).withProfile(seedbed.ReadyStarted)
			test.hook.Stage, test.hook.Script = "define", "gate"
			l.tune = func(c *engine.Config, _ *engine.Intervals) { c.Hooks = []seedbed.StageHook{test.hook} }
			var mu sync.Mutex
			var told []seedbed.HookRun
			l.host.hooked = func(_ context.Context, run seedbed.HookRun, output func(seedbed.OutputLine)) (seedbed.HookResult, error) {
				mu.Lock()
				defer mu.Unlock()
				told = append(told, run)
				if domains, _ := l.hv.Domains(context.Background()); len(domains) != test.domains {
					t.Errorf("%d domains", len(domains))
				}
				output(seedbed.OutputLine{Stream: "stdout", Text: "hello"})
				if test.err != nil && len(told) == 1 {
					return seedbed.HookResult{}, test.err
				}
				return seedbed.HookResult{Problem: test.problem}, nil
			}
			id := l.create("web1")
			inst, err := l.db.InstanceByName(t.Context(), seedbed.InDefault("web1"))
			l.ok(err)
			l.runUntil(id, test.want)
			if h := l.history(id); !strings.Contains(h, test.says) {
				t.Errorf("history without %q:\n%s", test.says, h)
			}
			if len(told) != test.attempts {
				t.Fatalf("run %d times", len(told))
			}
			want := seedbed.HookRun{
				Script: "gate", ID: fmt.Sprintf("hook_%s_define_%s_0", id, test.hook.When), Attempt: 1, Again: test.attempts > 1,
				HookFacts: seedbed.HookFacts{Job: id, Kind: seedbed.JobCreate, Project: seedbed.DefaultProject, Subject: "web1",
					Instance: inst.ID, Node: testNode, Stage: "define", When: test.hook.When},
				Machine: &seedbed.HookMachine{Profile: "small", Image: "debian",
					State: seedbed.InstanceProvisioning, VCPUs: 1, Memory: 256 * seedbed.MiB,
					Tags: inst.Tags, NICs: inst.NICs, Volumes: inst.Volumes},
			}
			if d := cmp.Diff(want, told[len(told)-1], cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); d != "" {
				t.Errorf("told (-want +got):\n%s", d)
			}
			if lines := l.output(id); len(lines) != test.attempts || lines[0].Stage != "define" || lines[0].Text != "hello" {
				t.Errorf("output %+v", lines)
			}
			if test.want == seedbed.JobRolledBack {
				l.nothing("web1")
			} else {
				l.up("web1")
			}
		})
	}
}

// TestHookScriptOverdue ends a script that takes too long, which fails its stage.
func TestHookScriptOverdue(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	l.tune = func(c *engine.Config, _ *engine.Intervals) {
		c.Hooks = []seedbed.StageHook{{Stage: "define", When: seedbed.HookAfter, Script: "slow", Required: true, Timeout: 50 * time.Millisecond}}
	}
	l.host.hooked = func(ctx context.Context, _ seedbed.HookRun, _ func(seedbed.OutputLine)) (seedbed.HookResult, error) {
		<-ctx.Done()
		return seedbed.HookResult{}, ctx.Err()
	}
	job := l.runUntil(l.create("web1"), seedbed.JobRolledBack)
	if job.Error != "stage define: hook after the stage, script slow: no end after 50ms" {
		t.Errorf("error %q", job.Error)
	}
	l.nothing("web1")
}

// TestHookScriptAgain kills the engine while a script runs, or after it. The next engine runs it
// again under the same ID, and tells it that it may have run before.
func TestHookScriptAgain(t *testing.T) {
	t.Parallel()
	for _, when := range []string{seedbed.HookBefore, seedbed.HookAfter} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			l := newLab(t).withProfile(seedbed.ReadyStarted)
			l.tune = func(c *engine.Config, _ *engine.Intervals) {
				c.Hooks = []seedbed.StageHook{{Stage: "define", When: when, Script: "gate", Required: true}}
			}
			var told []seedbed.HookRun
			var reached atomic.Bool
			var first *process
			l.host.hooked = func(ctx context.Context, run seedbed.HookRun, _ func(seedbed.OutputLine)) (seedbed.HookResult, error) {
				told = append(told, run)
				if len(told) == 1 {
					first.kill()
					reached.Store(true)
					<-ctx.Done()
					return seedbed.HookResult{}, ctx.Err()
				}
				return seedbed.HookResult{}, nil
			}
			id := l.create("web1")
			l.start(func(p *process) { first = p })
			l.eventually("the script", reached.Load)
			first.stop()
			l.runUntil(id, seedbed.JobSucceeded)
			l.up("web1")
			if len(told) != 2 || told[0].Again || told[0].Attempt != 1 || !told[1].Again || told[1].Attempt != 2 || told[0].ID != told[1].ID {
				t.Errorf("told %+v", told)
			}
		})
	}
}
