package outbox

import (
	"context"

	"seedbed"
	"seedbed/store/sqldb"
)

// ChangeEndpoint changes an endpoint. Pending deliveries keep their seq. A new URL makes them due
// at once: failures at the old URL no longer count, and an attempt in progress is repeated.
//
// Enabling an endpoint clears its failures. Disabling it skips its pending deliveries, and the
// events that happen while it is disabled.
//
// The endpoint as it was must pass the checks.
func (s *Store) ChangeEndpoint(
	ctx context.Context, name string, change seedbed.EndpointChange, checks ...func(seedbed.Endpoint) error,
) (e seedbed.Endpoint, err error) {
	err = s.db.Update(ctx, "change endpoint", func(tx *sqldb.Tx) error {
		was, err := lockEndpoint(ctx, tx, name, checks)
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
		err = sqldb.Exec(ctx, tx, `UPDATE endpoint SET url = $1, events = $2, allow_private = $3, insecure = $4 WHERE name = $5`,
			e.URL, sqldb.AsJSON(e.Events), sqldb.Flag(e.AllowPrivate), sqldb.Flag(e.Insecure), name)
		if err != nil {
			return err
		}
		switch {
		case change.Enabled == nil:
		case *change.Enabled:
			err = sqldb.Exec(ctx, tx,
				`UPDATE endpoint SET enabled = 1, reason = '', failures = 0, failing_since = NULL, open_until = NULL WHERE name = $1`, name)
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

// moveEndpoint clears an endpoint's failures, backoff and lease, so that it starts fresh at its new
// URL.
func moveEndpoint(ctx context.Context, tx *sqldb.Tx, name string) error {
	err := sqldb.Exec(ctx, tx, `UPDATE endpoint SET epoch = epoch + 1, owner = '', lease_until = NULL,
		failures = 0, failing_since = NULL, open_until = NULL WHERE name = $1`, name)
	if err != nil {
		return err
	}
	return sqldb.Exec(ctx, tx, `UPDATE outbox SET next_at = NULL WHERE endpoint = $1 AND state = 'pending'`, name)
}

// disable disables an endpoint, stores why unless it was disabled before, and notifies the other
// endpoints. It locks their rows after this one, not in the order of emit; if that causes a
// deadlock, one of the transactions runs again.
func disable(ctx context.Context, tx *sqldb.Tx, name, why string) error {
	why = sqldb.Clean(why, sqldb.MaxText)
	n, err := sqldb.Affect(ctx, tx, `UPDATE endpoint SET enabled = 0, reason = $1 WHERE name = $2 AND enabled = 1`, why, name)
	if err != nil {
		return err
	}
	if err := sqldb.Exec(ctx, tx, `UPDATE outbox SET state = 'skipped', next_at = NULL WHERE endpoint = $1 AND state = 'pending'`,
		name); err != nil || n == 0 {
		return err
	}
	return emitBut(ctx, tx, name, Event{Kind: seedbed.EventEndpointDisabled, Project: seedbed.ProjectOf(name), Subject: name,
		Data: Fixed(map[string]any{"endpoint": name, "reason": why})})
}
