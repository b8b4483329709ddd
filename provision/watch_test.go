package provision

import (
	"testing"
	"time"

	"seedbed"
	"seedbed/provision/engine"
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
			inst, err := l.db.InstanceByName(t.Context(), "web1")
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
