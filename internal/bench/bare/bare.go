// Package bare is what the store is measured against: clients that insert one row
// and commit it, with the settings that the store has, and no more.
package bare

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the drivers of the rows
	_ "modernc.org/sqlite"
)

// Open opens a database of the rows' own, a PostgreSQL DSN or the path of an
// SQLite file, with a connection for each client.
func Open(dsn, path string, clients int) (db *sql.DB, err error) {
	if dsn != "" {
		db, err = sql.Open("pgx", dsn)
	} else {
		db, err = sql.Open("sqlite",
			"file:"+path+"?_txlock=immediate&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(60000)")
	}
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(clients)
	db.SetMaxIdleConns(clients)
	_, err = db.Exec("CREATE TABLE bare (id varchar(64) PRIMARY KEY, body varchar(1000) NOT NULL, at bigint NOT NULL)")
	return db, err
}

// Insert writes one row and commits it.
func Insert(ctx context.Context, db *sql.DB, id, body string) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // does nothing after Commit
	if _, err := tx.ExecContext(ctx, "INSERT INTO bare (id, body, at) VALUES ($1, $2, $3)", id, body, time.Now().UnixMicro()); err != nil {
		return err
	}
	return tx.Commit()
}

// Together has so many clients do something again and again for a while, and
// gives how often a second it was done.
func Together(clients int, length time.Duration, do func(client, n int) error) (float64, error) {
	var wg sync.WaitGroup
	var done atomic.Int64
	errs := make([]error, clients)
	began := time.Now()
	for k := range clients {
		wg.Go(func() {
			for n := 0; time.Since(began) < length; n++ {
				if errs[k] = do(k, n); errs[k] != nil {
					return
				}
				done.Add(1)
			}
		})
	}
	wg.Wait()
	return float64(done.Load()) / time.Since(began).Seconds(), errors.Join(errs...)
}
