package store

import (
	"context"

	"seedbed"
	"seedbed/store/catalogue"
	"seedbed/store/groupcommit"
	"seedbed/store/instances"
	"seedbed/store/jobs"
	"seedbed/store/outbox"
	"seedbed/store/sqldb"
)

// Finish ends a job in one transaction: it writes the job's terminal state and its last event, and
// settles its instance or image. A job that succeeded keeps no error. Any other job keeps its first
// error. It returns ErrConflict for a running job that is to be cancelled, which is undone instead.
func (db *DB) Finish(ctx context.Context, ref seedbed.JobRef, o seedbed.JobResult) error {
	if !o.State.Terminal() {
		return seedbed.Errorf(seedbed.ErrInvalid, "a job cannot end as %q", sqldb.Clean(string(o.State), 80))
	}
	const what = "finish job"
	fn := func(ctx context.Context, b *groupcommit.Batch) ([]outbox.Event, error) {
		j, err := jobs.HoldInBatch(ctx, b, ref)
		if err != nil {
			return nil, err
		}
		if err := jobs.Become(j.Job, o.State); err != nil {
			return nil, err
		}
		if err := uncancelled(j.Job); err != nil {
			return nil, err
		}
		if !b.Shared {
			return nil, db.end(ctx, b.Tx, j.Job, o)
		}
		if jobs.IsAwaited(b, ref.ID) {
			return nil, groupcommit.ErrApart
		}
		return db.endOne(ctx, b.Tx, &j.Job, o)
	}
	alone := func(tx *sqldb.Tx) error {
		_, err := fn(ctx, groupcommit.Alone(tx))
		return err
	}
	switch {
	case o.Drop || o.ImageState != "": // rows that other caches hold
		return db.sql.Update(ctx, what, alone)
	case o == seedbed.JobResult{State: seedbed.JobSucceeded}:
		return db.writes.OfHolder(ctx, what, groupcommit.Change{Job: &ref, Ends: true, Do: fn})
	}
	return db.writes.Own(ctx, what, alone)
}

// end writes the end of a job whose row is locked, and starts or ends the jobs that wait for it.
func (db *DB) end(ctx context.Context, tx *sqldb.Tx, j seedbed.Job, o seedbed.JobResult) error {
	events, err := db.endOne(ctx, tx, &j, o)
	if err != nil {
		return err
	}
	if err := outbox.Emit(ctx, tx, events...); err != nil {
		return err
	}
	return db.endDependents(ctx, tx, j)
}

// endOne is end without the jobs that wait for j. It returns the events to send.
func (db *DB) endOne(ctx context.Context, tx *sqldb.Tx, j *seedbed.Job, o seedbed.JobResult) ([]outbox.Event, error) {
	if err := db.settle(ctx, tx, *j, o); err != nil {
		return nil, err
	}
	if err := endRebuild(ctx, tx, *j, o); err != nil {
		return nil, err
	}
	if err := endScript(ctx, tx, *j, o); err != nil {
		return nil, err
	}
	if err := instances.EndSnapshots(ctx, tx, *j, o.State); err != nil {
		return nil, err
	}
	if err := endVolume(ctx, tx, *j, o.State); err != nil {
		return nil, err
	}
	if err := endMigrate(ctx, tx, *j, o.State); err != nil {
		return nil, err
	}
	if err := db.endNIC(ctx, tx, *j, o.State); err != nil {
		return nil, err
	}
	e := ending(*j, o)
	jobs.AddEvent(tx, j.ID, e)
	why := j.Error
	if o.State == seedbed.JobSucceeded {
		why = ""
	} else if why == "" {
		why = sqldb.Clean(o.Error, sqldb.MaxText)
	}
	tx.Later(`UPDATE job SET state = $1, error = $2, progress = $3, ended = $4, owner = '', lease_until = NULL, blocked = 0 WHERE id = $5`,
		o.State, why, e.Progress, sqldb.Micros(sqldb.Now()), j.ID)
	j.State, j.Error = o.State, why
	return noticesOf(*j, o), nil
}

// settle updates or removes the job's instance or image.
func (db *DB) settle(ctx context.Context, tx *sqldb.Tx, j seedbed.Job, o seedbed.JobResult) error {
	switch {
	case o.Drop && (j.Kind == seedbed.JobImport || j.Kind == seedbed.JobImageRemove):
		return endImage(ctx, tx, j.Subject)
	case o.Drop && (j.Kind == seedbed.JobOVA || j.Kind == seedbed.JobOVARemove):
		return endOVA(ctx, tx, j.Subject)
	case o.Drop && ofVolume(j):
		return dropVolume(ctx, tx, j)
	case o.ImageState != "" && j.Kind == seedbed.JobOVARemove:
		return catalogue.SetOVA(ctx, tx, j.Subject, o.ImageState)
	case o.Drop && !j.Kind.MakesInstance() && j.Kind != seedbed.JobRemove && j.Kind != seedbed.JobForget:
		return seedbed.Errorf(seedbed.ErrInvalid, "job %s has nothing to drop: it is a %s job", j.ID.Short(), j.Kind)
	case o.ImageState != "":
		return settleImage(ctx, tx, j, o.ImageState)
	case o.Drop:
		db.AddressesFreed()
		return dropInstance(ctx, tx, j, db.Limits.Tombstones)
	case o.InstanceState != "":
		missing := seedbed.Errorf(seedbed.ErrConflict, "job %s has no instance", j.ID.Short())
		return instances.SetState(ctx, tx, j.Instance, o.InstanceState, missing)
	}
	return nil
}

// ending returns the last event of a job.
func ending(j seedbed.Job, o seedbed.JobResult) seedbed.Event {
	e := seedbed.Event{Stage: j.Stage, Progress: j.Progress}
	switch o.State {
	case seedbed.JobSucceeded:
		e.Level, e.Msg, e.Progress = "info", "succeeded", 100
	case seedbed.JobRolledBack:
		e.Level, e.Msg = "warn", seedbed.RolledBack+"nothing is left behind"
	case seedbed.JobIncomplete:
		e.Level, e.Msg = "error", seedbed.RolledBack+"but not everything could be undone"
	default:
		e.Level, e.Msg = "error", "failed"
		if o.Keep {
			e.Msg = "failed, and kept as it is"
		}
	}
	if o.Error != "" && o.State != seedbed.JobSucceeded {
		e.Msg += ": " + o.Error
	}
	return e
}
