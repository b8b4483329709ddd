package provision

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"seedbed"
	"seedbed/internal/sample"
	"seedbed/provision/engine"
	"seedbed/provision/worker/drivertest"
)

// cancelled is a job that is cancelled at a moment of a stage, and waits there until the cancel is
// seen.
type cancelled struct {
	id      seedbed.JobID
	refused error // of the request
	began   atomic.Int64
}

// cancelAt starts an engine with production intervals that is told to cancel the job. tell is
// called at each effect and commit of the undo.
func (l *lab) cancelAt(
	id seedbed.JobID, s engine.Stage, reached func(moment) bool, tell func(p *process, stage string, now moment) error,
) (*process, *cancelled) {
	l.t.Helper()
	c := &cancelled{id: id}
	l.mute.Store(!s.Final)
	l.tune = func(_ *engine.Config, p *engine.Intervals) {
		p.CancelPoll, p.Retract = 0, 100*time.Millisecond // 0 is the default
	}
	p := l.start(func(p *process) {
		l.atEach(p, func(ctx context.Context, back bool, stage string, now moment) error {
			if back {
				l.deaf.Store(false)
				return tell(p, stage, now)
			}
			if stage != s.Name || c.began.Load() > 0 {
				return nil
			}
			// The guest plane applies nothing until the undo: otherwise the stage would end before
			// the cancel is seen.
			if slices.Contains([]string{"publish", "refresh"}, now.effect) && (reached(now) || reached(moment{now.effect, drivertest.After})) {
				l.deaf.Store(true)
			}
			if !reached(now) {
				return nil
			}
			c.refused = l.db.CancelJob(context.Background(), id)
			c.began.Store(time.Now().UnixNano())
			if s.Final || ctx.Done() == nil { // of a write, which is not interrupted
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		})
	})
	l.eventually("cancel", func() bool { return c.began.Load() > 0 })
	return p, c
}

// TestCancelMatrix cancels a job in every stage of every plan that can be cancelled. It is undone
// at once, and nothing of it is left. A second cancel changes nothing, and after the job's end it
// is refused.
func TestCancelMatrix(t *testing.T) {
	t.Parallel()
	for _, c := range matrix(t) {
		if c.job.Kind.Forward() {
			continue
		}
		for _, s := range c.stages(t) {
			t.Run(fmt.Sprintf("%s/%s", c.name, s.Name), func(t *testing.T) {
				t.Parallel()
				l := newLab(t).withProfile(seedbed.ReadyReport)
				a := c.begin(l)
				p, cancel := l.cancelAt(a.id, s, atFirst.reaches, func(*process, string, moment) error { return nil })
				if s.Final {
					l.want("cancel in the last stage", cancel.refused, seedbed.ErrConflict)
					l.wait(a.id, seedbed.JobSucceeded)
				} else {
					l.ok(cancel.refused)
					l.eventually("end", func() bool { j, err := l.db.Job(t.Context(), a.id); return err == nil && j.State.Terminal() })
					took := time.Since(time.Unix(0, cancel.began.Load()))
					job, err := l.db.Job(t.Context(), a.id)
					l.ok(err)
					if job.State != seedbed.JobRolledBack || job.Error != "cancelled on request" || took > promptly {
						t.Errorf("%s after %s: %s\n%s", job.State, took, job.Error, l.history(a.id))
					}
				}
				p.stop()
				l.deaf.Store(false)
				l.want("cancel after the end", l.db.CancelJob(t.Context(), a.id), seedbed.ErrConflict)
				l.unarmed()
				l.invariants(a.id)
				if s.Final {
					a.done()
				} else {
					a.undone()
				}
			})
		}
	}
}

// TestCancelAtTheLastMoment cancels a job just before it begins the stage that cannot be undone.
// The engine sees the cancel before it is refused.
func TestCancelAtTheLastMoment(t *testing.T) {
	t.Parallel()
	for _, c := range matrix(t) {
		plan := c.plan()
		last := lastCancelled(plan)
		if c.job.Kind.Forward() || last.Name == plan[len(plan)-1].Name {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t).withProfile(seedbed.ReadyReport)
			a := c.begin(l)
			var began atomic.Int64
			p := l.start(func(p *process) {
				p.store.fail(func(write, of string, at drivertest.Point) error {
					if write == "step" && of == last.Name && at == drivertest.Before && began.CompareAndSwap(0, time.Now().UnixNano()) {
						l.ok(l.db.CancelJob(context.Background(), a.id))
						l.eventually("the engine sees the cancel", func() bool { return p.store.cancels.Load() > 1 })
					}
					return nil
				})
			})
			job := l.wait(a.id, seedbed.JobRolledBack)
			took := time.Since(time.Unix(0, began.Load()))
			p.stop()
			if job.Error != "cancelled on request" || took > promptly {
				t.Errorf("after %s: %s\n%s", took, job.Error, l.history(a.id))
			}
			l.invariants(a.id)
			a.undone()
		})
	}
}

// TestCancelAtACommit cancels a job at the commit of each stage of every plan, and at that of its
// end, in an engine that does not look for cancels in between. The cancel is obeyed, or refused if
// the job can no longer be undone.
func TestCancelAtACommit(t *testing.T) {
	t.Parallel()
	for _, c := range matrix(t) {
		if c.job.Kind.Forward() {
			continue
		}
		const end = "the end"
		commits := []string{end}
		for _, s := range c.plan() {
			commits = append(commits, s.Name)
		}
		for _, at := range sample.Of(t, commits, 1) {
			t.Run(c.name+"/"+at, func(t *testing.T) {
				t.Parallel()
				l := newLab(t).withProfile(seedbed.ReadyStarted)
				l.tune = func(_ *engine.Config, p *engine.Intervals) { p.CancelPoll = ample }
				a := c.begin(l)
				var reached atomic.Bool
				var refused error
				p := l.start(func(p *process) {
					p.store.fail(func(write, of string, point drivertest.Point) error {
						now := write == "step" && of == at || write == "finish" && at == end
						if now && point == drivertest.Before && reached.CompareAndSwap(false, true) {
							refused = l.db.CancelJob(context.Background(), a.id)
						}
						return nil
					})
				})
				l.eventually("end", func() bool { j, err := l.db.Job(t.Context(), a.id); return err == nil && j.State.Terminal() })
				job, err := l.db.Job(t.Context(), a.id)
				l.ok(err)
				p.stop()
				if !reached.Load() {
					t.Fatalf("the commit was not reached:\n%s", l.history(a.id))
				}
				l.invariants(a.id)
				if refused != nil {
					l.want("cancel that is too late", refused, seedbed.ErrConflict)
					a.done()
					return
				}
				if job.State != seedbed.JobRolledBack || job.Error != "cancelled on request" {
					t.Errorf("%s: %s\n%s", job.State, job.Error, l.history(a.id))
				}
				a.undone()
			})
		}
	}
}

// lastCancelled returns the last stage of a plan in which its job can be cancelled.
func lastCancelled(plan []engine.Stage) (s engine.Stage) {
	for _, s = range slices.Backward(plan) {
		if !s.Final {
			break
		}
	}
	return s
}

// undone is like stages for those that have an undo.
func (c jobCase) undone(t *testing.T) []engine.Stage {
	return sample.Of(t, slices.DeleteFunc(c.plan(), func(s engine.Stage) bool { return s.Undo == nil }), 1)
}

// TestKillWhileUndoing kills a process in the undo of every stage of every plan that has one:
// before its first effect, after each and after its commit. It checks that another process
// continues the undo until everything is as it was. The job was cancelled in its last stage, after
// the effect of that stage.
func TestKillWhileUndoing(t *testing.T) {
	t.Parallel()
	for _, c := range matrix(t) {
		last := lastCancelled(c.plan())
		if c.job.Kind.Forward() || !slices.ContainsFunc(c.plan(), func(s engine.Stage) bool { return s.Undo != nil }) {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			begin := func(t *testing.T, tell func(p *process, stage string, now moment) error) (l *lab, a caseJob, p *process) {
				l = newLab(t).withProfile(seedbed.ReadyReport)
				a = c.begin(l)
				p, cancel := l.cancelAt(a.id, last, func(now moment) bool {
					switch {
					case slices.Contains(waits, last.Name):
						return now.effect == telling
					case slices.Contains(changes, now.effect) && !slices.Contains(recording, last.Name): // what the stage is about follows
						return false
					}
					return now.at == drivertest.After && now.effect != commit
				}, tell)
				l.ok(cancel.refused)
				return l, a, p
			}
			var found rehearsal
			t.Run("rehearsal", func(t *testing.T) {
				l, a, p := begin(t, func(_ *process, stage string, now moment) error { found.note(stage, now); return nil })
				l.wait(a.id, seedbed.JobRolledBack)
				p.stop()
				l.unarmed()
				a.undone()
			})
			for _, s := range c.undone(t) {
				for _, m := range sample.Of(t, momentsOf(found.of[s.Name]), 1) {
					t.Run(fmt.Sprintf("%s/%s", s.Name, m), func(t *testing.T) {
						t.Parallel()
						var reached atomic.Bool
						l, a, p := begin(t, func(p *process, stage string, now moment) error {
							if stage == s.Name && m.reaches(now) && reached.CompareAndSwap(false, true) {
								p.kill()
								return errKilled
							}
							return nil
						})
						l.died(a.id, &reached)
						p.stop()
						l.unarmed()
						l.deaf.Store(false)
						l.runUntil(a.id, seedbed.JobRolledBack)
						a.undone()
					})
				}
			}
		})
	}
}
