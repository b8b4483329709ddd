//go:build integration

package store

import (
	"context"
	"testing"
	"time"

	"seedbed"
	"seedbed/internal/lab"
	"seedbed/store/sqldb"
)

// Two hosts number their writes in overlapping transactions. A deferred trigger holds the first
// transaction at its commit. The second waits for its number, and no reader sees either. Afterwards
// no number is missing, even if the first transaction failed.
func TestPostgresInterleaved(t *testing.T) {
	s := postgresServer(t)
	for name, test := range map[string]struct {
		table string
		// write lets one of the two hosts write. seen returns the visible numbers.
		prepare func(t *testing.T, db *DB) (write func(ctx context.Context, db *DB, n int) error, seen func(ctx context.Context) []int64)
	}{
		"revisions of a feed": {"feed", func(t *testing.T, db *DB) (func(context.Context, *DB, int) error, func(context.Context) []int64) {
			var refs [2]seedbed.JobRef
			var guests [2]seedbed.Guest
			for n, name := range []string{"web1", "web2"} {
				refs[n], guests[n] = publisher(t, db, name)
			}
			generation := do(db.FeedPage(t.Context(), "hv1", 0, ""))(t).Generation
			return func(ctx context.Context, db *DB, n int) error {
					_, err := db.Publish(ctx, refs[n], "hv1", guests[n], seedbed.Documents{UserData: []byte("#cloud-config\n")})
					return err
				}, func(ctx context.Context) (all []int64) {
					page := do(db.FeedPage(ctx, "hv1", 0, generation))(t)
					for _, c := range page.Changes {
						all = append(all, c.Revision)
					}
					if len(all) > 0 && page.Revision != all[len(all)-1] {
						t.Errorf("the page is of revision %d, and its changes end with %d", page.Revision, all[len(all)-1])
					}
					return all
				}
		}},
		"events of a job": {"job_event", func(t *testing.T, db *DB) (func(context.Context, *DB, int) error, func(context.Context) []int64) {
			ref, _ := publisher(t, db, "web1")
			last := lastEvent(t, db, ref.ID)
			return func(ctx context.Context, db *DB, _ int) error {
					return db.LogEvent(ctx, ref, seedbed.Event{Msg: "line"})
				}, func(ctx context.Context) (all []int64) {
					for _, e := range do(db.Events(ctx, ref.ID, last, 0))(t) {
						all = append(all, e.Seq-last)
					}
					return all
				}
		}},
	} {
		for end, fails := range map[string]bool{"commit": false, "rollback": true} {
			t.Run(name+", "+end, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
				defer cancel()
				database := s.Database(t, s.template)
				first, second, reader := s.use(t, database), s.use(t, database), s.use(t, database)
				write, seen := test.prepare(t, reader)
				release := heldAtCommit(ctx, t, reader, test.table, fails)
				firstDone, secondDone := make(chan error, 1), make(chan error, 1)
				go func() { firstDone <- write(ctx, first, 0) }()
				awaitLocks(ctx, t, reader, 1)
				go func() { secondDone <- write(ctx, second, 1) }()
				awaitLocks(ctx, t, reader, 2)
				if all := seen(ctx); len(all) != 0 {
					t.Errorf("visible before the commit: %v", all)
				}
				release()
				if err := <-firstDone; (err != nil) != fails {
					t.Errorf("the first: %v", err)
				}
				if err := <-secondDone; err != nil {
					t.Errorf("the second: %v", err)
				}
				want := 2
				if fails {
					want = 1
				}
				all := seen(ctx)
				if len(all) != want {
					t.Fatalf("%v are visible; want %d", all, want)
				}
				for n, number := range all {
					if number != int64(n+1) {
						t.Errorf("number %d is %d", n+1, number)
					}
				}
			})
		}
	}
}

// lastEvent returns the seq of a job's last event.
func lastEvent(t *testing.T, db *DB, id seedbed.JobID) int64 {
	t.Helper()
	all := do(db.Events(t.Context(), id, 0, 0))(t)
	return all[len(all)-1].Seq
}

// heldAtCommit holds only the next transaction that writes to the table, at its commit, until
// release is called. Then the transaction commits or fails.
func heldAtCommit(ctx context.Context, t *testing.T, db *DB, table string, fails bool) (release func()) {
	t.Helper()
	const hold = 1 // an advisory lock, like 2, which the held transaction keeps
	end := ""
	if fails {
		end = "RAISE EXCEPTION 'held and failed';"
	}
	for _, statement := range []string{
		`CREATE FUNCTION held() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			IF pg_try_advisory_lock(2) THEN PERFORM pg_advisory_xact_lock(1); ` + end + ` END IF; RETURN NULL; END $$`,
		`CREATE CONSTRAINT TRIGGER held AFTER INSERT OR UPDATE ON ` + table +
			` DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION held()`,
	} {
		do(db.sql.Write.ExecContext(ctx, statement))(t)
	}
	conn := do(db.sql.Write.Conn(ctx))(t)
	t.Cleanup(func() { conn.Close() })
	do(conn.ExecContext(ctx, `SELECT pg_advisory_lock($1)`, hold))(t)
	return func() {
		do(conn.ExecContext(ctx, `SELECT pg_advisory_unlock($1)`, hold))(t)
	}
}

// awaitLocks waits until the server reports that want of the database's connections wait for a
// lock.
func awaitLocks(ctx context.Context, t *testing.T, db *DB, want int) {
	t.Helper()
	lab.Await(t, lab.Patience, "waiting for locks", func() bool {
		return do(sqldb.Value[int](db.sql.Read.QueryRowContext(ctx,
			`SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`)))(t) >= want
	})
}
