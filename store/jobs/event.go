package jobs

import (
	"context"

	"seedbed"
	"seedbed/store/groupcommit"
	"seedbed/store/outbox"
	"seedbed/store/sqldb"
)

const eventColumns = `job, seq, at, level, stage, msg, progress, bytes_done, bytes_total`

// AddEvent appends to a job's history. Its UPDATE locks the job's row, so that seq has no gaps and
// events become visible in order. An event that was recorded before the last one, and is written
// after it, gets the time of the last one, so that a history never goes back in time.
func AddEvent(tx *sqldb.Tx, job seedbed.JobID, e seedbed.Event) {
	tx.Later(`UPDATE job SET events = events + 1 WHERE id = $1`, job)
	tx.Later(`INSERT INTO job_event (`+eventColumns+`)
		SELECT id, events, CASE WHEN last.at > CAST($2 AS bigint) THEN last.at ELSE CAST($2 AS bigint) END,
			$3, $4, $5, CAST($6 AS bigint), CAST($7 AS bigint), CAST($8 AS bigint)
		FROM job LEFT JOIN job_event AS last ON last.job = job.id AND last.seq = job.events - 1 WHERE job.id = $1`,
		job, sqldb.Micros(sqldb.OrNow(e.At)), e.Level, sqldb.Clean(e.Stage, 80),
		sqldb.Clean(e.Msg, sqldb.MaxText), e.Progress, e.BytesDone, e.BytesTotal)
}

// eventTable is where events are added.
var eventTable = sqldb.Table{Rank: 1, Into: `job_event (` + eventColumns + `)`}

// AddEvents appends to the history of a job whose row is locked. seq is the number of the job's
// last event. The caller updates the job's count of events.
func AddEvents(tx *sqldb.Tx, job seedbed.JobID, seq int64, all []seedbed.Event) {
	for _, e := range all {
		seq++
		tx.Add(eventTable, job, seq, sqldb.Micros(sqldb.OrNow(e.At)), e.Level, sqldb.Clean(e.Stage, 80),
			sqldb.Clean(e.Msg, sqldb.MaxText), e.Progress, e.BytesDone, e.BytesTotal)
	}
}

// FirstEvents starts the history of a job that was just inserted with a count of one event and those
// of the warnings.
func FirstEvents(tx *sqldb.Tx, job seedbed.JobID, msg string, warnings []string) {
	first := []seedbed.Event{{Level: "info", Msg: msg}}
	for _, w := range warnings {
		first = append(first, seedbed.Event{Level: "warn", Msg: w})
	}
	AddEvents(tx, job, 0, first)
}

// LogEvent appends to the history of a job that ref owns. It sets Job and Seq, and sets At if that
// is zero. Progress (0 to 100) also becomes the job's progress.
func (s *Store) LogEvent(ctx context.Context, ref seedbed.JobRef, e seedbed.Event) error {
	if err := Whole(&e); err != nil {
		return err
	}
	return s.writes.Share(ctx, "log event", func(ctx context.Context, b *groupcommit.Batch) ([]outbox.Event, error) {
		tx := b.Tx
		if _, err := Hold(ctx, tx, ref); err != nil {
			return nil, err
		}
		tx.Later(`UPDATE job SET progress = $1 WHERE id = $2`, e.Progress, ref.ID)
		AddEvent(tx, ref.ID, e)
		rowChanged(b, ref.ID)
		return nil, nil
	})
}

// Whole sets the defaults of an event, and clips its numbers to their range.
func Whole(e *seedbed.Event) error {
	switch e.Level {
	case "":
		e.Level = "info"
	case "info", "warn", "error":
	default:
		return seedbed.Errorf(seedbed.ErrInvalid, "event level %q is unknown: expected info, warn or error", sqldb.Clean(e.Level, 80))
	}
	e.Progress, e.BytesDone, e.BytesTotal = min(max(e.Progress, 0), 100), max(e.BytesDone, 0), max(e.BytesTotal, 0)
	return nil
}

func scanEvent(r sqldb.Row) (e seedbed.Event, err error) {
	err = r.Scan(&e.Job, &e.Seq, sqldb.ToTime(&e.At), &e.Level, &e.Stage, &e.Msg, &e.Progress, &e.BytesDone, &e.BytesTotal)
	return e, err
}

// Events returns the events of a job with a seq greater than after, oldest first, at most limit and
// at most 1000.
func (s *Store) Events(ctx context.Context, id seedbed.JobID, after int64, limit int) (all []seedbed.Event, err error) {
	err = s.db.View(ctx, "list events", func(tx *sqldb.Tx) error {
		if _, err := ReadJob(ctx, tx, id); err != nil {
			return err
		}
		all, err = sqldb.List(ctx, tx, scanEvent,
			`SELECT `+eventColumns+` FROM job_event WHERE job = $1 AND seq > $2 ORDER BY seq LIMIT $3`,
			id, after, sqldb.Bound(limit, 1000))
		return err
	})
	return all, err
}
