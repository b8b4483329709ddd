//go:build integration

package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"seedbed"
	"seedbed/internal/lab"
	"seedbed/store/sqldb"
)

// Two transactions that wait for each other's row both succeed: PostgreSQL aborts one of them,
// which runs again.
func TestPostgresDeadlock(t *testing.T) {
	t.Parallel()
	s := postgresServer(t)
	db := s.use(t, s.Database(t, s.template))
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	ids := []seedbed.JobID{do(acceptImport(ctx, db, "a"))(t), do(acceptImport(ctx, db, "b"))(t)}
	var met sync.WaitGroup // both have locked their first row
	met.Add(2)
	var runs atomic.Int32
	var both sync.WaitGroup
	for n := range 2 {
		both.Go(func() {
			first := true
			err := db.sql.Update(ctx, "meet", func(tx *sqldb.Tx) error {
				runs.Add(1)
				for _, i := range []int{n, 1 - n} {
					if err := sqldb.Exec(ctx, tx, `UPDATE job SET progress = progress + 1 WHERE id = $1`, ids[i]); err != nil {
						return err
					}
					if first {
						first = false
						met.Done()
						met.Wait()
					}
				}
				return nil
			})
			if err != nil {
				t.Errorf("transaction %d: %v", n, err)
			}
		})
	}
	both.Wait()
	for _, id := range ids {
		if j := do(db.Job(ctx, id))(t); j.Progress != 2 {
			t.Errorf("job %s was written %d times; want 2", id, j.Progress)
		}
	}
	if runs.Load() < 3 {
		t.Errorf("the transactions ran %d times: they have not met", runs.Load())
	}
}

// A serialization failure is retried, but not forever.
func TestPostgresSerialization(t *testing.T) {
	t.Parallel()
	s := postgresServer(t)
	db := s.use(t, s.Database(t, s.template))
	for _, c := range []struct {
		failures, runs int
		want           error
	}{{0, 1, nil}, {3, 4, nil}, {1 << 20, db.sql.Dialect.Tries, seedbed.ErrUnavailable}} {
		runs := 0
		err := db.sql.Update(t.Context(), "be in the way", func(tx *sqldb.Tx) error {
			if runs++; runs > c.failures {
				return nil
			}
			return sqldb.Exec(t.Context(), tx, `DO $$ BEGIN RAISE EXCEPTION 'in the way' USING ERRCODE = '40001'; END $$`)
		})
		if !errors.Is(err, c.want) || runs != c.runs {
			t.Errorf("%d failures: %d runs, %v; want %d and %v", c.failures, runs, err, c.runs, c.want)
		}
	}
}

// When every connection is in use, a request waits no longer than its deadline, returns an error
// that says so, and leaves nothing behind. Afterwards requests succeed again.
func TestPostgresPoolExhausted(t *testing.T) {
	s := postgresServer(t)
	db := s.use(t, s.Database(t, s.template))
	var held []*sql.Tx
	for range db.sql.Write.Stats().MaxOpenConnections {
		held = append(held, do(db.sql.Write.BeginTx(t.Context(), nil))(t))
	}
	before := runtime.NumGoroutine()
	var all sync.WaitGroup
	for n := range 20 {
		all.Go(func() {
			short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			if _, err := acceptImport(short, db, fmt.Sprint("x", n)); !errors.Is(err, seedbed.ErrUnavailable) &&
				!errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("accept without a connection: %v", err)
			}
		})
	}
	all.Wait()
	lab.Await(t, lab.Patience, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= before+2 })
	for _, tx := range held {
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
	}
	do(acceptImport(t.Context(), db, "y"))(t)
	if n := len(do(db.Images(t.Context()))(t)); n != 1 {
		t.Errorf("%d images; want the last one alone", n)
	}
}
