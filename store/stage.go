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

// maxStages is the largest number of stages in a job's journal.
const maxStages = 64

// Step writes one stage boundary of a running job: the end of s.Done, the intent of s.Next, and the
// changes that belong to them. Its events come before both. It may be repeated. It returns
// ErrConflict if s.Done was not intended, or if the job is undoing or is to be cancelled.
func (db *DB) Step(ctx context.Context, ref seedbed.JobRef, s seedbed.Step) error {
	for i := range s.Events {
		if err := jobs.Whole(&s.Events[i]); err != nil {
			return err
		}
	}
	const what = "write stage"
	alone := func(tx *sqldb.Tx) error {
		events, err := step(ctx, groupcommit.Alone(tx), ref, s)
		if err != nil {
			return err
		}
		return outbox.Emit(ctx, tx, events...)
	}
	switch {
	case s.Image != nil || s.Images != nil || s.Flattened || s.Resized != nil || s.Renamed != "": // rows that caches hold
		return db.sql.Update(ctx, what, alone)
	case s.InstanceState != "": // a row that other transactions lock
		return db.writes.Own(ctx, what, alone)
	}
	return db.writes.OfHolder(ctx, what, groupcommit.Change{Job: &ref,
		Do: func(ctx context.Context, b *groupcommit.Batch) ([]outbox.Event, error) { return step(ctx, b, ref, s) }})
}

// step is Step in its transaction. It returns the events to send.
func step(ctx context.Context, b *groupcommit.Batch, ref seedbed.JobRef, s seedbed.Step) ([]outbox.Event, error) {
	tx := b.Tx
	held, err := jobs.HoldInBatch(ctx, b, ref)
	if err != nil {
		return nil, err
	}
	j := held.Job
	if err := jobs.Become(j, seedbed.JobRunning); err != nil {
		return nil, err
	}
	if err := uncancelled(j); err != nil {
		return nil, err
	}
	begun, done, err := checkStages(ctx, b, j, s)
	if err != nil {
		return nil, err
	}
	if s.Done != "" {
		tx.Later(`UPDATE job_stage SET state = $1, error = '', ended = COALESCE(ended, $2) WHERE job = $3 AND name = $4`,
			seedbed.StageDone, sqldb.Micros(sqldb.Now()), j.ID, s.Done)
	}
	next := sqldb.Clean(s.Next, 80)
	if s.InstanceState != "" {
		missing := seedbed.Errorf(seedbed.ErrConflict, "job %s has no instance", j.ID.Short())
		if err := instances.SetState(ctx, tx, j.Instance, s.InstanceState, missing); err != nil {
			return nil, err
		}
	}
	if s.Image != nil {
		if err := catalogue.ActivateImage(ctx, tx, j, *s.Image); err != nil {
			return nil, err
		}
	}
	if s.Images != nil {
		if err := catalogue.ActivateOVA(ctx, tx, j, s.Images); err != nil {
			return nil, err
		}
	}
	if s.Flattened {
		if err := flattened(ctx, tx, j); err != nil {
			return nil, err
		}
	}
	if s.Resized != nil {
		if err := resized(ctx, tx, j, *s.Resized); err != nil {
			return nil, err
		}
	}
	if s.Renamed != "" {
		if err := renamed(ctx, tx, j, s.Renamed); err != nil {
			return nil, err
		}
	}
	if begins(j, s) {
		tx.Add(stageTable, j.ID, begun+1, next, seedbed.StageIntent, sqldb.Micros(sqldb.Now()))
	}
	final := s.Final || s.Next == "" && (j.Final || s.Flattened) // nothing undoes that before the end
	tx.Later(`
		UPDATE job SET done = $2,
			total = CASE WHEN $3 > 0 THEN $3 ELSE total END, events = $4,
			progress = CASE WHEN stage = $5 AND stage <> '' THEN progress ELSE 0 END,
			attempts = CASE WHEN $5 = '' THEN 0 WHEN stage = $5 THEN attempts ELSE 1 END, stage = $5, final = $6
		WHERE id = $1`, j.ID, done, s.Total, held.Events+int64(len(s.Events)), next, sqldb.Flag(final))
	jobs.AddEvents(tx, j.ID, held.Events, s.Events)
	if !begins(j, s) {
		return nil, nil
	}
	data := func(ctx context.Context, tx *sqldb.Tx) (any, error) {
		now, err := jobs.ReadJob(ctx, tx, j.ID)
		if err != nil {
			return nil, err
		}
		return jobs.EventOf("", now).Data(ctx, tx)
	}
	return []outbox.Event{{Kind: seedbed.EventJobStage, Project: j.Project, Subject: j.Subject, Data: data}}, nil
}

const newStageColumns = `job, n, name, state, started`

// stageTable is where stages are added.
var stageTable = sqldb.Table{Rank: 1, Into: `job_stage (` + newStageColumns + `)`}

// begins reports whether the step begins a stage, as opposed to running the current one again.
func begins(j seedbed.Job, s seedbed.Step) bool { return s.Next != "" && s.Next != j.Stage }

// checkStages returns how many stages of the job were begun before the step, and how many are done
// after it. It returns an error if the stages that the step ends and begins do not follow from them.
//
// A running job has done all its stages but the current one. So a step that ends the current stage,
// or begins it again, needs no look at the others: if they are not as expected, a unique key refuses
// the new one, and the step is repeated in a transaction of its own.
func checkStages(ctx context.Context, b *groupcommit.Batch, j seedbed.Job, s seedbed.Step) (begun, done int, err error) {
	if b.Shared {
		begun, done = j.Done, j.Done
		if j.Stage != "" {
			begun++
		}
		if s.Done != "" {
			done++
		}
		if s.Done != j.Stage && (s.Done != "" || s.Next != j.Stage) || begun >= maxStages {
			return 0, 0, groupcommit.ErrApart
		}
		return begun, done, nil
	}
	stages := map[string]seedbed.StageState{}
	all, err := sqldb.List(ctx, b.Tx, func(r sqldb.Row) (one seedbed.Stage, err error) {
		err = r.Scan(&one.Name, &one.State)
		return one, err
	}, `SELECT name, state FROM job_stage WHERE job = $1`, j.ID)
	for _, one := range all {
		stages[one.Name] = one.State
		if one.State == seedbed.StageDone || one.Name == s.Done {
			done++
		}
	}
	next := sqldb.Clean(s.Next, 80)
	switch state := stages[s.Done]; {
	case err != nil:
		return 0, 0, err
	case s.Done != "" && state != seedbed.StageIntent && state != seedbed.StageDone:
		return 0, 0, sqldb.OrConflict(nil, "job %s: stage %q was not begun, so it cannot be done", j.ID.Short(), sqldb.Clean(s.Done, 80))
	case begins(j, s) && stages[next] != "":
		return 0, 0, sqldb.OrConflict(nil, "job %s: stage %q was begun before", j.ID.Short(), next)
	case begins(j, s) && len(stages) >= maxStages:
		return 0, 0, sqldb.OrConflict(nil, "job %s has %d stages: no job has more", j.ID.Short(), maxStages)
	}
	return len(stages), done, nil
}

func countDone(ctx context.Context, tx *sqldb.Tx, id seedbed.JobID) error {
	return sqldb.Exec(ctx, tx, `UPDATE job SET done = (SELECT COUNT(*) FROM job_stage WHERE job = $1 AND state = $2) WHERE id = $1`,
		id, seedbed.StageDone)
}

// Undo changes a running job to undoing, and stores cause as the error of the job and of its
// current stage. It does nothing if the job is undoing already, because the first cause counts.
func (db *DB) Undo(ctx context.Context, ref seedbed.JobRef, cause string) error {
	return db.sql.Update(ctx, "undo job", func(tx *sqldb.Tx) error {
		j, err := jobs.Hold(ctx, tx, ref)
		if err != nil {
			return err
		}
		if err := jobs.Become(j, seedbed.JobUndoing); err != nil {
			return err
		}
		if j.State == seedbed.JobUndoing {
			return sqldb.ErrUnchanged
		}
		cause := sqldb.Clean(cause, sqldb.MaxText)
		err = sqldb.Exec(ctx, tx,
			`UPDATE job SET state = $1, error = CASE WHEN error = '' THEN $2 ELSE error END, progress = 0, attempts = 1 WHERE id = $3`,
			seedbed.JobUndoing, cause, j.ID)
		if err != nil {
			return err
		}
		return sqldb.Exec(ctx, tx, `UPDATE job_stage SET error = $1 WHERE job = $2 AND name = $3 AND state = $4`,
			cause, j.ID, j.Stage, seedbed.StageIntent)
	})
}

// Undone records the result of undoing a stage. If problem is empty, nothing of the stage is left.
// Otherwise problem is why something is left, and left is what, if that is known. The job's current
// stage becomes the last one that is still to be undone. Undone may be repeated.
func (db *DB) Undone(ctx context.Context, ref seedbed.JobRef, stage, problem string, left ...seedbed.Orphan) error {
	return db.sql.Update(ctx, "write undone stage", func(tx *sqldb.Tx) error {
		j, err := jobs.Hold(ctx, tx, ref)
		if err != nil {
			return err
		}
		if j.State != seedbed.JobUndoing {
			return sqldb.OrConflict(nil, "job %s is %s: only a job that is undoing has undone stages", j.ID.Short(), j.State)
		}
		state := seedbed.StageUndone
		if problem != "" {
			state = seedbed.StageOrphans
		}
		n, err := sqldb.Affect(ctx, tx,
			`UPDATE job_stage SET state = $1, error = CASE WHEN $2 = '' THEN error ELSE $2 END, ended = $3 WHERE job = $4 AND name = $5`,
			state, sqldb.Clean(problem, sqldb.MaxText), sqldb.Micros(sqldb.Now()), j.ID, stage)
		if err != nil || n == 0 {
			return sqldb.OrConflict(err, "job %s: stage %q was not begun, so it cannot be undone", j.ID.Short(), sqldb.Clean(stage, 80))
		}
		if err := jobs.NoteOrphans(ctx, tx, j, stage, problem, left); err != nil {
			return err
		}
		next, err := sqldb.One(ctx, tx, sqldb.Value[string], nil,
			`SELECT name FROM job_stage WHERE job = $1 AND state IN ($2, $3) ORDER BY n DESC LIMIT 1`,
			j.ID, seedbed.StageIntent, seedbed.StageDone)
		if err != nil {
			return err
		}
		if err := sqldb.Exec(ctx, tx, `UPDATE job SET stage = $1, progress = 0, attempts = 1 WHERE id = $2`, next, j.ID); err != nil {
			return err
		}
		return countDone(ctx, tx, j.ID)
	})
}

func scanStage(r sqldb.Row) (s seedbed.Stage, err error) {
	err = r.Scan(&s.Job, &s.N, &s.Name, &s.State, sqldb.ToTime(&s.Started), &s.Error, sqldb.ToTime(&s.Ended))
	return s, err
}

// Stages returns the journal of a job in the order in which its stages started.
func (db *DB) Stages(ctx context.Context, id seedbed.JobID) (all []seedbed.Stage, err error) {
	err = db.sql.View(ctx, "list stages", func(tx *sqldb.Tx) error {
		if _, err := jobs.ReadJob(ctx, tx, id); err != nil {
			return err
		}
		all, err = sqldb.List(ctx, tx, scanStage,
			`SELECT `+newStageColumns+`, error, ended FROM job_stage WHERE job = $1 ORDER BY n`, id)
		return err
	})
	return all, err
}
