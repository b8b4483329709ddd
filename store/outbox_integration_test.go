//go:build integration

package store

import (
	"context"
	"testing"
	"time"

	"seedbed"
	"seedbed/store/outbox"
	"seedbed/store/sqldb"
)

// The transactions of two changes overlap. The second waits for its seq until the first has ended,
// so that a lower seq never appears later, and a rollback leaves no gap.
func TestPostgresOutboxOrder(t *testing.T) {
	s := postgresServer(t)
	for name, commit := range map[string]bool{"commit": true, "rollback": false} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			db := s.fresh(t)
			do(db.CreateEndpoint(ctx, seedbed.Endpoint{Name: "ci", URL: "https://ci.example/", Events: []string{"*"},
				Keys: []seedbed.EndpointKey{{Key: make([]byte, 32)}}}))(t)
			first := do(db.sql.Write.BeginTx(ctx, db.sql.Dialect.Writing))(t)
			if err := outbox.Emit(ctx, &sqldb.Tx{Tx: first},
				outbox.Event{Kind: seedbed.EventCleanupFinished, Subject: "first", Data: outbox.Fixed(1)}); err != nil {
				t.Fatal(err)
			}
			second := make(chan error, 1)
			go func() { second <- db.CleanupFinished(ctx, nil) }()
			awaitLocks(ctx, t, db, 1)
			if all := do(db.OutgoingDeliveries(ctx, "ci", seedbed.OutgoingQuery{}))(t); len(all) != 0 {
				t.Fatalf("visible before the commit: %+v", all)
			}
			end, want := first.Rollback, []string{"cleanup"}
			if commit {
				end, want = first.Commit, []string{"cleanup", "first"}
			}
			if err := end(); err != nil {
				t.Fatal(err)
			}
			if err := <-second; err != nil {
				t.Fatal(err)
			}
			all := do(db.OutgoingDeliveries(ctx, "ci", seedbed.OutgoingQuery{}))(t)
			if len(all) != len(want) {
				t.Fatalf("%d deliveries, want %d", len(all), len(want))
			}
			for n, o := range all {
				if o.Subject != want[n] || o.Seq != int64(len(want)-n) {
					t.Errorf("%d is %s", o.Seq, o.Subject)
				}
			}
		})
	}
}
