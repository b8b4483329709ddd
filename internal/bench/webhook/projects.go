package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"seedbed/internal/bench"
	"seedbed/internal/bench/bare"
)

// manyProjects compares how many deliveries to many hooks are accepted if each hook has a project of its
// own and if all are of one. The two take turns, each with a store of its own.
func manyProjects(ctx context.Context, s setup, one, many store) (f bench.Figure, err error) {
	f = bench.Figure{Name: "projects_ratio", Mark: bench.AtLeast(0.95)}
	stores := [2]store{one, many}
	var sides [2][clients]client
	for side, at := range stores {
		r, err := receiver(ctx, at)
		if err != nil {
			return f, err
		}
		defer func() { err = errors.Join(err, r.End()) }()
		for k := range sides[side] {
			sides[side][k].addr = r.Addr
			defer sides[side][k].close()
		}
	}
	for side := range sides {
		for n := range hooks { // each client has some of the hooks
			c := &sides[side][n%clients]
			c.hooks = append(c.hooks, stores[side].hookOf(n))
		}
	}
	var rates [2][]float64
	for turn := -1; turn < s.runs && ctx.Err() == nil; turn++ {
		for side := range sides {
			rate, err := bare.Together(clients, s.length, func(k, n int) error {
				a, err := sides[side][k].send(fmt.Sprintf("t%d-%d-%d", turn+1, k, n))
				if err == nil && a.status != http.StatusAccepted {
					err = fmt.Errorf("a delivery was answered %d", a.status)
				}
				return err
			})
			if err != nil {
				return f, err
			}
			if turn >= 0 { // the first one warms up
				rates[side] = append(rates[side], rate)
			}
		}
	}
	for n := range rates[0] {
		f.Runs = append(f.Runs, rates[1][n]/rates[0][n])
	}
	f.How = fmt.Sprintf("deliveries to %d hooks accepted, each of its own project / all of one, SQLite, 64 clients: %.0f/s / %.0f/s", hooks,
		bench.Median(rates[1]), bench.Median(rates[0]))
	return f, ctx.Err()
}
