package store

import (
	"context"
	"database/sql"

	"seedbed"
)

// addEvent appends to a job's history. The job's row is locked by it, so seq
// has no gaps and never becomes visible out of order.
func addEvent(ctx context.Context, tx *sql.Tx, job seedbed.JobID, e seedbed.Event) error {
	seq, err := value[int64](tx.QueryRowContext(ctx, `UPDATE job SET events = events + 1 WHERE id = $1 RETURNING events`, job))
	if err != nil {
		return err
	}
	return exec(ctx, tx, `INSERT INTO job_event (job, seq, at, level, stage, msg, progress) VALUES ($1, $2, $3, $4, $5, $6, $7)`,
		job, seq, micros(orNow(e.At)), e.Level, clean(e.Stage, 80), clean(e.Msg, maxText), e.Progress)
}

// firstEvent begins the history of a job that was just added, whose count of
// events starts at the one.
func firstEvent(ctx context.Context, tx *sql.Tx, job seedbed.JobID, msg string) error {
	_, err := put(ctx, tx, intoEvent, job, 1, micros(now()), "info", "", clean(msg, maxText), 0)
	return err
}

// LogEvent appends to the history of a job that is held. Job and Seq are set
// here, and At when it is zero; Progress, 0 to 100, becomes the job's too.
func (db *DB) LogEvent(ctx context.Context, ref seedbed.JobRef, e seedbed.Event) error {
	switch e.Level {
	case "":
		e.Level = "info"
	case "info", "warn", "error":
	default:
		return seedbed.Errorf(seedbed.ErrInvalid, "event level %q is unknown: want info, warn or error", clean(e.Level, 80))
	}
	e.Progress = min(max(e.Progress, 0), 100)
	return db.update(ctx, "log event", func(tx *sql.Tx) error {
		if _, err := hold(ctx, tx, ref); err != nil {
			return err
		}
		if err := exec(ctx, tx, `UPDATE job SET progress = $1 WHERE id = $2`, e.Progress, ref.ID); err != nil {
			return err
		}
		return addEvent(ctx, tx, ref.ID, e)
	})
}

func scanEvent(r row) (e seedbed.Event, err error) {
	err = r.Scan(&e.Job, &e.Seq, toTime{&e.At}, &e.Level, &e.Stage, &e.Msg, &e.Progress)
	return e, err
}

// Events returns the history of a job after seq after, oldest first, at most
// limit and at most 1000.
func (db *DB) Events(ctx context.Context, id seedbed.JobID, after int64, limit int) (all []seedbed.Event, err error) {
	err = db.view(ctx, "list events", func(tx *sql.Tx) error {
		if _, err := readJob(ctx, tx, id); err != nil {
			return err
		}
		all, err = list(ctx, tx, scanEvent, `
			SELECT job, seq, at, level, stage, msg, progress FROM job_event WHERE job = $1 AND seq > $2 ORDER BY seq LIMIT $3`,
			id, after, bound(limit, 1000))
		return err
	})
	return all, err
}
