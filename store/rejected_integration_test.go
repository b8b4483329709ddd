//go:build integration

package store

import (
	"context"
	"fmt"
	"testing"
	"time"

	"seedbed"
	"seedbed/internal/lab"
)

// Counts of rejections that another host is writing are not waited for by those that delete old
// ones: each host could then wait for a row of the other.
func TestPostgresRejectionsDoNotWait(t *testing.T) {
	t.Parallel()
	s := postgresServer(t)
	db := s.use(t, s.Database(t, s.template))
	day := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	rejected := func(peer int, at time.Time) seedbed.Rejection {
		return seedbed.Rejection{
			Hook: "ci", Peer: fmt.Sprintf("192.0.2.%03d", peer), Reason: "no signature matches", Times: 1, First: at, Last: at,
		}
	}
	var all []seedbed.Rejection
	for n := range 50 {
		all = append(all, rejected(n, day.Add(time.Duration(n)*time.Minute)))
	}
	ctx, cancel := context.WithTimeout(t.Context(), lab.Patience)
	defer cancel()
	if err := db.RecordRejections(ctx, all); err != nil {
		t.Fatal(err)
	}
	other := do(db.sql.Write.BeginTx(ctx, nil))(t)
	defer other.Rollback()
	if _, err := other.ExecContext(ctx, `UPDATE delivery_rejected SET times = times + 1 WHERE peer = '192.0.2.000'`); err != nil {
		t.Fatal(err)
	}

	short, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	newest := day.Add(48 * time.Hour)
	if err := db.RecordRejections(short, []seedbed.Rejection{rejected(100, newest)}); err != nil {
		t.Fatalf("the oldest row is not skipped: %v", err)
	}
	if n, err := db.DropDeliveries(short, day.Add(24*time.Hour)); err != nil || n != 49 {
		t.Errorf("%d rows deleted (%v), want the 49 that are not locked", n, err)
	}
	if err := other.Commit(); err != nil {
		t.Fatal(err)
	}
	if n := do(db.DropDeliveries(ctx, day.Add(24*time.Hour)))(t); n != 1 {
		t.Errorf("%d rows deleted, want the one that was locked", n)
	}
	if left := do(db.Rejections(ctx, seedbed.RejectionQuery{Hook: "ci"}))(t); len(left) != 1 || !left[0].Last.Equal(newest) {
		t.Errorf("%+v is left, want only the newest", left)
	}
}
