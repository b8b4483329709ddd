package main

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"strings"
	"time"

	"seedbed/internal/bench"
)

// parts are who does what a delivery or a row takes. The senders and the clients
// of the bare rows are this process.
var parts = []string{"client", "receiver", "server"}

// used is the processor time of each part so far.
type used [3]time.Duration

// meter reads the processor time of this process, of the receiver, and of the
// database's server, where there is one.
type meter struct{ receiver, backend int }

// meterOf is the meter for a receiver on the store that rows are in.
func meterOf(ctx context.Context, at store, rows *sql.DB, receiver int) (m meter, stop func(), err error) {
	m.receiver, stop = receiver, func() {}
	if at.dsn == "" {
		return m, stop, nil
	}
	c, err := rows.Conn(ctx) // it stays, so that its process does
	if err != nil {
		return m, stop, err
	}
	return m, func() { c.Close() }, c.QueryRowContext(ctx, `SELECT pg_backend_pid()`).Scan(&m.backend)
}

func (m meter) read() (u used, err error) {
	if u[0], err = bench.CPU(os.Getpid()); err != nil {
		return u, err
	}
	if u[1], err = bench.CPU(m.receiver); err != nil || m.backend == 0 {
		return u, err
	}
	u[2], err = bench.Siblings(m.backend)
	return u, err
}

// costs are microseconds of processor time for one delivery or row, turn by turn.
type costs [3][]float64

func (c *costs) add(from, to used, each float64) {
	for i := range from {
		c[i] = append(c[i], float64((to[i]-from[i]).Microseconds())/each)
	}
}

// String is such as "client 25, receiver 80, server 90".
func (c costs) String() string {
	var all []string
	for i, name := range parts {
		if v := bench.Median(c[i]); v >= 1 {
			all = append(all, fmt.Sprintf("%s %.0f", name, v))
		}
	}
	return strings.Join(all, ", ")
}
