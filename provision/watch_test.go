package provision

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"seedbed"
	"seedbed/provision/engine"
	"seedbed/provision/worker/drivertest"
)

func TestFollowDomains(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		pace func(*engine.Intervals)
	}{
		{"by events", func(p *engine.Intervals) { p.Resync = time.Hour }},
		{"by inventory", func(p *engine.Intervals) { p.Resync = 20 * time.Millisecond }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t).withProfile(seedbed.ReadyStarted)
			l.tune = func(_ *engine.Config, p *engine.Intervals) { tt.pace(p) }
			p := l.start()
			l.wait(l.create("web1"), seedbed.JobSucceeded)
			inst, err := l.db.InstanceByName(t.Context(), seedbed.InDefault("web1"))
			l.ok(err)
			becomes := func(want seedbed.InstanceState) {
				t.Helper()
				l.eventually("instance "+string(want), func() bool {
					now, err := l.db.Instance(t.Context(), inst.ID)
					l.ok(err)
					return now.State == want
				})
			}
			l.hv.SetState(inst.ID, seedbed.DomainOff, "shutdown")
			becomes(seedbed.InstanceStopped)
			l.hv.SetState(inst.ID, seedbed.DomainRunning, "started")
			becomes(seedbed.InstanceRunning)
			l.hv.SetState(inst.ID, seedbed.DomainCrashed, "crashed")
			becomes(seedbed.InstanceStopped)
			p.stop()
			l.hv.SetState(inst.ID, seedbed.DomainRunning, "started") // seen by the next engine's first resync
			q := l.start()
			becomes(seedbed.InstanceRunning)
			q.stop()
		})
	}
}

// TestStateOfBeforeAJob checks that what was seen of a domain is not recorded if the instance has
// changed since: a job may have started the domain in between.
func TestStateOfBeforeAJob(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	l.tune = func(_ *engine.Config, p *engine.Intervals) { p.Resync = time.Hour }
	var inst seedbed.Instance
	var seen, written atomic.Bool
	change := func(to seedbed.InstanceState) {
		for done := false; !done; { // others may write the instance in between
			now, err := l.db.Instance(t.Context(), inst.ID)
			l.ok(err)
			if done, err = l.db.SetInstanceState(t.Context(), now, to); err != nil {
				t.Errorf("to %s: %v", to, err)
				return
			}
		}
	}
	p := l.start(func(p *process) {
		p.store.fail(func(write, _ string, at drivertest.Point) error {
			switch {
			case write != "state":
			case at == drivertest.Before && seen.CompareAndSwap(false, true):
				change(seedbed.InstanceStopped)
				l.hv.SetState(inst.ID, seedbed.DomainRunning, "started")
				change(seedbed.InstanceRunning)
			case at == drivertest.After && written.CompareAndSwap(false, true):
				now, err := l.db.Instance(t.Context(), inst.ID)
				l.ok(err)
				if now.State != seedbed.InstanceRunning {
					t.Errorf("the instance is %s although its domain runs", now.State)
				}
			}
			return nil
		})
	})
	l.wait(l.create("web1"), seedbed.JobSucceeded)
	var err error
	inst, err = l.db.InstanceByName(t.Context(), seedbed.InDefault("web1"))
	l.ok(err)
	l.hv.SetState(inst.ID, seedbed.DomainOff, "shutdown")
	l.eventually("a write", written.Load)
	p.stop()
}

func (m *mortal) SetInstanceState(ctx context.Context, seen seedbed.Instance, to seedbed.InstanceState) (changed bool, err error) {
	err = m.around("state", "", func() error { changed, err = m.DB.SetInstanceState(ctx, seen, to); return err })
	return changed, err
}
