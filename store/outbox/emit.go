package outbox

import (
	"cmp"
	"context"
	"encoding/json"
	"strings"

	"github.com/google/uuid"

	"seedbed"
	"seedbed/store/sqldb"
)

// Event is an event as described by the change that causes it.
type Event struct {
	Kind string // one of the Event constants of package seedbed
	// Project is the project of the object; empty for an event of the installation, which the
	// endpoints of the default project receive.
	Project string
	// Subject is the name of the object that the event is about.
	Subject string
	// Data returns the event's object, or nil if there is no event to send. It is called in the
	// transaction of the change, and only if an endpoint wants the event.
	Data func(context.Context, *sqldb.Tx) (any, error)
}

// Fixed returns a notice's data function for a known object.
func Fixed(v any) func(context.Context, *sqldb.Tx) (any, error) {
	return func(context.Context, *sqldb.Tx) (any, error) { return v, nil }
}

// Emit adds events to the outbox of each endpoint that wants them, in the transaction of the
// change. A transaction calls it once, as its last step: it locks the rows of the endpoints in the
// order of their names, so that a seq never becomes visible before a lower one.
func Emit(ctx context.Context, tx *sqldb.Tx, all ...Event) error {
	return emitBut(ctx, tx, "", all...)
}

// emitBut is emit for all endpoints except the one called but.
func emitBut(ctx context.Context, tx *sqldb.Tx, but string, all ...Event) error {
	if len(all) == 0 {
		return nil
	}
	endpoints, err := sqldb.List(ctx, tx, func(r sqldb.Row) (e seedbed.Endpoint, err error) {
		err = r.Scan(&e.Name, &e.Project, sqldb.ToJSON(&e.Events))
		return e, err
	}, `SELECT name, project, events FROM endpoint WHERE name <> $1 ORDER BY name`, but)
	if err != nil || len(endpoints) == 0 {
		return err
	}
	made := make([][]byte, len(all)) // each event's data, made once for all endpoints
	for _, e := range endpoints {
		for i, n := range all {
			if e.Project != cmp.Or(n.Project, seedbed.DefaultProject) || !e.Wants(n.Kind) {
				continue
			}
			if made[i] == nil {
				if made[i], err = n.marshal(ctx, tx); err != nil {
					return err
				}
			}
			if len(made[i]) == 0 {
				continue
			}
			if err := post(ctx, tx, e.Name, n, made[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// marshal returns the event's object as JSON, or an empty slice if there is no event to send.
func (n Event) marshal(ctx context.Context, tx *sqldb.Tx) ([]byte, error) {
	v, err := n.Data(ctx, tx)
	if err != nil || v == nil {
		return []byte{}, err
	}
	return json.Marshal(v)
}

// post adds one event to the outbox of one endpoint, if the endpoint still exists.
func post(ctx context.Context, tx *sqldb.Tx, endpoint string, n Event, data []byte) error {
	type place struct {
		seq     int64
		enabled bool
	}
	at, err := sqldb.One(ctx, tx, func(r sqldb.Row) (p place, err error) {
		err = r.Scan(&p.seq, &p.enabled)
		return p, err
	}, nil, `UPDATE endpoint SET seq = seq + 1 WHERE name = $1 RETURNING seq, enabled`, endpoint)
	if err != nil || at.seq == 0 {
		return err
	}
	state := seedbed.OutgoingPending
	if !at.enabled {
		state = seedbed.OutgoingSkipped
	}
	return sqldb.Exec(ctx, tx,
		`INSERT INTO outbox (`+newColumns+`, endpoint) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
		messageID(), at.seq, n.Kind, sqldb.Clean(n.Subject, 80), string(data), sqldb.Micros(sqldb.Now()), state, endpoint)
}

// messageID returns a new ID of an event for one endpoint.
func messageID() string { return "msg_" + strings.ReplaceAll(uuid.NewString(), "-", "") }
