package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the drivers of the bare rows
	_ "modernc.org/sqlite"

	"seedbed/internal/bench"
)

// clients is how many there are on both sides.
const clients = 64

// together has all clients do something again and again for a while, and gives
// how often a second it was done.
func together(length time.Duration, do func(client, n int) error) (float64, error) {
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

// compared is what the turns of both sides gave.
type compared struct{ ratios, accepted, bare []float64 }

func (c compared) how() string {
	return fmt.Sprintf("deliveries accepted / bare rows committed, 64 clients: %.0f/s / %.0f/s", bench.Median(c.accepted), bench.Median(c.bare))
}

// ratio has deliveries and bare rows take turns.
func ratio(ctx context.Context, s setup, at store) (c compared, err error) {
	rows, err := openBare(at)
	if err != nil {
		return c, err
	}
	defer rows.Close()
	r, err := receiver(ctx, at)
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, r.end()) }()
	var senders [clients]client
	for k := range senders {
		senders[k].addr = r.addr
		defer senders[k].close()
	}
	for turn := -1; turn < s.runs && ctx.Err() == nil; turn++ {
		accepted, err := together(s.length, func(k, n int) error {
			a, err := senders[k].send(fmt.Sprintf("t%d-%d-%d", turn+1, k, n))
			if err == nil && a.status != http.StatusAccepted {
				err = fmt.Errorf("a delivery was answered %d", a.status)
			}
			return err
		})
		if err != nil {
			return c, err
		}
		bare, err := together(s.length, func(k, n int) error { return insert(ctx, rows, fmt.Sprintf("t%d-%d-%d", turn, k, n)) })
		if err != nil {
			return c, err
		}
		if turn < 0 {
			continue // to warm up
		}
		c.accepted, c.bare, c.ratios = append(c.accepted, accepted), append(c.bare, bare), append(c.ratios, accepted/bare)
	}
	return c, ctx.Err()
}

// openBare opens a store of its own with the settings of the receiver's, with a
// connection for each client.
func openBare(at store) (db *sql.DB, err error) {
	if at.dsn != "" {
		db, err = sql.Open("pgx", at.bare)
	} else {
		db, err = sql.Open("sqlite", "file:"+at.bare+"?_txlock=immediate&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(60000)")
	}
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(clients)
	db.SetMaxIdleConns(clients)
	_, err = db.Exec("CREATE TABLE bare (id varchar(64) PRIMARY KEY, body varchar(1000) NOT NULL, at bigint NOT NULL)")
	return db, err
}

const bareBody = `{"action":"create","name":"web1","profile":"small","params":{"vcpus":2,"memory":"1GiB"}}`

// insert writes one row and commits it.
func insert(ctx context.Context, db *sql.DB, id string) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // does nothing after Commit
	if _, err := tx.ExecContext(ctx, "INSERT INTO bare (id, body, at) VALUES ($1, $2, $3)", id, bareBody, time.Now().UnixMicro()); err != nil {
		return err
	}
	return tx.Commit()
}

// rate is how many deliveries a second come in a steady stream.
const rate = 200

// steady sends at a fixed rate, whatever the answers take, and gives the 99th
// percentile of how long they took in milliseconds, once per run.
func steady(ctx context.Context, s setup, at store) (runs []float64, err error) {
	r, err := receiver(ctx, at)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.end()) }()
	free := make(chan *client, clients)
	for range clients {
		free <- &client{addr: r.addr}
	}
	for run := range s.runs {
		n := int(s.length.Seconds() * rate)
		took := make([]time.Duration, n)
		errs := make([]error, n)
		var wg sync.WaitGroup
		tick := time.NewTicker(time.Second / rate)
		for i := range n {
			<-tick.C
			due := time.Now()
			wg.Go(func() {
				c := <-free
				a, err := c.send(fmt.Sprintf("s%d-%d", run, i))
				free <- c
				if took[i], errs[i] = time.Since(due), err; err == nil && a.status != http.StatusAccepted {
					errs[i] = fmt.Errorf("a delivery was answered %d", a.status)
				}
			})
		}
		tick.Stop()
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			return nil, err
		}
		slices.Sort(took)
		runs = append(runs, float64(took[n*99/100].Microseconds())/1000)
	}
	for range clients {
		(<-free).close()
	}
	return runs, ctx.Err()
}
