package jobs

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"seedbed"
	"seedbed/store/sqldb"
)

// The first outputHead bytes of a stage's output are kept for good. When output is dropped, it is
// reduced to outputKept, so that most lines drop nothing.
const (
	outputHead = seedbed.MaxOutput / 4
	outputKept = seedbed.MaxOutput * 3 / 4
)

const outputColumns = `n, at, stage, stream, text`

// outputLine is the number of bytes that a line counts in addition to its text.
const outputLine = 32

// LogOutput appends lines to the output of a stage of a job that ref owns. If the output grows past
// [seedbed.MaxOutput], lines in its middle are dropped, and a line of the stream
// [seedbed.OutputNote] replaces them.
func (s *Store) LogOutput(ctx context.Context, ref seedbed.JobRef, stage string, lines []seedbed.OutputLine) error {
	if len(lines) == 0 {
		return nil
	}
	return s.db.Update(ctx, "log output", func(tx *sqldb.Tx) error {
		if _, err := Hold(ctx, tx, ref); err != nil {
			return err
		}
		o := output{job: ref.ID, stage: stage}
		err := tx.QueryRowContext(ctx,
			`SELECT output, note, dropped_lines, dropped_bytes FROM job_stage WHERE job = $1 AND name = $2`, ref.ID, stage).
			Scan(&o.kept, &o.note, &o.lines, &o.bytes)
		if errors.Is(err, sql.ErrNoRows) {
			return sqldb.OrConflict(nil, "job %s: stage %q was not begun, so it has no output", ref.ID.Short(), sqldb.Clean(stage, 80))
		} else if err != nil {
			return err
		}
		last, err := sqldb.Value[int64](tx.QueryRowContext(ctx, `UPDATE job SET outputs = outputs + $1 WHERE id = $2 RETURNING outputs`,
			len(lines), ref.ID))
		if err != nil {
			return err
		}
		at := sqldb.Micros(sqldb.Now())
		for i, l := range lines {
			text := sqldb.Clean(l.Text, int(seedbed.MaxOutputLine))
			err := sqldb.Exec(ctx, tx, `INSERT INTO job_output (`+outputColumns+`, job) VALUES ($1, $2, $3, $4, $5, $6)`,
				last-int64(len(lines)-1-i), at, stage, sqldb.Clean(l.Stream, 80), text, ref.ID)
			if err != nil {
				return err
			}
			o.kept += int64(len(text)) + outputLine
		}
		if o.kept > int64(seedbed.MaxOutput) {
			if err := o.drop(ctx, tx); err != nil {
				return err
			}
		}
		return sqldb.Exec(ctx, tx,
			`UPDATE job_stage SET output = $1, note = $2, dropped_lines = $3, dropped_bytes = $4 WHERE job = $5 AND name = $6`,
			o.kept, o.note, o.lines, o.bytes, ref.ID, stage)
	})
}

// output is the output of a stage: how much is kept, and how much was dropped.
type output struct {
	job   seedbed.JobID
	stage string
	kept  int64
	// note is the number of the line that replaces the dropped lines.
	note, lines, bytes int64
}

// drop deletes lines after the head until the rest is small enough.
func (o *output) drop(ctx context.Context, tx *sqldb.Tx) error {
	type size struct{ n, bytes int64 }
	all, err := sqldb.List(ctx, tx, func(r sqldb.Row) (s size, err error) {
		err = r.Scan(&s.n, &s.bytes)
		return s, err
	}, `SELECT n, octet_length(text) FROM job_output WHERE job = $1 AND stage = $2 AND n > $3 ORDER BY n`, o.job, o.stage, o.note)
	if err != nil {
		return err
	}
	if o.note == 0 {
		for head := int64(0); len(all) > 1 && head < int64(outputHead); all = all[1:] {
			head += all[0].bytes + outputLine
		}
		o.note = all[0].n // the first dropped line becomes the note
	}
	until := o.note
	for _, l := range all[:len(all)-1] { // the last line stays
		if o.kept <= int64(outputKept) {
			break
		}
		o.kept -= l.bytes + outputLine
		o.lines, o.bytes, until = o.lines+1, o.bytes+l.bytes, l.n
	}
	if err := sqldb.Exec(ctx, tx, `DELETE FROM job_output WHERE job = $1 AND stage = $2 AND n > $3 AND n <= $4`,
		o.job, o.stage, o.note, until); err != nil {
		return err
	}
	text := fmt.Sprintf("%d lines with %d bytes are left out here: of one stage, %s are kept", o.lines, o.bytes, seedbed.MaxOutput)
	return sqldb.Exec(ctx, tx, `UPDATE job_output SET stream = $1, text = $2 WHERE job = $3 AND n = $4`,
		seedbed.OutputNote, text, o.job, o.note)
}

// JobOutput returns the output of a job after line after, oldest first, at most limit lines and at
// most 5000. It returns the output of one stage, or of all if stage is empty.
func (s *Store) JobOutput(
	ctx context.Context, id seedbed.JobID, stage string, after int64, limit int,
) (all []seedbed.JobOutput, err error) {
	err = s.db.View(ctx, "read output", func(tx *sqldb.Tx) error {
		if _, err := ReadJob(ctx, tx, id); err != nil {
			return err
		}
		all, err = sqldb.List(ctx, tx, func(r sqldb.Row) (l seedbed.JobOutput, err error) {
			err = r.Scan(&l.N, sqldb.ToTime(&l.At), &l.Stage, &l.Stream, &l.Text)
			return l, err
		}, `SELECT `+outputColumns+` FROM job_output WHERE job = $1 AND n > $2 AND ($3 = '' OR stage = $3) ORDER BY n LIMIT $4`,
			id, after, stage, sqldb.Bound(limit, 5000))
		return err
	})
	return all, err
}

// oldOutput selects the lines of jobs that ended before $1.
const oldOutput = `FROM job_output WHERE job IN (SELECT id FROM job WHERE ended < $1)`

// CountOutput counts the lines that DropOutput would delete.
func (s *Store) CountOutput(ctx context.Context, before time.Time) (int, error) {
	return s.db.Count(ctx, "count output", `SELECT COUNT(*) `+oldOutput, before)
}

// DropOutput deletes the output of jobs that ended before that time, and returns the number of
// lines.
func (s *Store) DropOutput(ctx context.Context, before time.Time) (int, error) {
	return s.db.Drop(ctx, "drop output", `DELETE `+oldOutput, before)
}
