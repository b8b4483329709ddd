package outbox

import (
	"cmp"
	"context"

	"seedbed"
	"seedbed/store/access"
	"seedbed/store/sqldb"
)

// newEndpointColumns are the columns that a new endpoint sets, and endpointColumns those that
// scanEndpoint reads.
const (
	newEndpointColumns = `name, project, url, events, cloudevents, allow_private, insecure, enabled, created`
	endpointColumns    = newEndpointColumns + `, reason, failures, failing_since, open_until`
)

func scanEndpoint(r sqldb.Row) (e seedbed.Endpoint, err error) {
	err = r.Scan(&e.Name, &e.Project, &e.URL, sqldb.ToJSON(&e.Events), &e.CloudEvents, &e.AllowPrivate, &e.Insecure, &e.Enabled,
		sqldb.ToTime(&e.Created), &e.Reason, &e.Failures, sqldb.ToTime(&e.FailingSince), sqldb.ToTime(&e.OpenUntil))
	return e, err
}

// CreateEndpoint adds an endpoint and returns it enabled. It must have one key of each version that
// it signs. It receives the events that happen from then on.
func (s *Store) CreateEndpoint(ctx context.Context, e seedbed.Endpoint) (seedbed.Endpoint, error) {
	if err := e.Check(); err != nil {
		return seedbed.Endpoint{}, err
	}
	keys, err := newEndpointKeys(e.Name, e.Keys)
	if err != nil {
		return seedbed.Endpoint{}, err
	}
	err = s.db.Update(ctx, "create endpoint "+e.Name, func(tx *sqldb.Tx) error {
		e.Project = cmp.Or(e.Project, seedbed.DefaultProject)
		in, err := access.HoldProject(ctx, tx, e.Project)
		if err != nil {
			return sqldb.Within("endpoint "+e.Name, err)
		}
		made, err := sqldb.Affect(ctx, tx, `
			INSERT INTO endpoint (`+newEndpointColumns+`)
			VALUES ($1, $2, $3, $4, $5, $6, $7, 1, $8) ON CONFLICT DO NOTHING`,
			e.Name, e.Project, e.URL, sqldb.AsJSON(e.Events), sqldb.Flag(e.CloudEvents), sqldb.Flag(e.AllowPrivate),
			sqldb.Flag(e.Insecure), sqldb.Micros(sqldb.Now()))
		if err != nil {
			return err
		}
		if made == 0 {
			return seedbed.Errorf(seedbed.ErrExists, "endpoint %q exists already", e.Name)
		}
		if err := access.Endpoints().Hold(ctx, tx, in); err != nil {
			return err
		}
		if err := addKeys(ctx, tx, e.Name, keys); err != nil {
			return err
		}
		e, err = readEndpoint(ctx, tx, e.Name)
		return err
	})
	if err != nil {
		return seedbed.Endpoint{}, err
	}
	return e, nil
}

func noEndpoint(name string) error {
	return seedbed.Errorf(seedbed.ErrNotFound, "endpoint %q does not exist", sqldb.Clean(name, 80))
}

func readEndpoint(ctx context.Context, tx *sqldb.Tx, name string) (seedbed.Endpoint, error) {
	e, err := sqldb.One(ctx, tx, scanEndpoint, noEndpoint(name), `SELECT `+endpointColumns+` FROM endpoint WHERE name = $1`, name)
	if err != nil {
		return e, err
	}
	e.Keys, err = endpointKeys(ctx, tx, name)
	return e, err
}

// Endpoint returns the endpoint called name, with its keys.
func (s *Store) Endpoint(ctx context.Context, name string) (e seedbed.Endpoint, err error) {
	err = s.db.View(ctx, "read endpoint", func(tx *sqldb.Tx) error {
		e, err = readEndpoint(ctx, tx, name)
		return err
	})
	return e, err
}

// Endpoints returns all endpoints sorted by name, with their keys.
func (s *Store) Endpoints(ctx context.Context) (all []seedbed.Endpoint, err error) {
	err = s.db.View(ctx, "list endpoints", func(tx *sqldb.Tx) error {
		if all, err = sqldb.List(ctx, tx, scanEndpoint, `SELECT `+endpointColumns+` FROM endpoint ORDER BY name`); err != nil {
			return err
		}
		for i := range all {
			if all[i].Keys, err = endpointKeys(ctx, tx, all[i].Name); err != nil {
				return err
			}
		}
		return nil
	})
	return all, err
}

// lockEndpoint locks the row of an endpoint, which is read and then written as a whole, and returns the
// endpoint if it passes the checks.
func lockEndpoint(ctx context.Context, tx *sqldb.Tx, name string, checks []func(seedbed.Endpoint) error) (seedbed.Endpoint, error) {
	if n, err := sqldb.Affect(ctx, tx, `UPDATE endpoint SET epoch = epoch WHERE name = $1`, name); err != nil || n == 0 {
		return seedbed.Endpoint{}, orMissing(err, name)
	}
	e, err := readEndpoint(ctx, tx, name)
	if err != nil {
		return e, err
	}
	return e, sqldb.Pass(e, checks)
}

// DeleteEndpoint removes an endpoint, which must pass the checks, and all its pending deliveries.
func (s *Store) DeleteEndpoint(ctx context.Context, name string, checks ...func(seedbed.Endpoint) error) error {
	return s.db.Update(ctx, "delete endpoint", func(tx *sqldb.Tx) error {
		if _, err := lockEndpoint(ctx, tx, name, checks); err != nil {
			return err
		}
		return sqldb.Exec(ctx, tx, `DELETE FROM endpoint WHERE name = $1`, name)
	})
}
