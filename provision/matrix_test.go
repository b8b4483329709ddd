package provision

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"seedbed"
	"seedbed/provision/worker/drivertest"
)

// jobCase is one kind of job: what there is before, how it is asked for, and what
// is so once it has succeeded.
type jobCase struct {
	kind seedbed.JobKind
	ask  func(l *lab) (id seedbed.JobID, done func())
}

func (l *lab) submit(action string) seedbed.JobID {
	return l.ask(action, map[string]any{"force": true})
}

var jobCases = []jobCase{
	{seedbed.JobCreate, func(l *lab) (seedbed.JobID, func()) {
		return l.create("web1"), func() { l.up("web1") }
	}},
	{seedbed.JobRemove, func(l *lab) (seedbed.JobID, func()) {
		l.made()
		return l.remove("web1"), func() { l.nothing("web1") }
	}},
	{seedbed.JobImport, func(l *lab) (seedbed.JobID, func()) {
		id := l.job(l.intake.Import(l.t.Context(), "other", "default", seedbed.ImportSpec{Path: l.imageFile()}))
		return id, func() { l.hasImage("other", true) }
	}},
	{seedbed.JobStart, func(l *lab) (seedbed.JobID, func()) {
		l.made()
		l.runUntil(l.submit(seedbed.DoStop), seedbed.JobSucceeded)
		return l.ask(seedbed.DoStart, nil), func() { l.up("web1") }
	}},
	{seedbed.JobStop, func(l *lab) (seedbed.JobID, func()) {
		inst := l.made()
		return l.ask(seedbed.DoStop, nil), func() { l.domain(inst.ID, seedbed.DomainOff) }
	}},
	{seedbed.JobReboot, func(l *lab) (seedbed.JobID, func()) {
		l.made()
		return l.ask(seedbed.DoReboot, nil), func() { l.up("web1") }
	}},
	{seedbed.JobRebuild, func(l *lab) (seedbed.JobID, func()) {
		was := l.made()
		return l.ask(seedbed.DoRebuild, nil), func() { l.rebuilt(was) }
	}},
	{seedbed.JobResize, func(l *lab) (seedbed.JobID, func()) {
		inst := l.stopped()
		return l.resize(seedbed.ResizeRequest{Size: 8 * seedbed.MiB, VCPUs: 3, Memory: seedbed.GiB}), func() { l.hasSize(inst.ID, 8*seedbed.MiB, 3, seedbed.GiB) }
	}},
	{seedbed.JobFlatten, func(l *lab) (seedbed.JobID, func()) {
		inst := l.off()
		return l.job(l.intake.Flatten(l.t.Context(), "web1")), func() {
			now, err := l.db.Instance(l.t.Context(), inst.ID)
			l.ok(err)
			if now.Volumes[0].Image != "" {
				l.t.Errorf("volume %+v", now.Volumes[0])
			}
			l.domain(inst.ID, seedbed.DomainOff)
		}
	}},
	{seedbed.JobSnapshot, func(l *lab) (seedbed.JobID, func()) {
		inst := l.made()
		return l.job(l.intake.Snapshot(l.t.Context(), "web1", "s1")), func() { l.snapshots(inst, "s1") }
	}},
	{seedbed.JobSnapshotRemove, func(l *lab) (seedbed.JobID, func()) {
		inst := l.made()
		l.runUntil(l.job(l.intake.Snapshot(l.t.Context(), "web1", "s1")), seedbed.JobSucceeded)
		return l.job(l.intake.RemoveSnapshot(l.t.Context(), "web1", "s1")), func() { l.snapshots(inst) }
	}},
	{seedbed.JobImageRemove, func(l *lab) (seedbed.JobID, func()) {
		l.runUntil(l.job(l.intake.Import(l.t.Context(), "other", "default", seedbed.ImportSpec{Path: l.imageFile()})), seedbed.JobSucceeded)
		return l.job(l.intake.RemoveImage(l.t.Context(), "other")), func() { l.hasImage("other", false) }
	}},
	{seedbed.JobOVA, func(l *lab) (seedbed.JobID, func()) {
		return l.withOVAScript().importOVA("vm"), func() { l.ovaIs("vm", true) }
	}},
	{seedbed.JobOVARemove, func(l *lab) (seedbed.JobID, func()) {
		l.runUntil(l.withOVAScript().importOVA("vm"), seedbed.JobSucceeded)
		return l.job(l.intake.RemoveOVA(l.t.Context(), "vm")), func() { l.ovaIs("vm", false) }
	}},
	{seedbed.JobForget, func(l *lab) (seedbed.JobID, func()) {
		l.made()
		return l.job(l.intake.Forget(l.t.Context(), "web1")), func() { l.foreign("web1") }
	}},
	{seedbed.JobAdopt, func(l *lab) (seedbed.JobID, func()) {
		inst := l.made()
		l.runUntil(l.job(l.intake.Forget(l.t.Context(), "web1")), seedbed.JobSucceeded)
		l.hv.SetState(inst.ID, seedbed.DomainOff, "shutdown")
		return l.job(l.intake.Adopt(l.t.Context(), l.foreign("web1"), seedbed.AdoptRequest{})), func() { l.domain(inst.ID, seedbed.DomainOff) }
	}},
}

// hasImage holds that the pool and the database have the image, or that neither has.
func (l *lab) hasImage(name string, want bool) {
	l.t.Helper()
	images, err := l.pool.Images(l.t.Context())
	l.ok(err)
	known, err := l.db.Images(l.t.Context())
	l.ok(err)
	pool := slices.ContainsFunc(images, func(i seedbed.ImageInfo) bool { return i.Name == name })
	store := slices.ContainsFunc(known, func(i seedbed.Image) bool { return i.Name == name && i.State == seedbed.ImageActive })
	if pool != want || store != want {
		l.t.Errorf("image %s: in the pool %v, in the database %v", name, pool, store)
	}
}

// The points of a stage at which a process dies.
const (
	beforeEffect = "before the effect"
	afterEffect  = "after the effect"
	afterCommit  = "after the commit"
)

// changes are the writes by which a stage has its effect, where no driver has it.
var changes = []string{"publish", "retract", "exchange"}

// waits are the stages that have no effect: they wait for something, and there
// is what they say of it, or at last that they are over.
var waits = []string{"ready"}

// atPoint calls strike the first time that p is at that point of a stage.
func (l *lab) atPoint(p *process, stage, point string, strike func(ctx context.Context) error) (reached *atomic.Bool) {
	reached = new(atomic.Bool)
	want := drivertest.Before
	if point == afterEffect {
		want = drivertest.After
	}
	hit := func(ctx context.Context) error {
		if now := p.store.inHand.Load(); point != afterCommit && (now == nil || *now != stage) || !reached.CompareAndSwap(false, true) {
			return nil
		}
		return strike(ctx)
	}
	p.store.fail(func(write, of string, at drivertest.Point) error {
		if write == "undo" {
			l.deaf.Store(false)
		}
		commits := write == "step" && of == stage
		reached := commits && at == drivertest.After
		if point != afterCommit {
			reached = slices.Contains(changes, write) && at == want ||
				slices.Contains(waits, stage) && (write == "event" && at == want || commits && at == drivertest.Before)
		}
		if reached {
			return hit(context.Background())
		}
		return nil
	})
	driver := func(ctx context.Context, _ string, at drivertest.Point) error {
		if point != afterCommit && at == want {
			return hit(ctx)
		}
		return nil
	}
	l.pool.Fail(driver)
	l.hv.Fail(driver)
	return reached
}

// TestKillMatrix kills a process in every stage of every kind of job, at three
// points, and holds that another brings the job to its end, with nothing lost,
// doubled or left behind.
func TestKillMatrix(t *testing.T) {
	t.Parallel()
	for _, c := range jobCases {
		for _, s := range planOf(&seedbed.Job{Kind: c.kind}) {
			for _, point := range []string{beforeEffect, afterEffect, afterCommit} {
				t.Run(fmt.Sprintf("%s/%s/%s", c.kind, s.name, point), func(t *testing.T) {
					t.Parallel()
					l := newWatchedLab(t).withProfile(seedbed.ReadyMetadata)
					id, done := c.ask(l)
					l.lease = 150 * time.Millisecond
					var reached *atomic.Bool
					p := l.start(func(p *process) {
						reached = l.atPoint(p, s.name, point, func(context.Context) error { p.kill(); return errKilled })
					})
					l.eventually("death", reached.Load)
					p.stop()
					l.pool.Fail(nil)
					l.hv.Fail(nil)
					l.runUntil(id, seedbed.JobSucceeded)
					l.invariants(id)
					done()
				})
			}
		}
	}
}

// TestMatrixIsWhole holds that every kind of job that an engine runs is in the matrix.
func TestMatrixIsWhole(t *testing.T) {
	t.Parallel()
	for _, kind := range plannable() {
		if !slices.ContainsFunc(jobCases, func(c jobCase) bool { return c.kind == kind }) {
			t.Errorf("job kind %s is not in the matrix", kind)
		}
	}
}

// TestCancelMatrix cancels a job in every stage of every kind that can be
// cancelled: within 2 s it is undone, and nothing of it is left. Once more changes
// nothing, and after its end it is refused.
func TestCancelMatrix(t *testing.T) {
	t.Parallel()
	for _, c := range jobCases {
		if c.kind.Forward() {
			continue
		}
		for _, s := range planOf(&seedbed.Job{Kind: c.kind}) {
			t.Run(fmt.Sprintf("%s/%s", c.kind, s.name), func(t *testing.T) {
				t.Parallel()
				l := newWatchedLab(t).withProfile(seedbed.ReadyReport)
				id, _ := c.ask(l)
				l.mute.Store(!s.final)
				l.tune = func(_ *Config, p *pace) { // as in production
					p.cancelPoll, p.retract = defaultPace().cancelPoll, 100*time.Millisecond
				}
				var refused error
				var began atomic.Int64
				p := l.start(func(p *process) {
					l.atPoint(p, s.name, beforeEffect, func(ctx context.Context) error {
						l.deaf.Store(s.name == "publish") // until it is undone
						refused = l.db.CancelJob(context.Background(), id)
						began.Store(time.Now().UnixNano())
						if s.final || ctx.Done() == nil { // of a write, which is not cut off
							return nil
						}
						<-ctx.Done()
						return ctx.Err()
					})
				})
				l.eventually("cancel", func() bool { return began.Load() > 0 })
				if s.final {
					l.want("cancel in the last stage", refused, seedbed.ErrConflict)
					l.wait(id, seedbed.JobSucceeded)
				} else {
					l.ok(refused)
					l.eventually("end", func() bool { j, err := l.db.Job(t.Context(), id); return err == nil && j.State.Terminal() })
					took := time.Since(time.Unix(0, began.Load()))
					job, err := l.db.Job(t.Context(), id)
					l.ok(err)
					if job.State != seedbed.JobRolledBack || took > 2*time.Second {
						t.Errorf("%s after %s: %s\n%s", job.State, took, job.Error, l.history(id))
					}
				}
				p.stop()
				l.want("cancel after the end", l.db.CancelJob(t.Context(), id), seedbed.ErrConflict)
				l.pool.Fail(nil)
				l.hv.Fail(nil)
				l.invariants(id)
			})
		}
	}
}

// TestCancelWhileUndoing holds that a cancel of a job that is undone already
// changes nothing.
func TestCancelWhileUndoing(t *testing.T) {
	t.Parallel()
	l := newWatchedLab(t).withProfile(seedbed.ReadyStarted)
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

// TestTwoWorkers holds that of two who look for work at the same time one has each job.
func TestTwoWorkers(t *testing.T) {
	t.Parallel()
	l := newWatchedLab(t).withProfile(seedbed.ReadyMetadata)
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

// TestDatabaseFull holds that jobs stand still while nothing can be written, and
// go on when it can.
func TestDatabaseFull(t *testing.T) {
	t.Parallel()
	for _, s := range createPlan() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			l := newWatchedLab(t).withProfile(seedbed.ReadyMetadata)
			l.lease = 150 * time.Millisecond
			id := l.create("web1")
			var full atomic.Bool
			var refused atomic.Int32
			p := l.start(func(p *process) {
				p.store.fail(func(write, of string, at drivertest.Point) error {
					if write == "step" && of == s.name && at == drivertest.Before && refused.Load() == 0 {
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

// TestPoolFull holds that a pool without room is a clean failure.
func TestPoolFull(t *testing.T) {
	t.Parallel()
	for _, kind := range []seedbed.JobKind{seedbed.JobCreate, seedbed.JobImport, seedbed.JobRebuild} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			l := newWatchedLab(t).withProfile(seedbed.ReadyMetadata)
			c := jobCases[slices.IndexFunc(jobCases, func(c jobCase) bool { return c.kind == kind })]
			id, _ := c.ask(l)
			l.pool.SetFull(true)
			l.runUntil(id, seedbed.JobRolledBack)
			l.pool.SetFull(false)
			l.invariants(id)
		})
	}
}

// TestHypervisorRestarts holds that a hypervisor which goes in the middle of an
// effect, and is away for a while, costs nothing but time: what it did before it
// went is found again.
func TestHypervisorRestarts(t *testing.T) {
	t.Parallel()
	for _, effect := range []string{"DefineDomain", "StartDomain", "DestroyDomain", "UndefineDomain"} {
		for _, point := range points {
			t.Run(fmt.Sprintf("%s %s", point, effect), func(t *testing.T) {
				t.Parallel()
				l := newWatchedLab(t).withProfile(seedbed.ReadyMetadata)
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
