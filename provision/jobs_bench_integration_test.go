//go:build integration

package provision

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"seedbed"
	"seedbed/internal/bench/bare"
	engines "seedbed/internal/lab"
	"seedbed/internal/testdb"
	"seedbed/provision/effects"
	"seedbed/provision/engine"
	"seedbed/provision/intake"
	"seedbed/store"
)

const (
	// noops is how many stages a job has, each of which records one event.
	noops = 10
	// writes is the minimum number of transactions of a job: its claim, and the end of each stage.
	writes = noops + 1
	// atOnce is how many jobs run at the same time, and how many clients commit bare rows.
	atOnce = 16
)

// noopPlans has one plan for imports, whose stages do nothing.
type noopPlans struct{}

func (noopPlans) Kinds() []seedbed.JobKind { return []seedbed.JobKind{seedbed.JobImport} }

func (noopPlans) Plan(t *engine.Task) (plan engine.Plan) {
	for i := range noops {
		plan.Stages = append(plan.Stages, engine.Stage{Name: "stage" + strconv.Itoa(i), Run: func(context.Context) error {
			t.Event("info", 100, "nothing is done")
			return nil
		}})
	}
	return plan
}

// BenchmarkJobs measures jobs/s of ten stages that do nothing, with their events, and in turn bare
// commits/s of one row. An iteration is one turn of both.
func BenchmarkJobs(b *testing.B) {
	for _, c := range []struct {
		name string
		open func(testing.TB) (db *store.DB, dsn, path string)
	}{
		{"sqlite", func(t testing.TB) (*store.DB, string, string) {
			return testdb.Open(t), "", filepath.Join(t.TempDir(), "bare.db")
		}},
		{"postgres", func(t testing.TB) (*store.DB, string, string) {
			server := engines.Postgres(t)
			return testdb.OpenPostgres(t, server), server.DSN(server.Database(t, "")), ""
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			db, dsn, path := c.open(b)
			defer db.Close()
			rows, err := bare.Open(dsn, path, atOnce)
			if err != nil {
				b.Fatal(err)
			}
			defer rows.Close()
			jobs := jobsPerTurn()
			var ran, committed time.Duration
			for turn := range b.N {
				ran += runJobs(b, db, turn, jobs)
				began := time.Now()
				left := make(chan int, jobs*writes)
				for i := range jobs * writes {
					left <- i
				}
				close(left)
				if err := each(atOnce, func() error {
					for i := range left {
						if err := bare.Insert(b.Context(), rows, fmt.Sprintf("%d-%d", turn, i), "a line of a job's history, and no more"); err != nil {
							return err
						}
					}
					return nil
				}); err != nil {
					b.Fatal(err)
				}
				committed += time.Since(began)
			}
			n := float64(jobs * b.N)
			b.ReportMetric(n/ran.Seconds(), "jobs/s")
			b.ReportMetric(n*writes/committed.Seconds(), "commits/s")
			b.ReportMetric(committed.Seconds()/ran.Seconds(), "ratio")
		})
	}
}

// jobsPerTurn is SEEDBED_BENCH_JOBS, or 300.
func jobsPerTurn() int {
	if n, err := strconv.Atoi(os.Getenv("SEEDBED_BENCH_JOBS")); err == nil && n > 0 {
		return n
	}
	return 300
}

// each calls do that often at the same time.
func each(times int, do func() error) error {
	errs := make(chan error, times)
	for range times {
		go func() { errs <- do() }()
	}
	var first error
	for range times {
		if err := <-errs; err != nil && first == nil {
			first = err
		}
	}
	return first
}

// runJobs queues jobs, and returns the time that an engine takes for them from its start.
func runJobs(b *testing.B, db *store.DB, turn, jobs int) time.Duration {
	b.Helper()
	ctx, stop := context.WithCancel(b.Context())
	defer stop()
	intake := NewIntake(db, intake.Serving{Node: testNode})
	for i := range jobs {
		if _, err := intake.Import(ctx, fmt.Sprintf("i%d-%d", turn, i), "default", seedbed.ImportSpec{Path: "/i.qcow2"}, usual); err != nil {
			b.Fatal(err)
		}
	}
	counted := &counter{DB: db, left: jobs, ended: make(chan struct{})}
	e := engine.New(engine.Config{Node: testNode, Workers: atOnce, Lease: time.Minute}, counted,
		engine.OneWorker(testNode, idle{}), noopPlans{})
	done := make(chan struct{})
	began := time.Now()
	go func() {
		defer close(done)
		if err := e.Run(ctx); err != nil {
			b.Error(err)
		}
	}()
	<-counted.ended
	took := time.Since(began)
	stop()
	<-done
	return took
}

// idle is a worker that is never called, on a node with nothing.
type idle struct{ effects.Worker }

func (idle) Do(ctx context.Context, x effects.Exchange) (json.RawMessage, error) {
	if !x.Endless {
		return json.Marshal(seedbed.Inventory{Complete: true})
	}
	<-ctx.Done()
	return nil, ctx.Err()
}

// counter is a store that signals when a number of jobs have succeeded.
type counter struct {
	*store.DB
	mu    sync.Mutex
	left  int
	ended chan struct{}
}

func (c *counter) Finish(ctx context.Context, ref seedbed.JobRef, out seedbed.JobResult) error {
	err := c.DB.Finish(ctx, ref, out)
	if err == nil && out.State == seedbed.JobSucceeded {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.left--; c.left == 0 {
			close(c.ended)
		}
	}
	return err
}
