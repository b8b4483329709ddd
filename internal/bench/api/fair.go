package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"seedbed"
	"seedbed/internal/bench"
	"seedbed/provision"
	"seedbed/provision/effects"
	"seedbed/provision/engine"
	"seedbed/provision/intake"
	"seedbed/store"
)

const (
	// fairRounds is how often the waits are measured, each time in a new database.
	fairRounds = 3
	// queued is how many jobs the large project queues, and waits how many waits of the small one are
	// measured.
	queued, waits = 10_000, 50
	// work is how long a job takes.
	work = 20 * time.Millisecond
)

// short is a planner whose jobs each have one stage, which only takes time.
type short struct{}

// Kinds implements engine.Planner.
func (short) Kinds() []seedbed.JobKind { return []seedbed.JobKind{seedbed.JobCreate} }

// Plan implements engine.Planner.
func (short) Plan(*engine.Task) engine.Plan {
	return engine.Plan{Stages: []engine.Stage{{
		Name: "work", State: seedbed.InstanceRunning,
		Run: func(ctx context.Context) error {
			select {
			case <-time.After(work):
			case <-ctx.Done():
			}
			return ctx.Err()
		},
	}}}
}

// nowhere is a fleet without nodes.
type nowhere struct{}

// Of implements engine.Fleet. It is not called, because no stage calls a worker.
func (nowhere) Of(string) effects.Worker { return nil }

// Nodes implements engine.Fleet.
func (nowhere) Nodes() []seedbed.Node { return nil }

// fairness compares how long a small project waits for a job, beside a project that has queued many
// and alone.
func fairness(ctx context.Context, dir string) (bench.Figure, error) {
	f := bench.Figure{Name: "fair_ratio", Mark: bench.AtMost(2)}
	var alone, beside, begun []float64
	for round := range fairRounds {
		one, two, err := fairRound(ctx, filepath.Join(dir, fmt.Sprintf("fair%d.db", round)))
		if err != nil {
			return f, err
		}
		alone, beside, begun = append(alone, one.ended), append(beside, two.ended), append(begun, two.began)
		f.Runs = append(f.Runs, two.ended/one.ended)
	}
	f.How = fmt.Sprintf("from the request to the end of a job of %s, beside %d of another project / alone: "+
		"%.1f ms (it begins after %.1f) / %.1f ms",
		work, queued, bench.Median(beside), bench.Median(begun), bench.Median(alone))
	return f, nil
}

// waited holds the median times from the request to the beginning and to the end of a job, in
// milliseconds.
type waited struct{ began, ended float64 }

// fairRound returns the waits alone and beside the large project, in a new database.
func fairRound(ctx context.Context, path string) (alone, beside waited, err error) {
	at := place{path: path}
	if err := furnish(ctx, at); err != nil {
		return alone, beside, err
	}
	db, err := store.Open(ctx, at.config())
	if err != nil {
		return alone, beside, err
	}
	defer db.Close()
	for _, name := range []string{"small", "large"} {
		if _, err := db.CreateProject(ctx, seedbed.Project{Name: name}); err != nil {
			return alone, beside, err
		}
	}
	requests := provision.NewIntake(db, intake.Serving{Node: "bench"})
	running, stop := context.WithCancel(ctx)
	var jobs sync.WaitGroup
	defer jobs.Wait()
	defer stop()
	e := engine.New(engine.Config{Node: "bench"}, db, nowhere{}, short{})
	jobs.Go(func() { _ = e.Run(running) })

	submit := func(project, name string) (seedbed.JobID, error) {
		r, err := requests.Submit(ctx, seedbed.Request{Action: seedbed.DoCreate, Project: project, Name: name, Profile: "small"}, nil)
		return r.Job, err
	}
	measure := func(prefix string) (waited, error) {
		var begins, ends []float64
		for n := range waits {
			asked := time.Now()
			id, err := submit("small", fmt.Sprint(prefix, n))
			if err != nil {
				return waited{}, err
			}
			j, err := ended(ctx, db, id)
			if err != nil {
				return waited{}, err
			}
			begins = append(begins, j.Started.Sub(asked).Seconds()*1000)
			ends = append(ends, j.Ended.Sub(asked).Seconds()*1000)
		}
		return waited{bench.Median(begins), bench.Median(ends)}, nil
	}
	if alone, err = measure("alone"); err != nil {
		return alone, beside, err
	}
	began := time.Now()
	if err := fillQueue(func(n int) error {
		_, err := submit("large", fmt.Sprint("vm-", n))
		return err
	}); err != nil {
		return alone, beside, err
	}
	fmt.Fprintf(os.Stderr, "fair: %d jobs queued in %.1f s\n", queued, time.Since(began).Seconds())
	if beside, err = measure("beside"); err != nil {
		return alone, beside, err
	}
	left, err := db.Counts(ctx, seedbed.InProject("large"), time.Time{})
	if err == nil && left.Jobs[seedbed.JobQueued] < queued/2 {
		err = fmt.Errorf("only %d jobs of the large project still waited at the end", left.Jobs[seedbed.JobQueued])
	}
	return alone, beside, err
}

// ended waits until a job has ended, and returns it.
func ended(ctx context.Context, db *store.DB, id seedbed.JobID) (j seedbed.Job, err error) {
	for until := time.Now().Add(time.Minute); time.Now().Before(until) && err == nil; time.Sleep(2 * time.Millisecond) {
		if j, err = db.Job(ctx, id); err == nil && j.State.Terminal() {
			return j, nil
		}
	}
	return j, errors.Join(err, fmt.Errorf("job %s of the small project has not ended within a minute", id))
}

// fillQueue submits the jobs of the large project, several at a time.
func fillQueue(submit func(n int) error) error {
	var wg sync.WaitGroup
	errs := make([]error, 4*clients)
	for k := range errs {
		wg.Go(func() {
			for n := k; n < queued && errs[k] == nil; n += len(errs) {
				errs[k] = submit(n)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
