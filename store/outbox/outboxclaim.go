package outbox

import (
	"context"
	"errors"
	"slices"
	"time"

	"seedbed"
	"seedbed/store/sqldb"
)

// nextDelivery is an endpoint with its next delivery, which is the pending one with the lowest seq.
// Deliveries to an endpoint are sent in the order of their seq.
type nextDelivery struct {
	endpoint string
	epoch    int64
	seq      int64
	due      time.Time
}

func scanNext(r sqldb.Row) (d nextDelivery, err error) {
	var next, leased, open time.Time
	err = r.Scan(&d.endpoint, &d.epoch, &d.seq, sqldb.ToTime(&next), sqldb.ToTime(&leased), sqldb.ToTime(&open))
	for _, t := range []time.Time{next, leased, open} {
		if t.After(d.due) {
			d.due = t
		}
	}
	return d, err
}

// ClaimOutgoing claims the delivery that has been due for the longest, for owner and the duration
// of the lease. The claim includes the endpoint: no other owner sends to it until the outcome is
// recorded or the lease expires. If no delivery is due, ClaimOutgoing returns nil and the time
// until the next one is due, or 0 if none is pending.
func (s *Store) ClaimOutgoing(
	ctx context.Context, owner string, lease time.Duration,
) (c *seedbed.OutgoingClaim, next time.Duration, err error) {
	if owner == "" || lease <= 0 {
		return nil, 0, seedbed.Errorf(seedbed.ErrInvalid, "claiming a delivery needs an owner and a lease, not %q and %s", owner, lease)
	}
	nextDeliveries, clock, err := s.nextDeliveries(ctx)
	if err != nil {
		return nil, 0, err
	}
	var failed error // an endpoint that cannot be read must not block the others
	for _, d := range nextDeliveries {
		if wait := d.due.Sub(clock); wait > 0 {
			if failed != nil {
				wait = 0
			}
			return nil, wait, failed
		}
		c, err := s.claimNext(ctx, d, owner, lease)
		if c != nil || ctx.Err() != nil {
			return c, 0, err
		}
		failed = errors.Join(failed, err)
	}
	return nil, 0, failed
}

// nextDeliveries returns the endpoints with pending deliveries, the first one due first.
func (s *Store) nextDeliveries(ctx context.Context) (all []nextDelivery, clock time.Time, err error) {
	err = s.db.View(ctx, "look for deliveries", func(tx *sqldb.Tx) error {
		if clock, err = s.db.LeaseClock(ctx, tx); err != nil {
			return err
		}
		all, err = sqldb.List(ctx, tx, scanNext, `
			SELECT e.name, e.epoch, o.seq, o.next_at, e.lease_until, e.open_until
			FROM endpoint e JOIN outbox o ON o.endpoint = e.name
			WHERE e.enabled = 1 AND o.state = 'pending'
				AND o.seq = (SELECT MIN(seq) FROM outbox WHERE endpoint = e.name AND state = 'pending')`)
		return err
	})
	slices.SortStableFunc(all, func(a, b nextDelivery) int { return a.due.Compare(b.due) })
	return all, clock, err
}

// claimNext claims the endpoint, unless another owner did since nextDeliveries read it.
func (s *Store) claimNext(ctx context.Context, d nextDelivery, owner string, lease time.Duration) (*seedbed.OutgoingClaim, error) {
	c := &seedbed.OutgoingClaim{Epoch: d.epoch + 1}
	changed, err := s.db.Change(ctx, "claim delivery", func(tx *sqldb.Tx) error {
		clock, err := s.db.LeaseClock(ctx, tx)
		if err != nil {
			return err
		}
		n, err := sqldb.Affect(ctx, tx, `
			UPDATE endpoint SET owner = $1, epoch = epoch + 1, lease_until = $2
			WHERE name = $3 AND epoch = $4 AND enabled = 1 AND (lease_until IS NULL OR lease_until <= $5)`,
			owner, sqldb.Micros(clock.Add(lease)), d.endpoint, d.epoch, sqldb.Micros(clock))
		if err != nil || n == 0 {
			return sqldb.OrUnchanged(err)
		}
		if c.Endpoint, err = readEndpoint(ctx, tx, d.endpoint); err != nil {
			return err
		}
		c.Outgoing, err = sqldb.One(ctx, tx, scanOutgoing, sqldb.ErrUnchanged,
			`SELECT `+outboxColumns+` FROM outbox WHERE endpoint = $1 AND seq = $2 AND state = 'pending'`, d.endpoint, d.seq)
		return err
	})
	if err != nil || !changed {
		return nil, err
	}
	return c, nil
}

// holdOutgoing checks that the claim is still valid, and ends it.
func holdOutgoing(ctx context.Context, tx *sqldb.Tx, c seedbed.OutgoingClaim) error {
	n, err := sqldb.Affect(ctx, tx, `UPDATE endpoint SET owner = '', lease_until = NULL WHERE name = $1 AND epoch = $2 AND owner <> ''`,
		c.Endpoint.Name, c.Epoch)
	if err == nil && n == 0 {
		err = seedbed.Errorf(seedbed.ErrStale, "the delivery %s to endpoint %q is no longer held under epoch %d",
			c.Outgoing.ID, c.Endpoint.Name, c.Epoch)
	}
	return err
}

// RecordOutgoing records the result of an attempt and releases the endpoint. ErrStale means that
// the claim was lost: another owner is sending the delivery, or has sent it.
func (s *Store) RecordOutgoing(ctx context.Context, c seedbed.OutgoingClaim, a seedbed.Attempt) error {
	_, err := s.db.Change(ctx, "record delivery", func(tx *sqldb.Tx) error {
		if err := holdOutgoing(ctx, tx, c); err != nil {
			return err
		}
		clock, err := s.db.LeaseClock(ctx, tx)
		if err != nil {
			return err
		}
		var next any
		if a.State == seedbed.OutgoingPending {
			next = sqldb.Micros(clock.Add(a.Retry))
		}
		// A delivery that was skipped since, because the endpoint was disabled, is no longer
		// pending.
		err = sqldb.Exec(ctx, tx, `
			UPDATE outbox SET attempts = attempts + 1, tried = $1, took = $2, status = $3, error = $4,
				next_at = CASE WHEN state = 'pending' THEN CAST($5 AS bigint) END,
				state = CASE WHEN state = 'pending' OR $6 = 'sent' THEN $6 ELSE state END
			WHERE endpoint = $7 AND seq = $8`,
			sqldb.Micros(sqldb.OrNow(a.At)), a.Took.Microseconds(), a.Status,
			sqldb.Clean(a.Error, sqldb.MaxText), next, a.State, c.Endpoint.Name, c.Outgoing.Seq)
		if err != nil {
			return err
		}
		if a.State == seedbed.OutgoingSent {
			return sqldb.Exec(ctx, tx, `UPDATE endpoint SET failures = 0, failing_since = NULL, open_until = NULL WHERE name = $1`, c.Endpoint.Name)
		}
		var open any
		if a.Pause > 0 {
			open = sqldb.Micros(clock.Add(a.Pause))
		}
		err = sqldb.Exec(ctx, tx,
			`UPDATE endpoint SET failures = failures + 1, failing_since = COALESCE(failing_since, $1), open_until = $2 WHERE name = $3`,
			sqldb.Micros(clock), open, c.Endpoint.Name)
		if err != nil || a.Disable == "" {
			return err
		}
		return disable(ctx, tx, c.Endpoint.Name, a.Disable)
	})
	return err
}

// ReleaseOutgoing releases an endpoint without an outcome. The delivery stays due as before, and no
// attempt is counted.
func (s *Store) ReleaseOutgoing(ctx context.Context, c seedbed.OutgoingClaim) error {
	return s.db.Update(ctx, "release delivery", func(tx *sqldb.Tx) error { return holdOutgoing(ctx, tx, c) })
}

// ExpireLeases ends all leases of endpoints, when none of their owners can be alive.
func ExpireLeases(ctx context.Context, tx *sqldb.Tx) error {
	return sqldb.Exec(ctx, tx, `UPDATE endpoint SET owner = '', lease_until = NULL WHERE owner <> ''`)
}
