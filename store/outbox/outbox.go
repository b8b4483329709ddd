package outbox

import (
	"context"
	"fmt"
	"time"

	"seedbed"
	"seedbed/store/sqldb"
)

// newColumns are the columns that a new delivery sets besides its endpoint, and outboxColumns those
// that scanOutgoing reads.
const (
	newColumns    = `id, seq, type, subject, data, at, state`
	outboxColumns = newColumns + `, attempts, next_at, tried, took, status, error`
)

func scanOutgoing(r sqldb.Row) (o seedbed.Outgoing, err error) {
	var data string
	var took int64
	err = r.Scan(&o.ID, &o.Seq, &o.Type, &o.Subject, &data, sqldb.ToTime(&o.At), &o.State, &o.Attempts,
		sqldb.ToTime(&o.Next), sqldb.ToTime(&o.Tried), &took, &o.Status, &o.Error)
	o.Data, o.Took = []byte(data), time.Duration(took)*time.Microsecond
	return o, err
}

// OutgoingDeliveries returns the past and pending deliveries to an endpoint that a query selects, newest
// first.
func (s *Store) OutgoingDeliveries(ctx context.Context, endpoint string, q seedbed.OutgoingQuery) (all []seedbed.Outgoing, err error) {
	w := &sqldb.Where{}
	w.And("endpoint = %s", endpoint)
	if q.State != "" {
		w.And("state = %s", q.State)
	}
	if !q.Since.IsZero() {
		w.And("at >= %s", sqldb.Micros(q.Since))
	}
	if q.Before > 0 {
		w.And("seq < %s", q.Before)
	}
	query := `SELECT ` + outboxColumns + ` FROM outbox WHERE ` + w.String() + fmt.Sprintf(` ORDER BY seq DESC LIMIT $%d`, len(w.Args)+1)
	err = s.db.View(ctx, "list outgoing deliveries", func(tx *sqldb.Tx) error {
		if _, err := readEndpoint(ctx, tx, endpoint); err != nil {
			return err
		}
		all, err = sqldb.List(ctx, tx, scanOutgoing, query, append(w.Args, sqldb.UpTo(q.Limit))...)
		return err
	})
	return all, err
}

// again makes deliveries pending again, with no attempts counted.
const again = `UPDATE outbox SET state = 'pending', attempts = 0, next_at = NULL WHERE endpoint = $1`

// Resend makes one delivery to an endpoint pending again and due at once, whatever its state. The
// delivery keeps its ID and seq. If the endpoint is disabled, Resend returns ErrConflict.
func (s *Store) Resend(ctx context.Context, endpoint, id string) (o seedbed.Outgoing, err error) {
	err = s.db.Update(ctx, "resend", func(tx *sqldb.Tx) error {
		if err := rouse(ctx, tx, endpoint); err != nil {
			return err
		}
		missing := seedbed.Errorf(seedbed.ErrNotFound, "endpoint %q has no delivery %q", endpoint, sqldb.Clean(id, 80))
		o, err = sqldb.One(ctx, tx, scanOutgoing, missing, again+` AND id = $2 RETURNING `+outboxColumns, endpoint, id)
		return err
	})
	return o, err
}

// Replay makes the ended deliveries of events since then pending again, and returns how many. With
// missedOnly, it repeats only those that were never sent: the dead and the skipped.
func (s *Store) Replay(ctx context.Context, endpoint string, since time.Time, missedOnly bool) (n int, err error) {
	states := `('sent', 'dead', 'skipped')`
	if missedOnly {
		states = `('dead', 'skipped')`
	}
	err = s.db.Update(ctx, "replay", func(tx *sqldb.Tx) error {
		if err := rouse(ctx, tx, endpoint); err != nil {
			return err
		}
		n, err = sqldb.Affect(ctx, tx, again+` AND at >= $2 AND state IN `+states, endpoint, since.UnixMicro())
		return err
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

// rouse ends an endpoint's pause after failures and locks its row. If the endpoint is disabled, it
// returns ErrConflict.
func rouse(ctx context.Context, tx *sqldb.Tx, endpoint string) error {
	on, err := sqldb.One(ctx, tx, sqldb.Value[int], noEndpoint(endpoint),
		`UPDATE endpoint SET open_until = NULL WHERE name = $1 RETURNING enabled`, endpoint)
	if err == nil && on == 0 {
		err = seedbed.Errorf(seedbed.ErrConflict, "endpoint %q is disabled: enable it first", endpoint)
	}
	return err
}

// oldOutgoing selects the ended deliveries of events before $1.
const oldOutgoing = `FROM outbox WHERE at < $1 AND state <> 'pending'`

// CountOutgoing counts the deliveries that DropOutgoing would delete.
func (s *Store) CountOutgoing(ctx context.Context, before time.Time) (int, error) {
	return s.db.Count(ctx, "count outgoing deliveries", `SELECT COUNT(*) `+oldOutgoing, before)
}

// DropOutgoing deletes the deliveries of events before that time, except those that are pending,
// and returns how many there were.
func (s *Store) DropOutgoing(ctx context.Context, before time.Time) (int, error) {
	return s.db.Drop(ctx, "drop outgoing deliveries", `DELETE `+oldOutgoing, before)
}

// OutgoingStats returns a summary of the deliveries to each endpoint, sorted by name.
func (s *Store) OutgoingStats(ctx context.Context) (all []seedbed.OutgoingStats, err error) {
	err = s.db.View(ctx, "count outgoing deliveries", func(tx *sqldb.Tx) error {
		clock, err := s.db.LeaseClock(ctx, tx)
		if err != nil {
			return err
		}
		all, err = sqldb.List(ctx, tx, func(r sqldb.Row) (s seedbed.OutgoingStats, err error) {
			var until time.Time
			err = r.Scan(&s.Endpoint, &s.Enabled, &s.Reason, sqldb.ToTime(&until), &s.Pending, &s.Dead, sqldb.ToTime(&s.Oldest))
			s.Open = until.After(clock)
			return s, err
		}, `
			SELECT name, enabled, reason, open_until,
				(SELECT COUNT(*) FROM outbox WHERE endpoint = name AND state = 'pending'),
				(SELECT COUNT(*) FROM outbox WHERE endpoint = name AND state = 'dead'),
				(SELECT MIN(at) FROM outbox WHERE endpoint = name AND state = 'pending')
			FROM endpoint ORDER BY name`)
		return err
	})
	return all, err
}
