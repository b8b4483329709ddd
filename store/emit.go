package store

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/google/uuid"

	"seedbed"
)

// notice is an event as the change that causes it tells it.
type notice struct {
	kind string // one of the Event constants of package seedbed
	// subject is the name of what it is about.
	subject string
	// data makes the event's object; nil means that there is nothing to tell. It
	// is called only when somebody wants it, in the transaction of the change.
	data func(context.Context, *Tx) (any, error)
}

// fixed is the data of a notice that is known already.
func fixed(v any) func(context.Context, *Tx) (any, error) {
	return func(context.Context, *Tx) (any, error) { return v, nil }
}

// emit writes events into the outbox of each endpoint that wants them, in the
// transaction of the change. It is the last thing that a transaction does, and
// does once: the rows of the endpoints are locked by it in the order of their
// names, so that a seq never becomes visible before a lower one.
func emit(ctx context.Context, tx *Tx, all ...notice) error {
	return emitBut(ctx, tx, "", all...)
}

// emitBut is emit for all endpoints but one.
func emitBut(ctx context.Context, tx *Tx, but string, all ...notice) error {
	if len(all) == 0 {
		return nil
	}
	endpoints, err := list(ctx, tx, func(r Row) (e seedbed.Endpoint, err error) {
		err = r.Scan(&e.Name, toJSON{&e.Events})
		return e, err
	}, `SELECT name, events FROM endpoint WHERE name <> $1 ORDER BY name`, but)
	if err != nil || len(endpoints) == 0 {
		return err
	}
	made := make([][]byte, len(all)) // each event's data, once for all endpoints
	for _, e := range endpoints {
		for i, n := range all {
			if !e.Wants(n.kind) {
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

// marshal is the event's object, empty when there is nothing to tell.
func (n notice) marshal(ctx context.Context, tx *Tx) ([]byte, error) {
	v, err := n.data(ctx, tx)
	if err != nil || v == nil {
		return []byte{}, err
	}
	return json.Marshal(v)
}

// post writes one event into the outbox of one endpoint, if that is still there.
func post(ctx context.Context, tx *Tx, endpoint string, n notice, data []byte) error {
	type place struct {
		seq     int64
		enabled bool
	}
	at, err := one(ctx, tx, func(r Row) (p place, err error) {
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
	return exec(ctx, tx, `INSERT INTO outbox (endpoint, seq, id, type, subject, data, at, state) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
		endpoint, at.seq, messageID(), n.kind, clean(n.subject, 80), string(data), micros(now()), state)
}

// messageID is an event's own for one endpoint.
func messageID() string { return "msg_" + strings.ReplaceAll(uuid.NewString(), "-", "") }
