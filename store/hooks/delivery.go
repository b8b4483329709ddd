package hooks

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"seedbed"
	"seedbed/store/groupcommit"
	"seedbed/store/outbox"
	"seedbed/store/sqldb"
)

// The history is kept in two tables: deliveries that have a job or were carried out without one, whose
// id is used up, and all others. A list leaves out the payloads. A delivery that was accepted in the end hides the earlier
// decisions about it.
const (
	deliveryColumns = `hook, id, sha256, received, peer, headers` // which both tables have
	deliveryRows    = `
		SELECT ` + deliveryColumns + `, CASE job WHEN '' THEN 'done' ELSE 'accepted' END AS decision, detail, job, %s AS payload
			FROM delivery WHERE %s
		UNION ALL
		SELECT ` + deliveryColumns + `, decision, detail, '' AS job, %s AS payload FROM delivery_other WHERE %s
			AND NOT EXISTS (SELECT 1 FROM delivery WHERE delivery.hook = delivery_other.hook AND delivery.id = delivery_other.id)`
)

func scanDelivery(r sqldb.Row) (d seedbed.Delivery, err error) {
	var sum []byte
	if err := r.Scan(&d.Hook, &d.ID, &sum, sqldb.ToTime(&d.Received), &d.Peer, sqldb.ToJSON(&d.Headers),
		&d.Decision, &d.Detail, &d.Job, sqldb.ToBlob(&d.Payload)); err != nil {
		return d, err
	}
	if copy(d.SHA256[:], sum) != len(d.SHA256) {
		return d, fmt.Errorf("delivery %q has a digest of %d bytes", d.ID, len(sum))
	}
	return d, nil
}

// Deliveries returns the deliveries of a query without their payloads, newest first.
func (s *Store) Deliveries(ctx context.Context, q seedbed.DeliveryQuery) (all []seedbed.Delivery, err error) {
	w := &sqldb.Where{}
	ofProject(w, q.Project)
	if q.Hook != "" {
		w.And("hook = %s", q.Hook)
	}
	if q.ID != "" {
		w.And("id = %s", q.ID)
	}
	if !q.Since.IsZero() {
		w.And("received >= %s", sqldb.Micros(q.Since))
	}
	if q.After.ID != "" {
		at := sqldb.Micros(q.After.Received)
		w.And("(received < %s OR received = %s AND (hook, id) > (%s, %s))", at, at, q.After.Hook, q.After.ID)
	}
	accepted, others := w.String(), w.String()
	switch q.Decision {
	case "":
	case seedbed.DecisionAccepted:
		accepted, others = accepted+" AND job <> ''", "1 = 0"
	case seedbed.DecisionDone:
		accepted, others = accepted+" AND job = ''", "1 = 0"
	default:
		accepted = "1 = 0"
		w.And("decision = %s", q.Decision)
		others = w.String()
	}
	query := fmt.Sprintf(deliveryRows+` ORDER BY received DESC, hook, id LIMIT $%d`, "NULL", accepted, "NULL", others, len(w.Args)+1)
	err = s.db.View(ctx, "list deliveries", func(tx *sqldb.Tx) error {
		all, err = sqldb.List(ctx, tx, scanDelivery, query, append(w.Args, sqldb.UpTo(q.Limit))...)
		return err
	})
	return all, err
}

// Delivery returns the delivery to hook that has the sender's id, with its payload if that was
// kept.
func (s *Store) Delivery(ctx context.Context, hook, id string) (d seedbed.Delivery, err error) {
	const oneOf = `hook = $1 AND id = $2`
	err = s.db.View(ctx, "read delivery", func(tx *sqldb.Tx) error {
		d, err = sqldb.One(ctx, tx, scanDelivery,
			seedbed.Errorf(seedbed.ErrNotFound, "delivery %q of hook %q does not exist", sqldb.Clean(id, maxDeliveryID), sqldb.Clean(hook, 80)),
			fmt.Sprintf(deliveryRows, "payload", oneOf, "payload", oneOf), hook, id)
		return err
	})
	return d, err
}

// maxDeliveryID is the largest size in bytes of the sender's id of a delivery.
const maxDeliveryID = 256

// CheckDelivery returns ErrInvalid unless the ID of a delivery has a valid length.
func CheckDelivery(d seedbed.Delivery) error {
	if d.ID == "" || len(d.ID) > maxDeliveryID {
		return seedbed.Errorf(seedbed.ErrInvalid, "the delivery's id has %d bytes: expected 1 to %d", len(d.ID), maxDeliveryID)
	}
	return nil
}

// deliveryTable is where recordDelivery adds rows.
var deliveryTable = sqldb.Table{Rank: 1, Into: `delivery (` + deliveryColumns + `, job, payload)`}

// deliveryValues returns the values of deliveryColumns.
func deliveryValues(d seedbed.Delivery) []any {
	return []any{d.Hook, d.ID, d.SHA256[:], sqldb.Micros(sqldb.OrNow(d.Received)), d.Peer, sqldb.AsJSON(sqldb.OrEmptyMap(d.Headers))}
}

// AddDelivery uses up the id of the request's delivery. The job's row must exist.
func AddDelivery(tx *sqldb.Tx, a seedbed.Acceptance) {
	if a.Delivery == nil {
		return
	}
	d := *a.Delivery
	tx.Add(deliveryTable, append(deliveryValues(d), string(a.Job.ID), sqldb.Blob(d.Payload))...)
}

// doneTable is where AddDone adds rows.
var doneTable = sqldb.Table{Rank: 1, Into: `delivery (` + deliveryColumns + `, job, payload, detail)`}

// AddDone uses up the id of the delivery that asks for a change, in the transaction of the change. The
// transaction fails if it is used up.
func AddDone(tx *sqldb.Tx, c *seedbed.Change) {
	if c != nil && c.Delivery != nil {
		tx.Add(doneTable, doneValues(*c.Delivery)...)
	}
}

// doneValues returns the values of the columns of doneTable.
func doneValues(d seedbed.Delivery) []any {
	return append(deliveryValues(d), "", sqldb.Blob(d.Payload), sqldb.Clean(d.Detail, sqldb.MaxText))
}

// EarlierReceipt returns the receipt of a delivery that was accepted before, or nil if it was not.
// That of one that was carried out without a job has none. It returns ErrConflict if the delivery's ID was accepted with another body.
func (s *Store) EarlierReceipt(ctx context.Context, d seedbed.Delivery) (r *seedbed.Receipt, err error) {
	err = s.db.View(ctx, "read receipt", func(tx *sqldb.Tx) error {
		r, err = ReadReceipt(ctx, tx, d)
		return err
	})
	return r, err
}

// ReadReceipt is EarlierReceipt in a transaction.
func ReadReceipt(ctx context.Context, tx *sqldb.Tx, d seedbed.Delivery) (*seedbed.Receipt, error) {
	var sum []byte
	var r seedbed.Receipt
	err := tx.QueryRowContext(ctx, `SELECT delivery.sha256, delivery.job, COALESCE(job.state, '')
		FROM delivery LEFT JOIN job ON job.id = delivery.job
		WHERE delivery.hook = $1 AND delivery.id = $2 AND (delivery.job = '' OR job.id IS NOT NULL)`, d.Hook, d.ID).Scan(&sum, &r.Job, &r.State)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, nil
	case err != nil:
		return nil, err
	case string(sum) != string(d.SHA256[:]) && r.Job == "":
		return nil, seedbed.Errorf(seedbed.ErrConflict, "delivery %q was received before with another body: a new request needs a new webhook-id",
			d.ID)
	case string(sum) != string(d.SHA256[:]):
		return nil, seedbed.Errorf(seedbed.ErrConflict,
			"delivery %q was received before with another body (job %s): a new request needs a new webhook-id", d.ID, r.Job.Short())
	}
	r.Duplicate = true
	return &r, nil
}

// RecordDelivery adds to the history a delivery that led to no job. If the sender sends it again,
// it is evaluated again, and the last decision is kept. The id of one that is done is used up; it is not
// recorded again.
func (s *Store) RecordDelivery(ctx context.Context, d seedbed.Delivery) error {
	if err := CheckDelivery(d); err != nil {
		return err
	}
	return s.writes.Together(ctx, "record delivery",
		groupcommit.Change{Do: func(_ context.Context, b *groupcommit.Batch) ([]outbox.Event, error) {
			if d.Decision == seedbed.DecisionDone {
				b.Later(`INSERT INTO delivery (`+deliveryColumns+`, job, payload, detail) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
				ON CONFLICT DO NOTHING`, doneValues(d)...)
				return nil, nil
			}
			b.Later(`
			INSERT INTO delivery_other (`+deliveryColumns+`, decision, detail, payload)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
			ON CONFLICT (hook, id) DO UPDATE SET sha256 = excluded.sha256, received = excluded.received, decision = excluded.decision,
				detail = excluded.detail, peer = excluded.peer, headers = excluded.headers, payload = excluded.payload`,
				append(deliveryValues(d), d.Decision, sqldb.Clean(d.Detail, sqldb.MaxText), sqldb.Blob(d.Payload))...)
			return nil, nil
		}})
}

// These select the deliveries before $1. A delivery whose job has not ended is kept, so that a retry
// finds it. oldRejected is only the condition.
const (
	oldDeliveries = `FROM delivery WHERE received < $1 AND NOT EXISTS (
		SELECT 1 FROM job WHERE job.id = delivery.job AND job.state IN ('queued', 'running', 'undoing'))`
	oldOthers   = `FROM delivery_other WHERE received < $1`
	oldRejected = `last_at < $1`
)

// CountDeliveries counts the deliveries that DropDeliveries would delete.
func (s *Store) CountDeliveries(ctx context.Context, before time.Time) (int, error) {
	return s.db.Count(ctx, "count deliveries", `SELECT (SELECT COUNT(*) `+oldDeliveries+`) + (SELECT COUNT(*) `+oldOthers+`)
		+ (SELECT COUNT(*) FROM delivery_rejected WHERE `+oldRejected+`)`, before)
}

// DropDeliveries deletes the deliveries that were received before that time and whose job has
// ended, and returns how many there were. If the sender retries one of them, it counts as new.
func (s *Store) DropDeliveries(ctx context.Context, before time.Time) (int, error) {
	total := 0
	for _, old := range []string{oldDeliveries, oldOthers, s.freeRejected(oldRejected)} {
		n, err := s.db.Drop(ctx, "drop deliveries", `DELETE `+old, before)
		if total += n; err != nil {
			return total, err
		}
	}
	return total, nil
}
