package provision

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"seedbed"
	"seedbed/internal/feedtest"
	"seedbed/provision/engine"
	"seedbed/provision/worker/drivertest"
)

// ask submits a request about web1.
func (l *lab) ask(action string, params map[string]any) seedbed.JobID {
	l.t.Helper()
	return l.job(l.intake.Submit(l.t.Context(), seedbed.Request{Action: action, Name: "web1", Params: params}, nil))
}

// calls records the requested effects on domains, in order.
func (l *lab) calls() func() string {
	var seen []string
	l.hv.Fail(func(_ context.Context, effect string, at drivertest.Point) error {
		if at == drivertest.Before {
			seen = append(seen, effect)
		}
		return nil
	})
	return func() string { return strings.Join(seen, " ") }
}

func (l *lab) domain(id seedbed.InstanceID, want seedbed.DomainState) {
	l.t.Helper()
	if d, err := l.hv.DomainState(l.t.Context(), id); err != nil || d.State != want {
		l.t.Errorf("domain %+v, %v; expected %s", d, err, want)
	}
}

// TestStop checks that the guest is asked first, that the history says how it went off, and that
// the request decides what happens to a guest that ignores it.
func TestStop(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		deaf   bool
		params map[string]any
		ends   seedbed.JobState
		says   string
		calls  string
	}{
		{"listens", false, nil, seedbed.JobSucceeded, "the guest has shut down", "ShutdownDomain DestroyDomain"},
		{"listens, softly", false, map[string]any{"soft": true}, seedbed.JobSucceeded, "the guest has shut down", "ShutdownDomain DestroyDomain"},
		{"by force", false, map[string]any{"force": true}, seedbed.JobSucceeded, "not asked to shut down", "DestroyDomain"},
		{"deaf", true, nil, seedbed.JobSucceeded, "has not shut down within 500ms: it is switched off", "ShutdownDomain ShutdownDomain"},
		{"deaf, with its own grace", true, map[string]any{"grace": "1s"}, seedbed.JobSucceeded,
			"not shut down within 1s: it is switched off", "ShutdownDomain ShutdownDomain"},
		{"deaf, softly", true, map[string]any{"soft": true}, seedbed.JobRolledBack, "was not switched off", "ShutdownDomain ShutdownDomain"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t).withProfile(seedbed.ReadyStarted)
			inst := l.made()
			l.hv.SetDeaf(inst.ID, test.deaf)
			l.tune = func(c *engine.Config, _ *engine.Intervals) { c.StageTimeout["shutdown"] = 20 * time.Second }
			if test.deaf {
				l.tune = func(c *engine.Config, _ *engine.Intervals) { c.StageTimeout["shutdown"] = 500 * time.Millisecond }
			}
			calls := l.calls()
			job := l.runUntil(l.ask(seedbed.DoStop, test.params), test.ends)
			if h := l.history(job.ID); !strings.Contains(h, test.says) {
				t.Errorf("history:\n%s", h)
			}
			if got := calls(); !strings.HasPrefix(got, test.calls) {
				t.Errorf("asked for %s; want first %s", got, test.calls)
			}
			if test.ends == seedbed.JobSucceeded {
				l.domain(inst.ID, seedbed.DomainOff)
				return
			}
			l.up("web1")
			if strings.Contains(calls(), "Destroy") {
				t.Errorf("asked for %s", calls())
			}
			page, err := l.db.FeedPage(t.Context(), testNode, 0, "")
			l.ok(err)
			if a := feedtest.Changes(t, page)[0].Guest.Action; a != "" {
				t.Errorf("it is told %q", a)
			}
		})
	}
}

// TestStopWithoutAnswers checks that a guest that ignores requests is switched off even if its
// agent never answers or the worker is away for a while.
func TestStopWithoutAnswers(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(context.Context) error{
		"agent": func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		"worker": func(context.Context) error {
			return seedbed.Errorf(seedbed.ErrUnavailable, "the worker does not answer")
		},
		"refused": func(context.Context) error { return seedbed.Errorf(seedbed.ErrInUse, "the domain is paused") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t).withProfile(seedbed.ReadyStarted)
			inst := l.made()
			l.hv.SetDeaf(inst.ID, true)
			l.tune = func(c *engine.Config, p *engine.Intervals) {
				c.StageTimeout["shutdown"], p.Call = 2*time.Second, 3*time.Second
			}
			asked := 0
			l.hv.Fail(func(ctx context.Context, effect string, at drivertest.Point) error {
				if asked++; effect == "ShutdownDomain" && at == drivertest.Before && asked < 4 {
					return answer(ctx)
				}
				return nil
			})
			id := l.ask(seedbed.DoStop, nil)
			l.runUntil(id, seedbed.JobSucceeded)
			l.domain(inst.ID, seedbed.DomainOff)
			if h := l.history(id); !strings.Contains(h, "it is switched off") {
				t.Errorf("history:\n%s", h)
			}
		})
	}
}

func TestPowerRefused(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	l.made()
	for name, test := range map[string]struct {
		action string
		params map[string]any
		says   string
	}{
		"force and soft":  {seedbed.DoStop, map[string]any{"force": true, "soft": true}, "cannot be combined with soft or grace"},
		"force and grace": {seedbed.DoReboot, map[string]any{"force": true, "grace": "5s"}, "cannot be combined with soft or grace"},
		"no duration":     {seedbed.DoStop, map[string]any{"grace": 5}, "grace"},
		"too long":        {seedbed.DoStop, map[string]any{"grace": "2h"}, "1h"},
		"no boolean":      {seedbed.DoStop, map[string]any{"force": "yes"}, "force is a string"},
		"unknown":         {seedbed.DoStop, map[string]any{"vcpus": 2}, `"vcpus" is unknown`},
		"of a start":      {seedbed.DoStart, map[string]any{"force": true}, "has no params"},
		"tags":            {seedbed.DoRebuild, map[string]any{"tags": map[string]any{"a": "b"}}, "tags"},
	} {
		_, err := l.intake.Submit(t.Context(), seedbed.Request{Action: test.action, Name: "web1", Params: test.params}, nil)
		l.want(name, err, seedbed.ErrInvalid)
		if err != nil && !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v; want %q", name, err, test.says)
		}
	}
}

// TestReboot checks that a reboot is announced as one, and ends with the instance running.
func TestReboot(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	inst := l.made()
	var told []string
	l.hv.Fail(func(ctx context.Context, effect string, at drivertest.Point) error {
		if at == drivertest.Before {
			page, err := l.db.FeedPage(ctx, testNode, 0, "")
			if err != nil || len(page.Changes) != 1 {
				return fmt.Errorf("feed %v, %w", page.Changes, err)
			}
			told = append(told, effect+" "+feedtest.Changes(t, page)[0].Guest.Action)
		}
		return nil
	})
	l.runUntil(l.ask(seedbed.DoReboot, nil), seedbed.JobSucceeded)
	if d := cmp.Diff([]string{"ShutdownDomain reboot", "DestroyDomain reboot", "StartDomain "}, told); d != "" {
		t.Error(d)
	}
	l.hv.Fail(nil)
	l.up("web1")
	l.domain(inst.ID, seedbed.DomainRunning)
}

// TestRebootUndone checks that a reboot that at first cannot start the domain brings it back, and
// that a cancelled one leaves it as it was.
func TestRebootUndone(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	inst := l.made()
	failed := false
	l.hv.Fail(func(_ context.Context, effect string, at drivertest.Point) error {
		if effect == "StartDomain" && at == drivertest.Before && !failed {
			failed = true
			return seedbed.Errorf(seedbed.ErrForbidden, "not now")
		}
		return nil
	})
	l.runUntil(l.ask(seedbed.DoReboot, nil), seedbed.JobRolledBack)
	l.up("web1")
	l.hv.Fail(nil)
	l.hv.SetDeaf(inst.ID, true)
	id := l.ask(seedbed.DoReboot, nil)
	p := l.start()
	l.eventually("the guest to be asked", func() bool { return strings.Contains(l.history(id), "is asked to shut down") })
	l.ok(l.db.CancelJob(t.Context(), id))
	l.wait(id, seedbed.JobRolledBack)
	p.stop()
	l.up("web1")
}

// TestRebootOfWhatIsGone checks that the instance cannot be restored if its domain is gone.
func TestRebootOfWhatIsGone(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	inst := l.made()
	l.hv.Forget(inst.ID)
	job := l.runUntil(l.ask(seedbed.DoReboot, nil), seedbed.JobIncomplete)
	if h := l.history(job.ID); !strings.Contains(h, "left behind: stop: ") {
		t.Errorf("history:\n%s", h)
	}
}

// TestKillWhileRebooting covers what the matrix omits.
func TestKillWhileRebooting(t *testing.T) {
	t.Parallel()
	for _, at := range []deathPoint{{"refresh", ""}, {"finish", ""}} {
		for _, point := range points {
			t.Run(fmt.Sprintf("%s %s %s", point, at.what, at.stage), func(t *testing.T) {
				t.Parallel()
				l := newLab(t).withProfile(seedbed.ReadyStarted)
				l.made()
				l.die(l.ask(seedbed.DoReboot, nil), at, point, seedbed.JobSucceeded)
				l.up("web1")
			})
		}
	}
}
