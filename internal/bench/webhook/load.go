package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"seedbed/internal/bench"
	"seedbed/internal/bench/bare"
)

// clients is how many there are on both sides.
const clients = 64

// compared is what the turns of both sides gave.
type compared struct {
	ratios, accepted, bare []float64
	// delivery and row are what each of them takes.
	delivery, row costs
}

func (c compared) how() string {
	return fmt.Sprintf("deliveries accepted / bare rows committed, 64 clients: %.0f/s / %.0f/s; us of processors each: %s / %s",
		bench.Median(c.accepted), bench.Median(c.bare), c.delivery, c.row)
}

// ratio has deliveries and bare rows take turns.
func ratio(ctx context.Context, s setup, at store) (c compared, err error) {
	rows, err := openRows(at)
	if err != nil {
		return c, err
	}
	defer rows.Close()
	r, err := receiver(ctx, at)
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, r.End()) }()
	var senders [clients]client
	for k := range senders {
		senders[k].addr = r.Addr
		defer senders[k].close()
	}
	m, stop, err := meterOf(ctx, at, rows, r.PID)
	if err != nil {
		return c, err
	}
	defer stop()
	for turn := -1; turn < s.runs && ctx.Err() == nil; turn++ {
		before, err := m.read()
		if err != nil {
			return c, err
		}
		accepted, err := bare.Together(clients, s.length, func(k, n int) error {
			a, err := senders[k].send(fmt.Sprintf("t%d-%d-%d", turn+1, k, n))
			if err == nil && a.status != http.StatusAccepted {
				err = fmt.Errorf("a delivery was answered %d", a.status)
			}
			return err
		})
		if err != nil {
			return c, err
		}
		between, err := m.read()
		if err != nil {
			return c, err
		}
		committed, err := bare.Together(clients, s.length,
			func(k, n int) error { return bare.Insert(ctx, rows, fmt.Sprintf("t%d-%d-%d", turn, k, n), bareBody) })
		if err != nil {
			return c, err
		}
		after, err := m.read()
		if err != nil {
			return c, err
		}
		if turn < 0 {
			continue // to warm up
		}
		c.delivery.add(before, between, accepted*s.length.Seconds())
		c.row.add(between, after, committed*s.length.Seconds())
		c.accepted, c.bare, c.ratios = append(c.accepted, accepted), append(c.bare, committed), append(c.ratios, accepted/committed)
	}
	return c, ctx.Err()
}

// openRows opens the database of the bare rows beside a store.
func openRows(at store) (*sql.DB, error) {
	if at.dsn != "" {
		return bare.Open(at.bare, "", clients)
	}
	return bare.Open("", at.bare, clients)
}

const bareBody = `{"action":"create","name":"web1","profile":"small","params":{"vcpus":2,"memory":"1GiB"}}`

// rate is how many deliveries a second come in a steady stream.
const rate = 200

// steady sends at a fixed rate, whatever the answers take, and gives the 99th
// percentile of how long they took in milliseconds, once per run.
func steady(ctx context.Context, s setup, at store) (runs []float64, err error) {
	r, err := receiver(ctx, at)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.End()) }()
	free := make(chan *client, clients)
	for range clients {
		free <- &client{addr: r.Addr}
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
