package store

import (
	"context"
	"time"

	"seedbed/store/jobs"
)

// These select the records older than $1. A delivery whose job has not ended is kept, so that a
// retry finds it.
const (
	oldDeliveries  = `FROM delivery WHERE received < $1 AND NOT EXISTS (SELECT 1 FROM job WHERE job.id = delivery.job AND job.` + jobs.Live + `)`
	oldOthers      = `FROM delivery_other WHERE received < $1`
	oldGuestEvents = `FROM guest_event WHERE at < $1`
)

// CountDeliveries counts the deliveries that DropDeliveries would delete.
func (db *DB) CountDeliveries(ctx context.Context, before time.Time) (int, error) {
	return db.sql.Count(ctx, "count deliveries", `SELECT (SELECT COUNT(*) `+oldDeliveries+`) + (SELECT COUNT(*) `+oldOthers+`)`, before)
}

// DropDeliveries deletes the deliveries that were received before that time and whose job has
// ended, and returns how many there were. If the sender retries one of them, it counts as new.
func (db *DB) DropDeliveries(ctx context.Context, before time.Time) (int, error) {
	n, err := db.sql.Drop(ctx, "drop deliveries", `DELETE `+oldDeliveries, before)
	if err != nil {
		return n, err
	}
	others, err := db.sql.Drop(ctx, "drop deliveries", `DELETE `+oldOthers, before)
	return n + others, err
}

// CountGuestEvents counts the events that DropGuestEvents would delete.
func (db *DB) CountGuestEvents(ctx context.Context, before time.Time) (int, error) {
	return db.sql.Count(ctx, "count guest events", `SELECT COUNT(*) `+oldGuestEvents, before)
}

// DropGuestEvents deletes the guest events before that time, and returns how many there were.
func (db *DB) DropGuestEvents(ctx context.Context, before time.Time) (int, error) {
	return db.sql.Drop(ctx, "drop guest events", `DELETE `+oldGuestEvents, before)
}
