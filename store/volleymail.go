package store

import (
	"context"
	"strings"

	"github.com/google/uuid"

	"seedbed"
)

// mail is what a volley puts into one endpoint's outbox.
type mail struct {
	endpoint string
	rows     [][]any
}

const mailTypes = "ttttit"

// insertMail takes numbers $2 of endpoint $1 and writes as many rows, in their
// order. An endpoint that was disabled gets them as skipped.
const insertMail = `
	WITH place AS (UPDATE endpoint SET seq = seq + $2 WHERE name = $1 RETURNING seq - $2 AS before, enabled)
	INSERT INTO outbox (endpoint, seq, id, type, subject, data, at, state)
	SELECT $1, place.before + one.nth, one.id, one.type, one.subject, one.data, one.at, CASE WHEN place.enabled = 1 THEN one.state ELSE '` + string(seedbed.OutgoingSkipped) + `' END
	FROM place, unnest($3::text[], $4::text[], $5::text[], $6::text[], $7::bigint[], $8::text[]) WITH ORDINALITY AS one (id, type, subject, data, at, state, nth)`

// address puts the events into the outboxes of those who want them, as emit
// does: an endpoint's row is locked last, and in the order of their names.
func (p *pile) address(ctx context.Context, all []notice) (err error) {
	made := make([][]byte, len(all)) // each event's data, once for all endpoints
	for _, e := range p.told.endpoints {
		m := mail{endpoint: e.Name}
		for i, n := range all {
			if !e.Wants(n.kind) {
				continue
			}
			if made[i] == nil {
				if made[i], err = n.marshal(ctx, nil); err != nil {
					return err
				}
			}
			if len(made[i]) > 0 {
				m.rows = append(m.rows, []any{messageID(), n.kind, clean(n.subject, 80), string(made[i]), now().UnixMicro(), string(seedbed.OutgoingPending)})
			}
		}
		if len(m.rows) > 0 {
			p.mail = append(p.mail, m)
		}
	}
	return nil
}

// messageID is an event's own for one endpoint.
func messageID() string { return "msg_" + strings.ReplaceAll(uuid.NewString(), "-", "") }
