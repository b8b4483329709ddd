package provision

import (
	"testing"
	"time"

	"seedbed"
)

func TestFollowDomains(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		pace func(*intervals)
	}{
		{"by events", func(p *intervals) { p.resync = time.Hour }},
		{"by inventory", func(p *intervals) { p.resync = 20 * time.Millisecond }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t).withProfile(seedbed.ReadyStarted)
			l.tune = func(_ *Config, p *intervals) { tt.pace(p) }
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

// TestLooksAfterJob checks that a check of a domain that was skipped because of a job is made when
// the job ends, and no other.
func TestLooksAfterJob(t *testing.T) {
	t.Parallel()
	const id = seedbed.InstanceID("ec2f1c5e-7b1a-4c3d-9e8f-0123456789ab")
	w := newDomainWatch()
	n := w.open(testNode)
	due := func(want int) {
		t.Helper()
		if len(n.events) != want {
			t.Fatalf("%d looks are due; want %d", len(n.events), want)
		}
		for range want {
			<-n.events
		}
	}
	w.busy(id, testNode, true)
	w.tell(testNode, seedbed.DomainEvent{ID: id, Event: "defined"})
	w.busy(id, testNode, false)
	due(0)
	w.busy(id, testNode, true)
	w.tell(testNode, seedbed.DomainEvent{ID: id, Event: "shutdown"})
	due(1)
	if !w.leavesOut(id) {
		t.Error("a domain is looked at while its job is in hand")
	}
	w.busy(id, testNode, false)
	due(1)
	if w.leavesOut(id) {
		t.Error("a domain is not looked at although its job has ended")
	}
	w.busy(id, testNode, true)
	w.busy(id, testNode, false)
	due(0)
}
