//go:build integration

package store

import (
	"context"
	"testing"
	"time"

	"seedbed"
)

// claimed returns a running job in the stage one.
func claimed(t *testing.T, db *DB, image string) seedbed.Job {
	t.Helper()
	do(acceptImport(t.Context(), db, image))(t)
	j := do(db.ClaimJob(t.Context(), "one", time.Hour))(t)
	if err := db.Step(t.Context(), j.Ref(), seedbed.Step{Next: "one", Total: 2}); err != nil {
		t.Fatal(err)
	}
	return *j
}

// A locked row of a job blocks only that job's steps.
func TestPostgresStepOfALockedJob(t *testing.T) {
	db := postgresServer(t).fresh(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	locked, free := claimed(t, db, "debian"), claimed(t, db, "alpine")
	other := do(db.sql.Write.BeginTx(ctx, db.sql.Dialect.Writing))(t)
	defer other.Rollback()
	do(other.ExecContext(ctx, `UPDATE job SET progress = 50 WHERE id = $1`, locked.ID))(t)
	first := make(chan error, 1)
	step := seedbed.Step{Done: "one", Next: "two"}
	go func() { first <- db.Step(ctx, locked.Ref(), step) }()
	// Wait until the server reports that the step waits for the lock.
	for waiting := 0; waiting == 0; {
		err := db.sql.Read.QueryRowContext(ctx,
			`SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&waiting)
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Step(ctx, free.Ref(), step); err != nil {
		t.Fatal(err)
	}
	if err := other.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := <-first; err != nil {
		t.Fatal(err)
	}
	if j := do(db.Job(ctx, locked.ID))(t); j.Stage != "two" || j.Done != 1 {
		t.Errorf("job %+v", j)
	}
}

// An endpoint that another process has just created receives the events of a stage, a claim and an
// end.
func TestPostgresStepIsTold(t *testing.T) {
	s := postgresServer(t)
	name := s.Database(t, s.template)
	ctx, db, another := t.Context(), s.use(t, name), s.use(t, name)
	j := claimed(t, db, "debian") // by now it is known that no endpoint wants events
	do(another.CreateEndpoint(ctx, seedbed.Endpoint{Name: "ci", URL: "https://ci.example/",
		Events: []string{seedbed.EventJobStarted, seedbed.EventJobStage, seedbed.EventJobSucceeded},
		Keys:   []seedbed.EndpointKey{{Key: make([]byte, 32)}}}))(t)
	if err := db.Step(ctx, j.Ref(), seedbed.Step{Done: "one", Next: "two"}); err != nil {
		t.Fatal(err)
	}
	if err := db.Step(ctx, j.Ref(), seedbed.Step{Done: "two"}); err != nil {
		t.Fatal(err)
	}
	if err := db.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded}); err != nil {
		t.Fatal(err)
	}
	do(acceptImport(ctx, db, "alpine"))(t)
	do(db.ClaimJob(ctx, "one", time.Hour))(t)
	told := map[string]int{}
	for _, o := range do(db.OutgoingDeliveries(ctx, "ci", seedbed.OutgoingQuery{}))(t) {
		told[o.Type]++
	}
	for _, kind := range []string{seedbed.EventJobStarted, seedbed.EventJobStage, seedbed.EventJobSucceeded} {
		if told[kind] != 1 {
			t.Errorf("%s was told %d times: %v", kind, told[kind], told)
		}
	}
}
