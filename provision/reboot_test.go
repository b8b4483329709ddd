package provision

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"seedbed"
	"seedbed/provision/engine"
	"seedbed/provision/failover"
)

// TestRestartAfterReboot reboots a node whose instances are to run always. The one that ran is started again, once, and those are not
// that its guest or an operator had stopped, or whose restart is never.
func TestRestartAfterReboot(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	f := l.withOther(true)
	l.tune = func(_ *engine.Config, p *engine.Intervals) { p.Resync = 20 * time.Millisecond }
	w := failover.New(failover.Config{Log: slog.New(slog.DiscardHandler),
		Submit: func(ctx context.Context, req seedbed.Request) (seedbed.Receipt, error) {
			return l.intake.Submit(ctx, req, nil)
		},
	}, l.db, failoverWorkers{f})
	boots := func(boot string) { // and says so to the control host
		l.host.boot.Store(&boot)
		report := f.list[0].Report
		report.Boot = boot
		l.ok(l.db.NoteNode(t.Context(), testNode, report, "", time.Now()))
	}
	looks := func() {
		l.ok(w.Look(t.Context(), time.Now()))
		f.setBoot(testNode, l.fenced(testNode).Boot)
	}
	boots("1")
	looks()
	if got := l.fenced(testNode).Boot; got != "1" {
		t.Fatalf("the recorded boot is %q", got)
	}
	always := seedbed.RestartAlways
	of := map[string]seedbed.InstanceID{}
	for _, name := range []string{"ran", "off", "stopped", "never"} {
		of[name] = l.runsOn(name, testNode).ID
		if name != "never" {
			l.runUntil(l.job(l.intake.Set(t.Context(), seedbed.InDefault(name), seedbed.HardwareChange{Restart: &always}, usual)),
				seedbed.JobSucceeded)
		}
	}
	l.runUntil(l.job(l.intake.Submit(t.Context(), seedbed.Request{Action: seedbed.DoStop, Name: "stopped"}, nil)), seedbed.JobSucceeded)
	p := l.start()
	defer p.stop()
	is := func(name string, want seedbed.InstanceState) {
		t.Helper()
		l.eventually(name+" is "+string(want), func() bool {
			now, err := l.db.Instance(t.Context(), of[name])
			l.ok(err)
			return now.State == want
		})
	}
	l.hv.SetState(of["off"], seedbed.DomainOff, "shutdown")
	is("off", seedbed.InstanceStopped)

	boots("2")
	for _, id := range of {
		l.hv.SetState(id, seedbed.DomainOff, "stopped")
	}
	is("never", seedbed.InstanceStopped) // all were looked at
	is("ran", seedbed.InstanceRunning)
	for range 3 {
		looks()
	}
	l.eventually("ran runs", func() bool {
		info, err := l.hv.DomainState(t.Context(), of["ran"])
		l.ok(err)
		return info.State == seedbed.DomainRunning
	})
	is("off", seedbed.InstanceStopped)
	is("stopped", seedbed.InstanceStopped)
	is("never", seedbed.InstanceStopped)
	starts := 0
	jobs, err := l.db.Jobs(t.Context(), 100)
	l.ok(err)
	for _, j := range jobs {
		if j.Kind == seedbed.JobStart {
			starts++
		}
	}
	if starts != 1 {
		t.Errorf("%d instances were started, want one", starts)
	}
	l.hv.SetState(of["ran"], seedbed.DomainOff, "shutdown")
	is("ran", seedbed.InstanceStopped) // its guest switched it off, since the node has its new boot
}
