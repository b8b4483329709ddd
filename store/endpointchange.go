package store

import (
	"context"

	"seedbed"
)

// ChangeEndpoint changes an endpoint. What is on its way to it keeps its seq,
// and with another URL is due at once, there: what fails at the old one counts for
// nothing any more, and an attempt that is under way is made again.
//
// Enabling it forgets its failures; while it is disabled, what is pending is
// skipped, and so is what happens.
func (db *DB) ChangeEndpoint(ctx context.Context, name string, change seedbed.EndpointChange) (e seedbed.Endpoint, err error) {
	err = db.update(ctx, "change endpoint", func(tx *Tx) error {
		// The row is locked first: it is read, and written as a whole.
		if err := exec(ctx, tx, `UPDATE endpoint SET epoch = epoch WHERE name = $1`, name); err != nil {
			return err
		}
		was, err := readEndpoint(ctx, tx, name)
		if err != nil {
			return err
		}
		if e = change.Of(was); e.URL != was.URL {
			err = moveEndpoint(ctx, tx, name)
		}
		if err != nil {
			return err
		}
		if err := e.Check(); err != nil {
			return err
		}
		err = exec(ctx, tx, `UPDATE endpoint SET url = $1, events = $2, allow_private = $3, insecure = $4 WHERE name = $5`,
			e.URL, asJSON{e.Events}, flag(e.AllowPrivate), flag(e.Insecure), name)
		if err != nil {
			return err
		}
		switch {
		case change.Enabled == nil:
		case *change.Enabled:
			err = exec(ctx, tx, `UPDATE endpoint SET enabled = 1, reason = '', failures = 0, failing_since = NULL, open_until = NULL WHERE name = $1`, name)
		default:
			err = disable(ctx, tx, name, seedbed.DisabledByOperator)
		}
		if err != nil {
			return err
		}
		e, err = readEndpoint(ctx, tx, name)
		return err
	})
	return e, err
}

// moveEndpoint lets an endpoint begin anew where it is now.
func moveEndpoint(ctx context.Context, tx *Tx, name string) error {
	err := exec(ctx, tx, `UPDATE endpoint SET epoch = epoch + 1, owner = '', lease_until = NULL, failures = 0, failing_since = NULL, open_until = NULL WHERE name = $1`, name)
	if err != nil {
		return err
	}
	return exec(ctx, tx, `UPDATE outbox SET next_at = NULL WHERE endpoint = $1 AND state = 'pending'`, name)
}

// disable keeps why, unless the endpoint was disabled before, and tells the
// others. Their rows are locked after this one's, out of the order of emit: where
// two are in each other's way for that, one is run again.
func disable(ctx context.Context, tx *Tx, name, why string) error {
	why = clean(why, maxText)
	n, err := affect(ctx, tx, `UPDATE endpoint SET enabled = 0, reason = $1 WHERE name = $2 AND enabled = 1`, why, name)
	if err != nil {
		return err
	}
	if err := exec(ctx, tx, `UPDATE outbox SET state = 'skipped', next_at = NULL WHERE endpoint = $1 AND state = 'pending'`, name); err != nil || n == 0 {
		return err
	}
	return emitBut(ctx, tx, name, notice{seedbed.EventEndpointDisabled, name, fixed(map[string]any{"endpoint": name, "reason": why})})
}
