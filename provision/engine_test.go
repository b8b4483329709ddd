package provision

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"seedbed"
	"seedbed/provision/engine"
	"seedbed/provision/worker/drivertest"
)

func TestCreateAndRemove(t *testing.T) {
	t.Parallel()
	for _, ready := range []seedbed.Ready{seedbed.ReadyReport, seedbed.ReadyMetadata, seedbed.ReadyStarted} {
		t.Run(string(ready), func(t *testing.T) {
			t.Parallel()
			l := newLab(t).withProfile(ready)
			job := l.runUntil(l.create("web1"), seedbed.JobSucceeded)
			if job.Done != 5 || job.Total != 5 || job.Error != "" {
				t.Errorf("job %+v", job)
			}
			l.up("web1")
			inst, err := l.db.InstanceByName(t.Context(), seedbed.InDefault("web1"))
			l.ok(err)
			if ready == seedbed.ReadyReport && inst.Reported.IsZero() || ready == seedbed.ReadyMetadata && inst.Fetched.IsZero() {
				t.Errorf("ended before the guest was ready: %+v", inst)
			}
			l.runUntil(l.remove("web1"), seedbed.JobSucceeded)
			l.nothing("web1")
		})
	}
}

func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyMetadata)
	var jobs []seedbed.JobID
	for _, name := range strings.Fields("a b c d e f") {
		jobs = append(jobs, l.create(name))
	}
	p, q := l.start(), l.start()
	for _, id := range jobs {
		l.wait(id, seedbed.JobSucceeded)
	}
	p.stop()
	q.stop()
	for _, id := range jobs {
		l.invariants(id)
	}
}

func TestImport(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	receipt, err := l.intake.Import(t.Context(), "debian", "default", seedbed.ImportSpec{Path: l.imageFile()}, usual)
	l.ok(err)
	l.runUntil(receipt.Job, seedbed.JobSucceeded)
	image, err := l.db.Image(t.Context(), "debian")
	l.ok(err)
	if image.State != seedbed.ImageActive || image.Size == 0 || image.SHA256 == "" {
		t.Errorf("image %+v", image)
	}
	receipt, err = l.intake.Import(t.Context(), "none", "default", seedbed.ImportSpec{Path: "/does/not/exist"}, usual)
	l.ok(err)
	job := l.runUntil(receipt.Job, seedbed.JobRolledBack)
	if !strings.Contains(job.Error, "stage import: import /does/not/exist: there is no file") {
		t.Errorf("error %q", job.Error)
	}
	_, err = l.intake.Import(t.Context(), "none", "default", seedbed.ImportSpec{Path: l.imageFile()}, usual)
	l.ok(err) // the name is free again
}

// TestPermanentFailure makes every effect of a create job fail, before and after it has happened.
// Everything must be undone and every claim released.
func TestPermanentFailure(t *testing.T) {
	t.Parallel()
	for _, effect := range []string{"CloneVolume", "DefineDomain", "publish", "StartDomain"} {
		for _, point := range []drivertest.Point{drivertest.Before, drivertest.After} {
			t.Run(effect+"/"+string(point), func(t *testing.T) {
				t.Parallel()
				l := newLab(t).withProfile(seedbed.ReadyMetadata)
				id := l.create("web1")
				boom := seedbed.Errorf(seedbed.ErrFull, "boom")
				l.failEffect(effect, point, boom)
				p := l.start(func(p *process) {
					p.store.fail(func(write, _ string, at drivertest.Point) error {
						if write == effect && at == point {
							return boom
						}
						return nil
					})
				})
				job := l.wait(id, seedbed.JobRolledBack)
				p.stop()
				if !strings.Contains(job.Error, "boom") || !strings.HasPrefix(job.Error, "stage ") {
					t.Errorf("error %q", job.Error)
				}
				l.invariants(id)
				l.nothing("web1")
			})
		}
	}
}

// failEffect makes one effect of the drivers fail.
func (l *lab) failEffect(effect string, point drivertest.Point, err error) {
	hook := func(_ context.Context, name string, at drivertest.Point) error {
		if name == effect && at == point {
			return err
		}
		return nil
	}
	l.pool.Fail(hook)
	l.hv.Fail(hook)
}

// TestForeign checks that foreign resources that are in the way are not touched.
func TestForeign(t *testing.T) {
	t.Parallel()
	t.Run("volume", func(t *testing.T) {
		t.Parallel()
		l := newLab(t).withProfile(seedbed.ReadyStarted)
		id := l.create("web1")
		inst, err := l.db.InstanceByName(t.Context(), seedbed.InDefault("web1"))
		l.ok(err)
		l.pool.AddForeign(inst.Volumes[0].Name)
		l.runUntil(id, seedbed.JobRolledBack)
		if err := l.pool.RemoveVolume(t.Context(), inst.Volumes[0].Name, inst.ID); err == nil {
			t.Error("the foreign volume is gone")
		}
		l.nothing("web1")
	})
	t.Run("domain", func(t *testing.T) {
		t.Parallel()
		l := newLab(t).withProfile(seedbed.ReadyStarted)
		foreign := seedbed.NewInstanceID()
		l.hv.AddForeign(foreign, "web1")
		l.runUntil(l.create("web1"), seedbed.JobRolledBack)
		if _, there := l.hv.Spec(foreign); !there {
			t.Error("the foreign domain is gone")
		}
		l.nothing("web1")
	})
}

func TestUnavailableIsRetried(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	var calls atomic.Int32
	l.hv.Fail(func(_ context.Context, name string, at drivertest.Point) error {
		if name == "DefineDomain" && at == drivertest.Before && calls.Add(1) <= 3 {
			return seedbed.Errorf(seedbed.ErrUnavailable, "libvirt does not answer")
		}
		return nil
	})
	id := l.create("web1")
	job := l.runUntil(id, seedbed.JobSucceeded)
	l.up("web1")
	if h := l.history(id); strings.Count(h, "libvirt does not answer; trying again") != 1 || job.Epoch != 1 {
		t.Errorf("epoch %d, history:\n%s", job.Epoch, h)
	}
}

func TestTimeouts(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, stage, want string
		prepare           func(*lab)
	}{
		{"guest plane is down", "publish", "stage publish: seedbed-metadata on node node1 has not applied revision 1 (gave up after",
			func(l *lab) { l.deaf.Store(true) }},
		{"guest is silent", "ready", "stage ready: waited in vain until the guest reports in", func(l *lab) { l.mute.Store(true) }},
		{"worker is down", "volumes", "no worker (gave up after", func(l *lab) {
			var calls atomic.Int32
			l.pool.Fail(func(_ context.Context, name string, _ drivertest.Point) error {
				if name == "CloneVolume" && calls.Add(1) < 1<<20 {
					return seedbed.Errorf(seedbed.ErrUnavailable, "no worker")
				}
				return nil
			})
		}},
		{"call hangs", "volumes", "no end after", func(l *lab) {
			l.pool.Fail(func(ctx context.Context, name string, _ drivertest.Point) error {
				if name == "CloneVolume" {
					<-ctx.Done()
					return ctx.Err()
				}
				return nil
			})
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t).withProfile(seedbed.ReadyReport)
			tt.prepare(l)
			l.tune = func(c *engine.Config, p *engine.Intervals) {
				c.StageTimeout[tt.stage], p.Retract = time.Second, 100*time.Millisecond
			}
			job := l.runUntil(l.create("web1"), seedbed.JobRolledBack)
			if !strings.Contains(job.Error, tt.want) {
				t.Errorf("error %q; want %q", job.Error, tt.want)
			}
			l.nothing("web1")
		})
	}
}

func TestGuestGoesAway(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, want string
		strike     func(*lab, seedbed.InstanceID)
	}{
		{"off", "went off before it was ready", func(l *lab, id seedbed.InstanceID) { l.hv.SetState(id, seedbed.DomainOff, "shutdown") }},
		{"crashed", "crashed before it was ready", func(l *lab, id seedbed.InstanceID) { l.hv.SetState(id, seedbed.DomainCrashed, "crashed") }},
		{"removed", "removed by someone else", func(l *lab, id seedbed.InstanceID) { l.hv.Forget(id) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t).withProfile(seedbed.ReadyReport)
			l.mute.Store(true)
			l.tune = func(_ *engine.Config, p *engine.Intervals) { p.Domain = time.Hour } // the event must suffice
			id := l.create("web1")
			p := l.start()
			l.eventually("ready stage", func() bool { return strings.Contains(l.history(id), "waiting until the guest reports in") })
			inst, err := l.db.InstanceByName(t.Context(), seedbed.InDefault("web1"))
			l.ok(err)
			tt.strike(l, inst.ID)
			job := l.wait(id, seedbed.JobRolledBack)
			p.stop()
			if !strings.Contains(job.Error, tt.want) {
				t.Errorf("error %q; want %q", job.Error, tt.want)
			}
			l.nothing("web1")
		})
	}
}

// TestGuestDiesAtOnce checks that a guest that is gone right after its start fails the job, even if
// the job does not wait for the guest.
func TestGuestDiesAtOnce(t *testing.T) {
	t.Parallel()
	for _, state := range []seedbed.DomainState{seedbed.DomainOff, seedbed.DomainCrashed} {
		for _, name := range []string{"create", "create scripted", "start", "reboot", "rebuild"} {
			t.Run(name+" "+string(state), func(t *testing.T) {
				t.Parallel()
				l := newLab(t).withProfile(seedbed.ReadyStarted)
				a := caseOf(name).begin(l)
				inst := l.byName("web1")
				var died atomic.Bool
				l.hv.Fail(func(_ context.Context, name string, at drivertest.Point) error {
					if name == "StartDomain" && at == drivertest.After && died.CompareAndSwap(false, true) {
						l.hv.SetState(inst.ID, state, "stopped")
					}
					return nil
				})
				job := l.runUntil(a.id, seedbed.JobRolledBack)
				if !strings.HasPrefix(job.Error, "stage start: the guest of domain web1 ") || !strings.Contains(job.Error, "seedbed vm log web1") {
					t.Errorf("error %q", job.Error)
				}
				a.undone()
			})
		}
	}
}

func TestPanic(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	var once sync.Once
	l.hv.Fail(func(_ context.Context, name string, at drivertest.Point) error {
		if name == "StartDomain" && at == drivertest.After {
			once.Do(func() { panic("a bug") })
		}
		return nil
	})
	id := l.create("web1")
	job := l.runUntil(id, seedbed.JobRolledBack)
	if h := l.history(id); job.Error != "stage start: panic: a bug" || !strings.Contains(h, "(*task).startDomain") {
		t.Errorf("error %q, history:\n%s", job.Error, h)
	}
	l.nothing("web1")
}

// TestRemoveFailure checks that a removal is retried, then fails, and can be requested again.
func TestRemoveFailure(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	l.runUntil(l.create("web1"), seedbed.JobSucceeded)
	l.tune = func(c *engine.Config, _ *engine.Intervals) { c.Attempts = 3 }
	var calls atomic.Int32
	l.pool.Fail(func(_ context.Context, name string, at drivertest.Point) error {
		if name == "TrashVolume" && at == drivertest.Before {
			calls.Add(1)
			return seedbed.Errorf(seedbed.ErrConflict, "not ours")
		}
		return nil
	})
	job := l.runUntil(l.remove("web1"), seedbed.JobFailed)
	inst, err := l.db.InstanceByName(t.Context(), seedbed.InDefault("web1"))
	l.ok(err)
	if !strings.Contains(job.Error, "stage delete: remove volume") || inst.State != seedbed.InstanceFailed || calls.Load() != 3 {
		t.Errorf("error %q, instance %s, %d calls", job.Error, inst.State, calls.Load())
	}
	l.pool.Fail(nil)
	l.runUntil(l.remove("web1"), seedbed.JobSucceeded)
	l.nothing("web1")
}
