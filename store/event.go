package store

import (
	"context"
	"database/sql"
	"slices"

	"seedbed"
)

// addEvent appends to a job's history. The job's row is locked by it, so seq
// has no gaps and never becomes visible out of order.
func addEvent(ctx context.Context, tx *sql.Tx, job seedbed.JobID, e seedbed.Event) error {
	seq, err := value[int64](tx.QueryRowContext(ctx, `UPDATE job SET events = events + 1 WHERE id = $1 RETURNING events`, job))
	if err != nil {
		return err
	}
	return exec(ctx, tx, `INSERT INTO job_event (job, seq, at, level, stage, msg, progress, bytes_done, bytes_total) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
		job, seq, micros(orNow(e.At)), e.Level, clean(e.Stage, 80), clean(e.Msg, maxText), e.Progress, e.BytesDone, e.BytesTotal)
}

// putEvents appends to the history of a job whose row is locked, and whose count
// of events has grown by them already: the first is the one of that seq.
func putEvents(ctx context.Context, tx *sql.Tx, job seedbed.JobID, seq int64, all []seedbed.Event) error {
	const columns = 9
	for part := range slices.Chunk(all, togetherMost) {
		var args []any
		for _, e := range part {
			args = append(args, job, seq, micros(orNow(e.At)), e.Level, clean(e.Stage, 80), clean(e.Msg, maxText), e.Progress, e.BytesDone, e.BytesTotal)
			seq++
		}
		if err := exec(ctx, tx, insertRows(`job_event (job, seq, at, level, stage, msg, progress, bytes_done, bytes_total)`, len(part), columns), args...); err != nil {
			return err
		}
	}
	return nil
}

// firstEvent begins the history of a job that was just added, whose count of
// events starts at the one.
func firstEvent(ctx context.Context, tx *sql.Tx, job seedbed.JobID, msg string) error {
	_, err := put(ctx, tx, intoEvent, string(job), 1, micros(now()), "info", "", clean(msg, maxText), 0)
	return err
}

// LogEvent appends to the history of a job that is held. Job and Seq are set
// here, and At when it is zero; Progress, 0 to 100, becomes the job's too.
func (db *DB) LogEvent(ctx context.Context, ref seedbed.JobRef, e seedbed.Event) error {
	if err := whole(&e); err != nil {
		return err
	}
	return db.share(ctx, "log event", func(ctx context.Context, tx *sql.Tx) ([]notice, error) {
		if _, err := hold(ctx, tx, ref); err != nil {
			return nil, err
		}
		if err := exec(ctx, tx, `UPDATE job SET progress = $1 WHERE id = $2`, e.Progress, ref.ID); err != nil {
			return nil, err
		}
		return nil, addEvent(ctx, tx, ref.ID, e)
	})
}

// whole fills in what an event leaves out, and bounds its numbers.
func whole(e *seedbed.Event) error {
	switch e.Level {
	case "":
		e.Level = "info"
	case "info", "warn", "error":
	default:
		return seedbed.Errorf(seedbed.ErrInvalid, "event level %q is unknown: want info, warn or error", clean(e.Level, 80))
	}
	e.Progress, e.BytesDone, e.BytesTotal = min(max(e.Progress, 0), 100), max(e.BytesDone, 0), max(e.BytesTotal, 0)
	return nil
}

func scanEvent(r row) (e seedbed.Event, err error) {
	err = r.Scan(&e.Job, &e.Seq, toTime{&e.At}, &e.Level, &e.Stage, &e.Msg, &e.Progress, &e.BytesDone, &e.BytesTotal)
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
			SELECT job, seq, at, level, stage, msg, progress, bytes_done, bytes_total FROM job_event WHERE job = $1 AND seq > $2 ORDER BY seq LIMIT $3`,
			id, after, bound(limit, 1000))
		return err
	})
	return all, err
}
