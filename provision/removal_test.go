package provision

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"seedbed"
	"seedbed/provision/worker/drivertest"
)

// removeWhile runs a create job until it reaches that effect, and then requests the instance's
// removal. It returns both jobs.
func (l *lab) removeWhile(effect string, arm ...func(*process)) (create, removal seedbed.JobID) {
	l.t.Helper()
	create = l.create("web1")
	var inside atomic.Bool
	hook := func(ctx context.Context, name string, at drivertest.Point) error {
		if name == effect && at == drivertest.Before && inside.CompareAndSwap(false, true) {
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	}
	l.pool.Fail(hook)
	l.hv.Fail(hook)
	l.start(arm...)
	l.eventually("effect", inside.Load)
	receipt, err := l.intake.Submit(l.t.Context(), seedbed.Request{Action: seedbed.DoRemove, Name: "web1"}, nil)
	l.ok(err)
	if receipt.Cancels != create || receipt.State != seedbed.JobQueued {
		l.t.Errorf("receipt %+v; expected one that cancels %s", receipt, create)
	}
	return create, receipt.Job
}

// TestRemoveWhileMade checks that the removal of an instance that is being made cancels that at
// once, and that nothing of either is left.
func TestRemoveWhileMade(t *testing.T) {
	t.Parallel()
	for _, effect := range []string{"CloneVolume", "DefineDomain", "StartDomain"} {
		t.Run(effect, func(t *testing.T) {
			t.Parallel()
			l := newLab(t).withProfile(seedbed.ReadyMetadata)
			began := time.Now()
			create, removal := l.removeWhile(effect)
			if j := l.wait(removal, seedbed.JobSucceeded); j.Epoch != 0 {
				t.Errorf("the removal was begun: %+v", j)
			}
			if took := time.Since(began); took > promptly {
				t.Errorf("it took %s", took)
			}
			if j := l.wait(create, seedbed.JobRolledBack); j.Error != "cancelled on request" {
				t.Errorf("create: %q", j.Error)
			}
			l.invariants(create, removal)
			l.nothing("web1")
		})
	}
}

// TestRemoveAfterWhatWasLeft checks that the removal removes what the create could not undo, also
// if the cancel comes too late.
func TestRemoveAfterWhatWasLeft(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyMetadata)
	var refused atomic.Bool
	create, removal := l.removeWhile("StartDomain", func(p *process) {
		p.store.fail(func(write, stage string, at drivertest.Point) error {
			if write == "undo" && at == drivertest.After {
				l.pool.Fail(func(_ context.Context, name string, at drivertest.Point) error {
					if name == "RemoveVolume" && at == drivertest.Before {
						refused.Store(true)
						return fmt.Errorf("boom")
					}
					return nil
				})
			}
			return nil
		})
	})
	l.wait(create, seedbed.JobIncomplete)
	if j := l.wait(removal, seedbed.JobSucceeded); j.Epoch == 0 || !refused.Load() {
		t.Errorf("the removal has done nothing: %+v", j)
	}
	l.pool.Fail(nil)
	l.hv.Fail(nil)
	l.invariants(create, removal)
	l.nothing("web1")
}

// TestKillWhileRemovingWhatIsMade kills the process that undoes the create before and after each
// write by which the removal gets its turn.
func TestKillWhileRemovingWhatIsMade(t *testing.T) {
	t.Parallel()
	for _, at := range []deathPoint{{"undo", ""}, {"undone", "define"}, {"undone", "volumes"}, {"finish", ""}} {
		for _, point := range points {
			t.Run(fmt.Sprintf("%s %s %s", point, at.what, at.stage), func(t *testing.T) {
				t.Parallel()
				l := newLab(t).withProfile(seedbed.ReadyMetadata)
				var reached atomic.Bool
				var victim *process
				create, removal := l.removeWhile("DefineDomain", func(p *process) {
					victim = p
					p.store.fail(func(write, stage string, now drivertest.Point) error {
						if write == at.what && now == point && (at.stage == "" || at.stage == stage) && reached.CompareAndSwap(false, true) {
							p.kill()
							return errKilled
						}
						return nil
					})
				})
				l.died(create, &reached)
				victim.stop()
				l.runUntil(removal, seedbed.JobSucceeded)
				l.wait(create, seedbed.JobRolledBack)
				l.invariants(create, removal)
				l.nothing("web1")
			})
		}
	}
}

// TestRemoveWhatNobodyHasBegun checks that both jobs end at the same moment.
func TestRemoveWhatNobodyHasBegun(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyMetadata)
	create := l.create("web1")
	receipt, err := l.intake.Submit(t.Context(), seedbed.Request{Action: seedbed.DoRemove, Name: "web1"}, nil)
	l.ok(err)
	if receipt.State != seedbed.JobSucceeded || receipt.Cancels != create {
		t.Errorf("receipt %+v", receipt)
	}
	l.invariants(create, receipt.Job)
	l.nothing("web1")
}
