package provision

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"seedbed"
	"seedbed/provision/effects"
	"seedbed/provision/engine"
	"seedbed/provision/plans"
	"seedbed/provision/worker/drivertest"
)

// TestDefinitionsChangeMeanwhile checks that a job uses what existed when it was accepted, even if
// that changes or is removed while the job runs.
func TestDefinitionsChangeMeanwhile(t *testing.T) {
	t.Parallel()
	t.Run("profile", func(t *testing.T) {
		t.Parallel()
		l := newLab(t).withProfile(seedbed.ReadyMetadata)
		was, err := l.db.Profile(t.Context(), "small")
		l.ok(err)
		id := l.create("web1")
		l.midway(func(ctx context.Context) {
			_, err := l.db.ChangeProfile(ctx, "small", func(p *seedbed.Profile) error {
				p.VCPUs, p.Memory, p.UserData, p.Ready = 7, 7*seedbed.GiB, []byte("#cloud-config\nruncmd: [other]\n"), seedbed.ReadyReport
				return nil
			})
			l.ok(err)
			l.ok(l.db.DeleteProfile(ctx, "small"))
		})
		l.runUntil(id, seedbed.JobSucceeded)
		l.up("web1")
		inst, err := l.db.InstanceByName(t.Context(), seedbed.InDefault("web1"))
		l.ok(err)
		if spec, _ := l.hv.Spec(inst.ID); spec.VCPUs != was.VCPUs || spec.Memory != was.Memory ||
			inst.Ready != was.Ready || !strings.Contains(string(inst.UserData), "echo hi") {
			t.Errorf("domain %+v of instance %+v", spec, inst)
		}
		l.invariants(id)
	})
	t.Run("templates", func(t *testing.T) {
		t.Parallel()
		l := newLab(t).withProvisioner()
		id := l.compose("web1", true)
		l.midway(func(ctx context.Context) {
			l.ok(l.db.DeleteProfile(ctx, "web"))
			l.ok(l.db.DeleteSystemTemplate(ctx, "small"))
			l.ok(l.db.DeleteStorageTemplate(ctx, "root"))
			l.ok(l.db.DeleteNetworkTemplate(ctx, "lan"))
			l.ok(l.db.DeleteUserData(ctx, "cloud"))
		})
		l.runUntil(id, seedbed.JobSucceeded)
		inst, err := l.db.InstanceByName(t.Context(), seedbed.InDefault("web1"))
		l.ok(err)
		if spec, _ := l.hv.Spec(inst.ID); spec.VCPUs != 2 || spec.Memory != 512*seedbed.MiB || len(spec.Disks) != 2 || len(spec.NICs) != 2 {
			t.Errorf("domain %+v", spec)
		}
	})
}

// midway makes do run before the first effect of a job.
func (l *lab) midway(do func(context.Context)) {
	done := false
	l.pool.Fail(func(ctx context.Context, _ string, at drivertest.Point) error {
		if at == drivertest.Before && !done {
			done = true
			do(ctx)
		}
		return nil
	})
}

// deafHost is a worker whose events are lost, except the first, which says that some may have been
// missed.
type deafHost struct{ *host }

func (h deafHost) Do(ctx context.Context, x effects.Exchange) (json.RawMessage, error) {
	if event := x.Event; event != nil {
		x.Event = func(e seedbed.DomainEvent) {
			if e.Event == "resync" {
				event(e)
			}
		}
	}
	return h.host.Do(ctx, x)
}

// TestLostEvents checks that a resync finds what no event reported.
func TestLostEvents(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyReport)
	l.worker = deafHost{l.host}
	l.tune = func(_ *engine.Config, p *engine.Intervals) {
		p.Resync, p.Domain = 20*time.Millisecond, 20*time.Millisecond
	}
	p := l.start()
	l.wait(l.create("web1"), seedbed.JobSucceeded)
	inst, err := l.db.InstanceByName(t.Context(), seedbed.InDefault("web1"))
	l.ok(err)
	for _, now := range []struct {
		domain seedbed.DomainState
		want   seedbed.InstanceState
	}{{seedbed.DomainOff, seedbed.InstanceStopped}, {seedbed.DomainRunning, seedbed.InstanceRunning},
		{seedbed.DomainCrashed, seedbed.InstanceStopped}} {
		l.hv.SetState(inst.ID, now.domain, "lost")
		l.eventually(string(now.want), func() bool {
			i, err := l.db.Instance(t.Context(), inst.ID)
			return err == nil && i.State == now.want
		})
	}
	// A job also notices that its guest went off.
	l.mute.Store(true)
	id := l.create("web2")
	l.eventually("ready stage", func() bool { return strings.Contains(l.history(id), "waiting until") })
	second, err := l.db.InstanceByName(t.Context(), seedbed.InDefault("web2"))
	l.ok(err)
	l.hv.SetState(second.ID, seedbed.DomainOff, "lost")
	if job := l.wait(id, seedbed.JobRolledBack); !strings.Contains(job.Error, "went off") {
		t.Errorf("error %q", job.Error)
	}
	p.stop()
}

// TestWhatARollbackLeft checks that what a rollback had to leave is removed with the instance, and
// that nothing is left then.
func TestWhatARollbackLeft(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyMetadata)
	id := l.create("web1")
	l.hv.Fail(func(_ context.Context, name string, at drivertest.Point) error {
		switch {
		case name == "StartDomain" && at == drivertest.Before:
			return seedbed.Errorf(seedbed.ErrForbidden, "network sb0 is missing")
		case name == "UndefineDomain" && at == drivertest.Before:
			return seedbed.Errorf(seedbed.ErrForbidden, "no")
		}
		return nil
	})
	job := l.runUntil(id, seedbed.JobIncomplete)
	if !strings.Contains(job.Error, "network sb0 is missing") {
		t.Errorf("the cause is not shown: %q", job.Error)
	}
	l.hv.Fail(nil)
	l.invariants(id)
	removal := l.remove("web1")
	l.runUntil(removal, seedbed.JobSucceeded)
	l.invariants(id, removal)
	l.nothing("web1")
}

// TestCancelWhileUndoing checks that cancelling a job that is already being undone changes nothing.
func TestCancelWhileUndoing(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	id := l.create("web1")
	var asked atomic.Int32
	l.hv.Fail(func(_ context.Context, name string, at drivertest.Point) error {
		switch {
		case name == "StartDomain" && at == drivertest.Before:
			return seedbed.Errorf(seedbed.ErrForbidden, "no")
		case name == "UndefineDomain":
			asked.Add(1)
			return l.db.CancelJob(context.Background(), id)
		}
		return nil
	})
	job := l.runUntil(id, seedbed.JobRolledBack)
	if asked.Load() != 2 || job.Error != "stage start: start domain web1: no" {
		t.Errorf("asked %d times, %+v", asked.Load(), job)
	}
	l.hv.Fail(nil)
	l.invariants(id)
	l.nothing("web1")
}

// TestTwoWorkers checks that if two engines look for work at the same time, each job runs in only
// one.
func TestTwoWorkers(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyMetadata)
	var jobs []seedbed.JobID
	for n := range 8 {
		jobs = append(jobs, l.create(fmt.Sprintf("web%d", n)))
	}
	p, q := l.start(), l.start()
	for _, id := range jobs {
		if job := l.wait(id, seedbed.JobSucceeded); job.Epoch != 1 {
			t.Errorf("job %s was held %d times", id, job.Epoch)
		}
	}
	p.stop()
	q.stop()
	l.invariants(jobs...)
}

// TestDatabaseFull checks that jobs stop while nothing can be written, and continue when it can.
func TestDatabaseFull(t *testing.T) {
	t.Parallel()
	for _, s := range plans.Of(&seedbed.Job{Kind: seedbed.JobCreate}).Stages {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t).withProfile(seedbed.ReadyMetadata)
			l.lease = time.Second
			id := l.create("web1")
			var full atomic.Bool
			var refused atomic.Int32
			p := l.start(func(p *process) {
				p.store.fail(func(write, of string, at drivertest.Point) error {
					if write == "step" && of == s.Name && at == drivertest.Before && refused.Load() == 0 {
						full.Store(true)
					}
					if full.Load() && at == drivertest.Before {
						refused.Add(1)
						return seedbed.Errorf(seedbed.ErrUnavailable, "the disk that holds the database is full")
					}
					return nil
				})
			})
			l.eventually("writes that are refused", func() bool { return refused.Load() > 5 })
			full.Store(false)
			l.wait(id, seedbed.JobSucceeded)
			p.stop()
			l.invariants(id)
			l.up("web1")
		})
	}
}

// TestPoolFull checks that a pool without room causes a clean failure.
func TestPoolFull(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"create", "create scripted", "import", "rebuild", "rebuild scripted"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t).withProfile(seedbed.ReadyMetadata)
			a := caseOf(name).begin(l)
			l.pool.SetFull(true)
			l.runUntil(a.id, seedbed.JobRolledBack)
			l.pool.SetFull(false)
			a.undone()
		})
	}
}

// TestHypervisorRestarts checks that a hypervisor that disappears during an effect, and is away for
// a while, only costs time: what it did before is found again.
func TestHypervisorRestarts(t *testing.T) {
	t.Parallel()
	for _, effect := range []string{"DefineDomain", "StartDomain", "DestroyDomain", "UndefineDomain"} {
		for _, point := range points {
			t.Run(fmt.Sprintf("%s %s", point, effect), func(t *testing.T) {
				t.Parallel()
				l := newLab(t).withProfile(seedbed.ReadyMetadata)
				id, ends := l.create("web1"), func() { l.up("web1") }
				if effect == "DestroyDomain" || effect == "UndefineDomain" {
					l.runUntil(id, seedbed.JobSucceeded)
					id, ends = l.remove("web1"), func() { l.nothing("web1") }
				}
				away := seedbed.Errorf(seedbed.ErrUnavailable, "libvirt does not answer")
				var gone atomic.Bool
				l.hv.Fail(func(_ context.Context, name string, at drivertest.Point) error {
					if name == effect && at == point && gone.CompareAndSwap(false, true) {
						l.hv.SetDown(away)
						return away
					}
					return nil
				})
				p := l.start()
				l.eventually("tries in vain", func() bool { return gone.Load() && strings.Contains(l.history(id), "trying again") })
				l.hv.SetDown(nil)
				l.wait(id, seedbed.JobSucceeded)
				p.stop()
				l.hv.Fail(nil)
				l.invariants(id)
				ends()
			})
		}
	}
}
