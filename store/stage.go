package store

import (
	"context"
	"database/sql"

	"seedbed"
)

// maxStages bounds a job's journal.
const maxStages = 64

// Step writes one stage boundary of a running job: the end of s.Done, the
// intent of s.Next, and what goes with it. It may be repeated. A stage that was
// not intended cannot be done, and a job that is undoing makes no step: ErrConflict.
func (db *DB) Step(ctx context.Context, ref seedbed.JobRef, s seedbed.Step) error {
	return db.update(ctx, "write stage", func(tx *sql.Tx) error {
		j, err := hold(ctx, tx, ref)
		if err != nil {
			return err
		}
		if err := become(j, seedbed.JobRunning); err != nil {
			return err
		}
		if s.Final {
			if err := noReturn(j); err != nil {
				return err
			}
		}
		if s.Done != "" {
			n, err := affect(ctx, tx, `UPDATE job_stage SET state = $1, error = '', ended = COALESCE(ended, $2) WHERE job = $3 AND name = $4 AND state IN ($1, $5)`,
				seedbed.StageDone, micros(now()), j.ID, s.Done, seedbed.StageIntent)
			if err != nil || n == 0 {
				return orConflict(err, "job %s: stage %q was not begun, so it cannot be done", j.ID.Short(), clean(s.Done, 80))
			}
		}
		if s.InstanceState != "" {
			missing := seedbed.Errorf(seedbed.ErrConflict, "job %s has no instance", j.ID.Short())
			if err := setState(ctx, tx, j.Instance, s.InstanceState, missing); err != nil {
				return err
			}
		}
		if s.Image != nil {
			if err := activateImage(ctx, tx, j, *s.Image); err != nil {
				return err
			}
		}
		if s.Flattened {
			if err := flattened(ctx, tx, j); err != nil {
				return err
			}
		}
		if s.Total > 0 {
			if err := exec(ctx, tx, `UPDATE job SET total = $1 WHERE id = $2`, s.Total, j.ID); err != nil {
				return err
			}
		}
		if err := intend(ctx, tx, j, s.Next); err != nil {
			return err
		}
		if err := countDone(ctx, tx, j.ID); err != nil || s.Next == "" || s.Next == j.Stage {
			return err
		}
		return emit(ctx, tx, notice{seedbed.EventJobStage, j.Subject, func(ctx context.Context, tx *sql.Tx) (any, error) {
			now, err := readJob(ctx, tx, j.ID)
			if err != nil {
				return nil, err
			}
			return ofJob("", now).data(ctx, tx)
		}})
	})
}

// intend makes next the stage in hand.
func intend(ctx context.Context, tx *sql.Tx, j seedbed.Job, next string) error {
	if next == "" {
		return exec(ctx, tx, `UPDATE job SET stage = '', progress = 0, attempts = 0 WHERE id = $1`, j.ID)
	}
	if next == j.Stage {
		return nil
	}
	n, err := one(ctx, tx, value[int], nil, `SELECT COUNT(*) FROM job_stage WHERE job = $1`, j.ID)
	if err != nil || n >= maxStages {
		return orConflict(err, "job %s has %d stages: no job has more", j.ID.Short(), n)
	}
	made, err := affect(ctx, tx, `INSERT INTO job_stage (job, n, name, state, started) VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING`,
		j.ID, n+1, clean(next, 80), seedbed.StageIntent, micros(now()))
	if err != nil || made == 0 {
		return orConflict(err, "job %s: stage %q was begun before", j.ID.Short(), clean(next, 80))
	}
	return exec(ctx, tx, `UPDATE job SET stage = $1, progress = 0, attempts = 1 WHERE id = $2`, clean(next, 80), j.ID)
}

func countDone(ctx context.Context, tx *sql.Tx, id seedbed.JobID) error {
	return exec(ctx, tx, `UPDATE job SET done = (SELECT COUNT(*) FROM job_stage WHERE job = $1 AND state = $2) WHERE id = $1`, id, seedbed.StageDone)
}

// Undo turns a running job round, and keeps cause as its error and as that of
// the stage in hand. On a job that is undoing already it changes nothing: the
// first cause is the one that counts.
func (db *DB) Undo(ctx context.Context, ref seedbed.JobRef, cause string) error {
	return db.update(ctx, "undo job", func(tx *sql.Tx) error {
		j, err := hold(ctx, tx, ref)
		if err != nil {
			return err
		}
		if err := become(j, seedbed.JobUndoing); err != nil {
			return err
		}
		if j.State == seedbed.JobUndoing {
			return errUnchanged
		}
		cause := clean(cause, maxText)
		err = exec(ctx, tx, `UPDATE job SET state = $1, error = CASE WHEN error = '' THEN $2 ELSE error END, progress = 0, attempts = 1 WHERE id = $3`,
			seedbed.JobUndoing, cause, j.ID)
		if err != nil {
			return err
		}
		return exec(ctx, tx, `UPDATE job_stage SET error = $1 WHERE job = $2 AND name = $3 AND state = $4`, cause, j.ID, j.Stage, seedbed.StageIntent)
	})
}

// Undone records what came of undoing a stage: with an empty problem nothing of
// it is left, else problem says what is. The stage in hand becomes the last one
// that is still to be undone. It may be repeated.
func (db *DB) Undone(ctx context.Context, ref seedbed.JobRef, stage string, problem string) error {
	return db.update(ctx, "write undone stage", func(tx *sql.Tx) error {
		j, err := hold(ctx, tx, ref)
		if err != nil {
			return err
		}
		if j.State != seedbed.JobUndoing {
			return orConflict(nil, "job %s is %s: only a job that is undoing has undone stages", j.ID.Short(), j.State)
		}
		state := seedbed.StageUndone
		if problem != "" {
			state = seedbed.StageOrphans
		}
		n, err := affect(ctx, tx, `UPDATE job_stage SET state = $1, error = CASE WHEN $2 = '' THEN error ELSE $2 END, ended = $3 WHERE job = $4 AND name = $5`,
			state, clean(problem, maxText), micros(now()), j.ID, stage)
		if err != nil || n == 0 {
			return orConflict(err, "job %s: stage %q was not begun, so it cannot be undone", j.ID.Short(), clean(stage, 80))
		}
		left, err := one(ctx, tx, value[string], nil, `SELECT name FROM job_stage WHERE job = $1 AND state IN ($2, $3) ORDER BY n DESC LIMIT 1`,
			j.ID, seedbed.StageIntent, seedbed.StageDone)
		if err != nil {
			return err
		}
		if err := exec(ctx, tx, `UPDATE job SET stage = $1, progress = 0, attempts = 1 WHERE id = $2`, left, j.ID); err != nil {
			return err
		}
		return countDone(ctx, tx, j.ID)
	})
}

func scanStage(r row) (s seedbed.Stage, err error) {
	err = r.Scan(&s.Job, &s.N, &s.Name, &s.State, &s.Error, toTime{&s.Started}, toTime{&s.Ended})
	return s, err
}

// Stages returns the journal of a job in the order in which it was begun.
func (db *DB) Stages(ctx context.Context, id seedbed.JobID) (all []seedbed.Stage, err error) {
	err = db.view(ctx, "list stages", func(tx *sql.Tx) error {
		if _, err := readJob(ctx, tx, id); err != nil {
			return err
		}
		all, err = list(ctx, tx, scanStage, `SELECT job, n, name, state, error, started, ended FROM job_stage WHERE job = $1 ORDER BY n`, id)
		return err
	})
	return all, err
}
