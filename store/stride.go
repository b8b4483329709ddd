package store

import (
	"context"
	"errors"
	"reflect"

	"github.com/jackc/pgx/v5/pgconn"

	"seedbed"
)

// A stride is the end of a stage, or of a job that has succeeded, as PostgreSQL
// takes it: those that come at the same time, each of another job, are one
// statement, which goes there and back once and is a transaction by itself. It
// writes what is plainly right and leaves the others out, which then go the long
// way, on which each learns what is wrong or waits for its turn.
type stride struct {
	ref  seedbed.JobRef
	step seedbed.Step
	ends bool
}

// Why a stride goes the long way.
var (
	// errLeftOut: nothing of it was written.
	errLeftOut = errors.New("the write needs a transaction of its own")
	// errUnsure: it may be written, since the connection broke before the answer.
	errUnsure = errors.New("nobody knows whether it was written")
)

// stepStride is a step as a stride; ok is false where it changes more than its job.
func stepStride(ref seedbed.JobRef, s seedbed.Step) (_ stride, ok bool) {
	alone := seedbed.Step{Done: s.Done, Next: s.Next, Total: s.Total, Events: s.Events}
	return stride{ref: ref, step: s}, reflect.DeepEqual(s, alone)
}

// endStride is the end of a job as a stride; ok is false where it changes more than its job.
func endStride(ref seedbed.JobRef, o seedbed.Outcome) (_ stride, ok bool) {
	e := ending(seedbed.Job{}, o)
	return stride{ref: ref, ends: true, step: seedbed.Step{Events: []seedbed.Event{e}}}, o == seedbed.Outcome{State: seedbed.JobSucceeded}
}

// tells are the events that go with s: where somebody is to be told of one, it goes the long way.
func (s stride) tells() []string {
	if s.ends {
		return []string{seedbed.EventJobSucceeded, seedbed.EventInstanceReady}
	}
	return []string{seedbed.EventJobStage}
}

// stride writes s, with those that come at the same time; errLeftOut or errUnsure
// when it is to go the long way.
func (db *DB) stride(ctx context.Context, what string, s stride) error {
	if !db.dialect.volleys {
		return errLeftOut
	}
	if told, err := db.knownEndpoints(ctx); err != nil || told.want(s.tells()...) {
		return errLeftOut
	}
	return db.join(&db.strides, &ask{ctx: ctx, stride: &s}, what)
}

// endpointsText is the text of told as PostgreSQL finds it.
const endpointsText = `(SELECT COALESCE(string_agg(name || ' ' || events, chr(10) ORDER BY name), '') FROM endpoint)`

// want tells whether somebody is to be told of events of one of those kinds.
func (t told) want(kinds ...string) bool {
	for _, e := range t.endpoints {
		for _, k := range kinds {
			if e.Wants(k) {
				return true
			}
		}
	}
	return false
}

// settleStrides writes a batch and leaves each one's error.
func (db *DB) settleStrides(ctx context.Context, batch []*ask) {
	written, err := db.writeStrides(ctx, batch)
	switch {
	case err == nil:
	case db.refused(err):
		err = errLeftOut
	case db.dialect.cause(err) == causeUnavailable && !db.closed.Load():
		err = errUnsure
	}
	for n, a := range batch {
		if a.err = err; err == nil && !written[n] {
			a.err = errLeftOut
		}
	}
	if err == nil && len(written) == 0 {
		db.known.forget() // perhaps the endpoints are others by now
	}
	if len(written) > 0 {
		db.wake()
		db.tellSoon()
	}
}

// refused tells whether err means that nothing was written. What the server
// refuses is not, unless it went down meanwhile.
func (db *DB) refused(err error) bool {
	e := (*pgconn.PgError)(nil)
	return errors.As(err, &e) && db.dialect.cause(err) != causeUnavailable || err != nil && pgconn.SafeToRetry(err)
}

// writeStrides runs the statement, and gives which of the batch it has written.
func (db *DB) writeStrides(ctx context.Context, batch []*ask) (map[int]bool, error) {
	told, err := db.knownEndpoints(ctx)
	if err != nil {
		return nil, errLeftOut
	}
	rows, err := db.write.QueryContext(ctx, strideQuery, strideArgs(told, batch)...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	written := map[int]bool{}
	for rows.Next() {
		var nth int
		if err := rows.Scan(&nth); err != nil {
			return nil, err
		}
		written[nth] = true
	}
	return written, rows.Err()
}

// strideArgs are the parameters of strideQuery: the strides as an array for each
// column, and their events likewise. A job's second one is left out, what nobody waits
// for, and what somebody is to be told of by now: that was not known yet when it came.
func strideArgs(known told, batch []*ask) []any {
	var s struct {
		job, done, next                []string
		nth, epoch, total, said, ended []int64
	}
	var e struct {
		level, stage, msg                      []string
		of, n, at, progress, moved, altogether []int64
	}
	seen := map[seedbed.JobID]bool{}
	for nth, a := range batch {
		one := a.stride
		if a.ctx.Err() != nil || seen[one.ref.ID] || known.want(one.tells()...) {
			continue
		}
		seen[one.ref.ID] = true
		s.nth, s.job, s.epoch = append(s.nth, int64(nth)), append(s.job, string(one.ref.ID)), append(s.epoch, one.ref.Epoch)
		s.done, s.next, s.total = append(s.done, one.step.Done), append(s.next, clean(one.step.Next, 80)), append(s.total, int64(one.step.Total))
		s.said, s.ended = append(s.said, int64(len(one.step.Events))), append(s.ended, flag(one.ends))
		for n, event := range one.step.Events {
			e.of, e.n, e.at = append(e.of, int64(nth)), append(e.n, int64(n)+1), append(e.at, orNow(event.At).UnixMicro())
			e.level, e.stage, e.msg = append(e.level, event.Level), append(e.stage, clean(event.Stage, 80)), append(e.msg, clean(event.Msg, maxText))
			e.progress, e.moved, e.altogether = append(e.progress, int64(event.Progress)), append(e.moved, int64(event.BytesDone)), append(e.altogether, int64(event.BytesTotal))
		}
	}
	return []any{known.text, now().UnixMicro(), s.nth, s.job, s.epoch, s.done, s.next, s.total, s.said, s.ended,
		e.of, e.n, e.at, e.level, e.stage, e.msg, e.progress, e.moved, e.altogether, maxStages}
}

// strideQuery locks the job of each stride, as hold does, but leaves out those
// that others have locked: it waits for nobody, and so nobody waits for somebody
// else's job. It also leaves out a job whose row has changed since the statement
// began, because it reads the job's journal as it was then; then what a
// transaction by itself has to find out about, or to do more for; and all when
// the endpoints are not those that are known. The rest is step, or end.
const strideQuery = `
	WITH one AS (
		SELECT * FROM unnest($3::bigint[], $4::text[], $5::bigint[], $6::text[], $7::text[], $8::bigint[], $9::bigint[], $10::bigint[])
			AS one (nth, job, epoch, done, next, total, said, ended)
	), held AS MATERIALIZED (
		SELECT one.*, job.stage, job.kind, job.version FROM one, LATERAL (
			SELECT epoch, owner, state, stage, kind, ctid AS version FROM job WHERE job.id = one.job FOR NO KEY UPDATE SKIP LOCKED
		) AS job
		WHERE job.epoch = one.epoch AND job.owner <> '' AND job.state = 'running' AND $1 = ` + endpointsText + `
	), fine AS MATERIALIZED (
		SELECT held.*, journal.begun, journal.over FROM held, LATERAL (
			SELECT COUNT(*) AS begun, COUNT(*) FILTER (WHERE state = 'done' OR state = 'intent' AND name = held.done) AS over,
				COUNT(*) FILTER (WHERE name = held.done AND state IN ('intent', 'done')) AS mine, COUNT(*) FILTER (WHERE name = held.next) AS other
			FROM job_stage WHERE job_stage.job = held.job
		) AS journal
		WHERE version = (SELECT ctid FROM job WHERE job.id = held.job)
			AND (held.done = '' OR journal.mine = 1)
			AND (held.next = '' OR held.next = held.stage OR journal.other = 0 AND journal.begun < $20)
			AND (held.ended = 0 OR held.kind <> 'rebuild' AND NOT EXISTS (SELECT 1 FROM job_script WHERE job_script.job = held.job)
				AND NOT EXISTS (SELECT 1 FROM job AS later WHERE later.after = held.job AND later.blocked = 1))
	), moved AS (
		UPDATE job SET done = over, total = CASE WHEN fine.total > 0 THEN fine.total ELSE job.total END, events = events + said,
			progress = CASE WHEN job.stage = next AND next <> '' THEN progress ELSE 0 END,
			attempts = CASE WHEN next = '' THEN 0 WHEN job.stage = next THEN attempts ELSE 1 END, stage = next
		FROM fine WHERE job.id = fine.job AND fine.ended = 0
		RETURNING job.id, events
	), ended AS (
		UPDATE job SET state = 'succeeded', error = '', progress = 100, ended = $2, owner = '', lease_until = NULL, blocked = 0, events = events + said
		FROM fine WHERE job.id = fine.job AND fine.ended = 1
		RETURNING job.id, events
	), over AS (
		UPDATE job_stage SET state = 'done', error = '', ended = COALESCE(job_stage.ended, $2)
		FROM fine WHERE job_stage.job = fine.job AND job_stage.name = fine.done
	), begun AS (
		INSERT INTO job_stage (job, n, name, state, started)
		SELECT job, begun + 1, next, 'intent', $2 FROM fine WHERE next <> '' AND next <> stage
	), told AS (
		INSERT INTO job_event (job, seq, at, level, stage, msg, progress, bytes_done, bytes_total)
		SELECT fine.job, job.events - fine.said + e.n, e.at, e.level, CASE WHEN fine.ended = 1 THEN fine.stage ELSE e.stage END, e.msg, e.progress, e.moved, e.altogether
		FROM unnest($11::bigint[], $12::bigint[], $13::bigint[], $14::text[], $15::text[], $16::text[], $17::bigint[], $18::bigint[], $19::bigint[])
				AS e (nth, n, at, level, stage, msg, progress, moved, altogether)
			JOIN fine ON fine.nth = e.nth JOIN (SELECT * FROM moved UNION ALL SELECT * FROM ended) AS job ON job.id = fine.job
	)
	SELECT nth FROM fine`
