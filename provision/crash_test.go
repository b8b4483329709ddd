package provision

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"seedbed"
	"seedbed/provision/engine"
	"seedbed/provision/worker/drivertest"
)

// killAt kills p when it first reaches that point: an effect of a driver, or a write of the store,
// optionally only in one stage.
func (l *lab) killAt(p *process, what, stage string, point drivertest.Point) (reached *atomic.Bool) {
	reached = new(atomic.Bool)
	strike := func(name, of string, at drivertest.Point) error {
		if name == what && at == point && (stage == "" || stage == of) && reached.CompareAndSwap(false, true) {
			p.kill()
			return errKilled
		}
		return nil
	}
	p.store.fail(strike)
	driver := func(_ context.Context, name string, at drivertest.Point) error { return strike(name, "", at) }
	l.pool.Fail(driver)
	l.hv.Fail(driver)
	return reached
}

type deathPoint struct{ what, stage string }

// die runs a job in a process that dies at the point, and then in another until the job has ended.
func (l *lab) die(id seedbed.JobID, at deathPoint, point drivertest.Point, want seedbed.JobState) {
	l.t.Helper()
	var reached *atomic.Bool
	p := l.start(func(p *process) { reached = l.killAt(p, at.what, at.stage, point) })
	l.died(id, reached)
	p.stop()
	l.runUntil(id, want)
}

// died waits for the death of the process that works on a job.
func (l *lab) died(id seedbed.JobID, reached *atomic.Bool) {
	l.t.Helper()
	if !l.soon(reached.Load) {
		l.t.Fatalf("it does not come to its death:\n%s", l.history(id))
	}
}

var points = []drivertest.Point{drivertest.Before, drivertest.After}

// TestKillBetweenStages covers what the matrix omits: the beginning and the end of a job.
func TestKillBetweenStages(t *testing.T) {
	t.Parallel()
	for _, at := range []deathPoint{{"claim", ""}, {"step", ""}, {"finish", ""}} {
		for _, point := range points {
			t.Run(fmt.Sprintf("%s %s %s", point, at.what, at.stage), func(t *testing.T) {
				t.Parallel()
				l := newLab(t).withProfile(seedbed.ReadyMetadata)
				l.die(l.create("web1"), at, point, seedbed.JobSucceeded)
				l.up("web1")
			})
		}
	}
}

// TestKillAroundUndoing covers what the matrix omits of an undo: its beginning, and the end of the
// job.
func TestKillAroundUndoing(t *testing.T) {
	t.Parallel()
	for _, at := range []deathPoint{{"undo", ""}, {"finish", ""}} {
		for _, point := range points {
			t.Run(fmt.Sprintf("%s %s", point, at.what), func(t *testing.T) {
				t.Parallel()
				l := newLab(t).withProfile(seedbed.ReadyReport)
				l.mute.Store(true)
				l.tune = func(c *engine.Config, _ *engine.Intervals) { c.StageTimeout["ready"] = 50 * time.Millisecond }
				l.die(l.create("web1"), at, point, seedbed.JobRolledBack)
				l.nothing("web1")
			})
		}
	}
}

// TestCrashLoop checks that a stage that crashes the process is not started forever.
func TestCrashLoop(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	l.tune = func(c *engine.Config, _ *engine.Intervals) { c.Attempts = 3 }
	id := l.create("web1")
	for range 3 {
		var reached *atomic.Bool
		p := l.start(func(p *process) { reached = l.killAt(p, "DefineDomain", "", drivertest.After) })
		l.died(id, reached)
		p.stop()
	}
	l.pool.Fail(nil)
	l.hv.Fail(nil)
	job := l.runUntil(id, seedbed.JobRolledBack)
	if job.Error != "stage define: started 3 times without coming to its end" {
		t.Errorf("error %q", job.Error)
	}
	l.nothing("web1")
}

// jobLog is a log that notes that an engine has let go of a job that has not ended.
type jobLog struct{ letGo *atomic.Bool }

func (jobLog) Enabled(context.Context, slog.Level) bool { return true }
func (l jobLog) WithAttrs([]slog.Attr) slog.Handler     { return l }
func (l jobLog) WithGroup(string) slog.Handler          { return l }

func (l jobLog) Handle(_ context.Context, r slog.Record) error {
	if strings.HasPrefix(r.Message, "job ") && r.Message != "job ended" {
		l.letGo.Store(true)
	}
	return nil
}

// TestZombie stops a process during an effect for longer than its lease. Another process takes
// over, and the first writes nothing after it resumes.
func TestZombie(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"CloneVolume", "DefineDomain", "StartDomain"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			l := newLab(t).withProfile(seedbed.ReadyMetadata)
			id := l.create("web1")
			l.lease = time.Second
			thaw := make(chan struct{})
			goOn := sync.OnceFunc(func() { close(thaw) })
			t.Cleanup(goOn)
			var stopped, letGo atomic.Bool
			l.tune = func(c *engine.Config, _ *engine.Intervals) { c.Log = slog.New(jobLog{&letGo}) }
			p := l.start(func(p *process) {
				hook := func(_ context.Context, name string, point drivertest.Point) error {
					if name == at && point == drivertest.Before && stopped.CompareAndSwap(false, true) {
						p.store.frozen.Store(&thaw)
						<-thaw
					}
					return nil
				}
				l.pool.Fail(hook)
				l.hv.Fail(hook)
			})
			l.eventually("stop", stopped.Load)
			l.lease, l.tune = patientLease, func(*engine.Config, *engine.Intervals) {}
			q := l.start()
			job := l.wait(id, seedbed.JobSucceeded)
			events := l.history(id)
			goOn() // the effect, and the writes that waited
			l.eventually("the zombie to let go", letGo.Load)
			p.stop()
			q.stop()
			after, err := l.db.Job(t.Context(), id)
			l.ok(err)
			if after.Epoch != job.Epoch || after.State != seedbed.JobSucceeded || l.history(id) != events {
				t.Errorf("the zombie wrote: %+v\n%s", after, l.history(id))
			}
			l.pool.Fail(nil)
			l.hv.Fail(nil)
			l.invariants(id)
			l.up("web1")
		})
	}
}

// TestLease checks that a stage may last longer than the lease, and that its context ends before
// the lease does if the lease cannot be renewed.
func TestLease(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	const lease = patientLease // the contexts end a third of it early, which is enough on a busy computer
	l.lease = lease
	id := l.create("web1")
	var renewed atomic.Int32
	var lasted, ended atomic.Int64
	l.hv.Fail(func(ctx context.Context, name string, point drivertest.Point) error {
		if name == "DefineDomain" && point == drivertest.Before && lasted.Load() == 0 {
			began := time.Now()
			<-ctx.Done()
			ended.Store(time.Now().UnixNano())
			lasted.Store(int64(time.Since(began)))
			return ctx.Err()
		}
		return nil
	})
	var last atomic.Int64
	p := l.start(func(p *process) {
		p.store.fail(func(write, _ string, point drivertest.Point) error {
			switch {
			case write != "renew":
			case renewed.Load() >= 2 && point == drivertest.Before:
				return seedbed.Errorf(seedbed.ErrUnavailable, "no database")
			case point == drivertest.After:
				renewed.Add(1)
				last.Store(time.Now().UnixNano())
			}
			return nil
		})
	})
	l.eventually("the end of the stage's context", func() bool { return lasted.Load() > 0 })
	if since := time.Duration(ended.Load() - last.Load()); since > lease {
		t.Errorf("the stage went on for %s after the last renewal", since)
	}
	if d := time.Duration(lasted.Load()); d < lease {
		t.Errorf("the stage was cut off after %s", d)
	}
	p.stop()
	l.runUntil(id, seedbed.JobSucceeded)
	l.up("web1")
}

func TestSoftStop(t *testing.T) {
	t.Parallel()
	for stage, effect := range map[string]string{"volumes": "CloneVolume", "define": "DefineDomain"} {
		t.Run(stage, func(t *testing.T) {
			t.Parallel()
			softStop(t, stage, effect)
		})
	}
}

// softStop stops an engine three times during a long effect.
func softStop(t *testing.T, stage, effect string) {
	l := newLab(t).withProfile(seedbed.ReadyMetadata)
	l.lease = time.Hour // so that a job that is not released would be noticed
	id := l.create("web1")
	for range 3 {
		reached := make(chan struct{})
		hook := func(ctx context.Context, name string, point drivertest.Point) error {
			if name == effect && point == drivertest.Before {
				close(reached)
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}
		l.pool.Fail(hook)
		l.hv.Fail(hook)
		p := l.start()
		<-reached
		p.stop()
		job, err := l.db.Job(t.Context(), id)
		l.ok(err)
		if job.State != seedbed.JobRunning || job.Stage != stage || job.Owner != "" {
			t.Fatalf("job %+v", job)
		}
		l.pool.Fail(nil)
		l.hv.Fail(nil)
	}
	var attempts int
	p := l.start(func(p *process) {
		p.store.fail(func(write, of string, point drivertest.Point) error {
			if write == "step" && of == stage && point == drivertest.Before {
				job, err := l.db.Job(context.Background(), id)
				attempts = job.Attempts
				return err
			}
			return nil
		})
	})
	l.wait(id, seedbed.JobSucceeded)
	p.stop()
	if attempts != 1 {
		t.Errorf("%d attempts were burned", attempts-1)
	}
	l.up("web1")
}

// TestCancel covers what the matrix omits: a job that has not begun, and an effect that has
// happened but whose answer is lost.
func TestCancel(t *testing.T) {
	t.Parallel()
	t.Run("queued", func(t *testing.T) {
		t.Parallel()
		l := newLab(t).withProfile(seedbed.ReadyStarted)
		id := l.create("web1")
		l.ok(l.db.CancelJob(t.Context(), id))
		l.runUntil(id, seedbed.JobRolledBack)
		l.nothing("web1")
	})
	t.Run("import", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		receipt, err := l.intake.Import(t.Context(), "debian", "default", seedbed.ImportSpec{Path: l.imageFile()}, usual)
		l.ok(err)
		l.pool.Fail(func(ctx context.Context, name string, point drivertest.Point) error {
			if name == "ImportImage" && point == drivertest.After { // the answer is lost
				l.ok(l.db.CancelJob(t.Context(), receipt.Job))
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		})
		l.runUntil(receipt.Job, seedbed.JobRolledBack)
		if images, _ := l.pool.Images(t.Context()); len(images) != 0 {
			t.Errorf("left behind: %v", images)
		}
	})
}
