package plans

import (
	"context"
	"errors"
	"fmt"
	"time"

	"seedbed"
	"seedbed/provision/effects"
)

// thawTime limits a request to thaw a guest. The worker thaws one that does not answer later.
const thawTime = 30 * time.Second

// eachOfJob calls do for the snapshots that a job takes, as eachSnapshot does.
type eachOfJob func(ctx context.Context, done string, do func(context.Context, seedbed.Call, seedbed.SnapshotSpec) error) error

// consistently takes snapshots while the file systems of a guest are frozen, as freeze says. Each snapshot says in which state the
// guest was. The guest is thawed in any case: here, by the undo, by the next run of the stage, and by the worker: after effects.FreezeTime,
// and when it stops or starts.
func (t *task) consistently(ctx context.Context, g guest, freeze seedbed.Freeze, each eachOfJob) error {
	take := func(as seedbed.Consistency) error {
		return each(ctx, "snapshot %s of volume %s is taken ("+string(as)+")",
			func(ctx context.Context, call seedbed.Call, spec seedbed.SnapshotSpec) error {
				spec.Consistency = as
				return t.take(ctx, call, spec)
			})
	}
	off, err := t.guestIsOff(ctx, g)
	switch {
	case err != nil:
		return err
	case off:
		return take(seedbed.ConsistencyOff)
	case freeze == seedbed.FreezeNever:
		return take(seedbed.ConsistencyCrash)
	}
	err = t.Effect(ctx, func(ctx context.Context, call seedbed.Call) error {
		return effects.FreezeGuest.Do(ctx, t.WorkerOf(g.node), call, effects.DomainRef{ID: g.id})
	})
	switch {
	case err == nil:
	case freeze == seedbed.FreezeAlways:
		return fmt.Errorf("freeze the file systems of the guest: %w", err)
	case unfrozen(err):
		t.Event("info", t.Progress(), "the guest's file systems are not frozen, so its disks are as after a power cut: %s", err)
		return take(seedbed.ConsistencyCrash)
	default:
		return err
	}
	// What an earlier run of this stage has taken is of another moment.
	const dropped = "no snapshot %s of volume %s is of an earlier moment"
	if err = each(ctx, dropped, t.dropOwn); err == nil {
		err = take(seedbed.ConsistencyFrozen)
	}
	thawed, thawErr := t.thaw(ctx, g)
	switch {
	case err != nil:
		return err
	case thawErr != nil:
		return fmt.Errorf("thaw the file systems of the guest: %w", thawErr)
	case thawed == 0 && freeze != seedbed.FreezeAlways: // Windows thaws by itself after 10 seconds
		t.Event("info", t.Progress(), "the guest's file systems have thawed before all snapshots were taken, so its disks are as after a "+
			"power cut")
		if err := each(ctx, dropped, t.dropOwn); err != nil {
			return err
		}
		return take(seedbed.ConsistencyCrash)
	case thawed == 0:
		return seedbed.Errorf(seedbed.ErrConflict, "the file systems of the guest have thawed before all snapshots were taken, which may take %s",
			effects.FreezeTime)
	}
	return nil
}

// unfrozen reports whether an error of FreezeGuest says that the guest cannot be frozen. It is ErrInvalid of a worker that is older.
func unfrozen(err error) bool {
	for _, kind := range []error{seedbed.ErrConflict, seedbed.ErrNotFound, seedbed.ErrAgentRefuses, seedbed.ErrTooLargeAnswer,
		seedbed.ErrUnavailable, seedbed.ErrInvalid} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}

// thaw thaws a guest, also when ctx has ended.
func (t *task) thaw(ctx context.Context, g guest) (systems int, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), thawTime)
	defer cancel()
	err = t.Effect(ctx, func(ctx context.Context, call seedbed.Call) (err error) {
		systems, err = effects.ThawGuest.Do(ctx, t.WorkerOf(g.node), call, effects.DomainRef{ID: g.id})
		return err
	})
	return systems, err
}

// thawLeft thaws a guest that a run of the stage may have left frozen. A guest without an agent is not.
func (t *task) thawLeft(ctx context.Context, g guest) {
	if off, err := t.guestIsOff(ctx, g); err == nil && !off {
		if n, err := t.thaw(ctx, g); err == nil && n > 0 {
			t.Event("info", t.Progress(), "the guest's file systems are thawed")
		}
	}
}

// dropOwn removes a snapshot that this job has taken.
func (t *task) dropOwn(ctx context.Context, call seedbed.Call, spec seedbed.SnapshotSpec) error {
	err := t.drop(ctx, call, spec)
	if errors.Is(err, seedbed.ErrConflict) { // of another job, which take refuses
		return nil
	}
	return err
}
