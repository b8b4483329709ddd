package plans

import (
	"context"
	"errors"
	"fmt"
	"time"

	"seedbed"
	"seedbed/provision/effects"
	"seedbed/provision/engine"
)

// thawTime limits a request to thaw a guest. The worker thaws one that does not answer later.
const thawTime = 30 * time.Second

// consistently takes snapshots while the file systems of a guest are frozen, as freeze says. Each snapshot says in which state the
// guest was. The guest is thawed in any case: here, by the undo, by the next run of the stage, and by the worker: after effects.FreezeTime,
// and when it stops or starts.
func (t *task) consistently(ctx context.Context, g guest, freeze seedbed.Freeze, all []seedbed.SnapshotSpec) error {
	off, err := t.guestIsOff(ctx, g)
	switch {
	case err != nil:
		return err
	case off:
		return t.takeAs(ctx, all, seedbed.ConsistencyOff)
	}
	open, rest, err := t.openAsFiles(ctx, all)
	if err != nil {
		return err
	}
	take := func(as seedbed.Consistency) error {
		// What an earlier run of this stage has taken is of another moment.
		err := t.eachOf(ctx, all, "no snapshot %s of volume %s is of an earlier moment",
			func(ctx context.Context, call seedbed.Call, spec seedbed.SnapshotSpec) error {
				return t.dropOwn(ctx, call, g, spec)
			})
		if err == nil && len(open) > 0 {
			err = t.takeOpen(ctx, g, open, as)
		}
		if err == nil {
			err = t.takeAs(ctx, rest, as)
		}
		return err
	}
	if freeze == seedbed.FreezeNever {
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
	err = take(seedbed.ConsistencyFrozen)
	thawed, thawErr := t.thaw(ctx, g)
	switch {
	case err != nil:
		return err
	case thawErr != nil:
		return fmt.Errorf("thaw the file systems of the guest: %w", thawErr)
	case thawed == 0 && freeze != seedbed.FreezeAlways: // Windows thaws by itself after 10 seconds
		t.Event("info", t.Progress(), "the guest's file systems have thawed before all snapshots were taken, so its disks are as after a "+
			"power cut")
		return take(seedbed.ConsistencyCrash)
	case thawed == 0:
		return seedbed.Errorf(seedbed.ErrConflict, "the file systems of the guest have thawed before all snapshots were taken, which may take %s",
			effects.FreezeTime)
	}
	return nil
}

// taken is the event of a snapshot that was taken.
const taken = "snapshot %s of volume %s is taken"

// takeAs takes snapshots one after the other.
func (t *task) takeAs(ctx context.Context, all []seedbed.SnapshotSpec, as seedbed.Consistency) error {
	return t.eachOf(ctx, all, taken+" ("+string(as)+")", func(ctx context.Context, call seedbed.Call, spec seedbed.SnapshotSpec) error {
		spec.Consistency = as
		return t.take(ctx, call, spec)
	})
}

// openAsFiles tells the volumes that are files, of which only the domain that has them open takes snapshots, from the rest.
func (t *task) openAsFiles(ctx context.Context, all []seedbed.SnapshotSpec) (open, rest []seedbed.SnapshotSpec, err error) {
	for _, s := range all {
		info, err := effects.Volume.Ask(ctx, t.Worker(), effects.VolumeRef{Pool: s.Pool, Name: s.Volume, Instance: s.Instance})
		switch {
		case err != nil:
			return nil, nil, fmt.Errorf("volume %s of pool %s: %w", s.Volume, s.Pool, err)
		case info.Disk.Type == "file":
			open = append(open, s)
		default:
			rest = append(rest, s)
		}
	}
	return open, rest, nil
}

// takeOpen has a guest that runs take snapshots of disks that it has open, at one moment.
func (t *task) takeOpen(ctx context.Context, g guest, open []seedbed.SnapshotSpec, as seedbed.Consistency) error {
	for i := range open {
		open[i].Consistency = as
	}
	err := t.Effect(ctx, func(ctx context.Context, call seedbed.Call) error {
		return effects.SnapshotOpen.Do(ctx, t.WorkerOf(g.node), call, effects.OpenSnapshots{Domain: g.id, Snapshots: open})
	})
	if err != nil {
		err = fmt.Errorf("take snapshots while the guest runs: %w", err)
		for _, s := range open {
			err = engine.Left(seedbed.OrphanSnapshot, s.Pool, s.Volume+"@"+s.Name, err)
		}
		return err
	}
	for i, s := range open {
		t.Event("info", (i+1)*100/len(open), taken+" (%s)", s.Name, s.Volume, as)
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

// dropOwn removes a snapshot of a guest's disk that this job has taken.
func (t *task) dropOwn(ctx context.Context, call seedbed.Call, g guest, spec seedbed.SnapshotSpec) error {
	err := t.remove(ctx, call, g.id, spec, t.Ref.ID)
	if errors.Is(err, seedbed.ErrConflict) { // of another job, which take refuses
		return nil
	}
	return err
}
