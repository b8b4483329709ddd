package store

import (
	"context"
	"database/sql"
	"fmt"

	"seedbed"
)

func scanDelivery(r row) (d seedbed.Delivery, err error) {
	var sum []byte
	if err := r.Scan(&d.Hook, &d.ID, &sum, toTime{&d.Received}, &d.Job); err != nil {
		return d, err
	}
	if copy(d.SHA256[:], sum) != len(d.SHA256) {
		return d, fmt.Errorf("delivery %q has a digest of %d bytes", d.ID, len(sum))
	}
	return d, nil
}

// Deliveries returns the newest deliveries first, at most limit and at most 1000.
func (db *DB) Deliveries(ctx context.Context, limit int) (all []seedbed.Delivery, err error) {
	err = db.view(ctx, "list deliveries", func(tx *sql.Tx) error {
		all, err = list(ctx, tx, scanDelivery, `
			SELECT hook, id, sha256, received, job FROM delivery ORDER BY received DESC, hook, id LIMIT $1`, bound(limit, 1000))
		return err
	})
	return all, err
}

// Delivery returns the delivery with the sender's id that came to hook.
func (db *DB) Delivery(ctx context.Context, hook, id string) (d seedbed.Delivery, err error) {
	err = db.view(ctx, "read delivery", func(tx *sql.Tx) error {
		d, err = readDelivery(ctx, tx, hook, id,
			seedbed.Errorf(seedbed.ErrNotFound, "delivery %q of hook %q does not exist", clean(id, maxDeliveryID), clean(hook, 80)))
		return err
	})
	return d, err
}

func readDelivery(ctx context.Context, tx *sql.Tx, hook, id string, missing error) (seedbed.Delivery, error) {
	return one(ctx, tx, scanDelivery, missing, `SELECT hook, id, sha256, received, job FROM delivery WHERE hook = $1 AND id = $2`, hook, id)
}

// maxDeliveryID bounds the sender's id of a delivery, in bytes.
const maxDeliveryID = 256

// recordDelivery writes the delivery down. When it was there already it returns
// the receipt of the job that it led to then.
func recordDelivery(ctx context.Context, tx *sql.Tx, d seedbed.Delivery, job seedbed.JobID) (old *seedbed.Receipt, err error) {
	if d.ID == "" || len(d.ID) > maxDeliveryID {
		return nil, seedbed.Errorf(seedbed.ErrInvalid, "the delivery's id has %d bytes: want 1 to %d", len(d.ID), maxDeliveryID)
	}
	made, err := affect(ctx, tx, `INSERT INTO delivery (hook, id, sha256, received, job) VALUES ($1, $2, $3, $4, $5) ON CONFLICT (hook, id) DO NOTHING`,
		d.Hook, d.ID, d.SHA256[:], micros(orNow(d.Received)), job)
	if err != nil || made == 1 {
		return nil, err
	}
	first, err := readDelivery(ctx, tx, d.Hook, d.ID, errAgain) // unless it was forgotten just now
	if err != nil {
		return nil, err
	}
	if first.SHA256 != d.SHA256 {
		return nil, seedbed.Errorf(seedbed.ErrConflict, "delivery %q was received before with another body (job %s): a new request needs a new webhook-id", d.ID, first.Job.Short())
	}
	j, err := readJob(ctx, tx, first.Job)
	return &seedbed.Receipt{Job: first.Job, State: j.State, Duplicate: true}, err
}
