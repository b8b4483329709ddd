package jobs

import (
	"context"
	"errors"
	"fmt"

	"seedbed"
	"seedbed/store/sqldb"
)

// placedMost is how many events are placed in one transaction.
const placedMost = 1000

// PlaceEvents gives each event without a place one in the order of all jobs' events, and returns
// the last place. It notifies no one, because an event's place is not a change that anyone waits
// for.
func (s *Store) PlaceEvents(ctx context.Context) (last int64, err error) {
	for {
		placed := 0
		err = s.db.Transact(ctx, func(tx *sqldb.Tx) (err error) {
			if err := sqldb.Exec(ctx, tx, `INSERT INTO event_order (one, last) VALUES (1, 0) ON CONFLICT DO NOTHING`); err != nil {
				return err
			}
			// Lock the row: concurrent calls wait here, and then see what this one placed.
			if last, err = sqldb.Value[int64](tx.QueryRowContext(ctx,
				`UPDATE event_order SET last = last WHERE one = 1 RETURNING last`)); err != nil {
				return err
			}
			placed, err = sqldb.Affect(ctx, tx, `
				UPDATE job_event SET place = $1 + o.n
				FROM (SELECT job, seq, row_number() OVER (ORDER BY at, job, seq) AS n FROM (
					SELECT job, seq, at FROM job_event WHERE place IS NULL ORDER BY at, job, seq LIMIT $2) AS few) AS o
				WHERE job_event.job = o.job AND job_event.seq = o.seq`, last, placedMost)
			if err != nil {
				return err
			}
			if placed == 0 {
				return sqldb.ErrUnchanged
			}
			last += int64(placed)
			return sqldb.Exec(ctx, tx, `UPDATE event_order SET last = $1 WHERE one = 1`, last)
		})
		if errors.Is(err, sqldb.ErrUnchanged) {
			return last, nil
		}
		if err != nil || placed < placedMost {
			return last, err
		}
	}
}

// unplaced reports whether there are events without a place.
func (s *Store) unplaced(ctx context.Context) (found bool, err error) {
	err = s.db.View(ctx, "look for events", func(tx *sqldb.Tx) error {
		n, err := sqldb.Value[int](tx.QueryRowContext(ctx, `SELECT COUNT(*) FROM (SELECT 1 FROM job_event WHERE place IS NULL LIMIT 1) AS few`))
		found = n > 0
		return err
	})
	return found, err
}

// ordered ensures that every event has a place. If several goroutines call it at the same time, one
// of them writes.
func (s *Store) ordered(ctx context.Context) error {
	more, err := s.unplaced(ctx)
	if err != nil || !more {
		return err
	}
	s.placing.Lock()
	defer s.placing.Unlock()
	if more, err = s.unplaced(ctx); err != nil || !more {
		return err
	}
	if _, err := s.PlaceEvents(ctx); err != nil {
		return s.db.Fail(ctx, "order events", err)
	}
	return nil
}

// LastPlace returns the place of the newest event of all jobs, or 0 if there has never been one.
func (s *Store) LastPlace(ctx context.Context) (int64, error) {
	last, err := s.PlaceEvents(ctx)
	if err != nil {
		return 0, s.db.Fail(ctx, "order events", err)
	}
	return last, nil
}

// EventsOfAll returns the events of all jobs in a scope after a place, in the order of their places, at
// most limit and at most 1000. A caller that passes the place of its last event misses none.
func (s *Store) EventsOfAll(ctx context.Context, in seedbed.Scope, after int64, limit int) (all []seedbed.NumberedEvent, err error) {
	if err := s.ordered(ctx); err != nil {
		return nil, err
	}
	err = s.db.View(ctx, "list events of all jobs", func(tx *sqldb.Tx) error {
		w := sqldb.InScope(in)
		w.And("e.place > %s", after)
		w.Args = append(w.Args, sqldb.Bound(limit, 1000))
		all, err = sqldb.List(ctx, tx, scanPlaced, `
			SELECT e.place, j.kind, j.subject, e.job, e.seq, e.at, e.level, e.stage, e.msg, e.progress, e.bytes_done, e.bytes_total
			FROM job_event e JOIN job j ON j.id = e.job WHERE `+w.String()+fmt.Sprintf(` ORDER BY e.place LIMIT $%d`, len(w.Args)), w.Args...)
		return err
	})
	return all, err
}

func scanPlaced(r sqldb.Row) (e seedbed.NumberedEvent, err error) {
	err = r.Scan(&e.Place, &e.Kind, &e.Subject, &e.Job, &e.Seq, sqldb.ToTime(&e.At), &e.Level,
		&e.Stage, &e.Msg, &e.Progress, &e.BytesDone, &e.BytesTotal)
	return e, err
}
