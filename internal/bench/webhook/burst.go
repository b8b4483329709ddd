package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"seedbed/internal/bench"
)

// burstTime is how long the receiver has.
const burstTime = 10 * time.Second

// burst sends deliveries all at once, each over a connection of its own, and
// then counts in the database what became of those that were accepted.
func burst(ctx context.Context, s setup, at store) ([]bench.Figure, error) {
	r, err := receiver(ctx, at)
	if err != nil {
		return nil, err
	}
	watched, stop := context.WithCancel(ctx)
	peak := make(chan int64, 1)
	go func() { peak <- watchRSS(watched, r.PID) }()
	answers := make([]answered, s.burst)
	times := make([]time.Duration, s.burst)
	ready, fire := sync.WaitGroup{}, make(chan struct{})
	var wg sync.WaitGroup
	ready.Add(s.burst)
	var began time.Time
	for i := range s.burst {
		wg.Go(func() {
			c := client{addr: r.Addr}
			defer c.close()
			ready.Done()
			<-fire
			answers[i], _ = c.send(name(i)) // without an answer the status is 0
			times[i] = time.Since(began)
		})
	}
	ready.Wait()
	began = time.Now()
	close(fire)
	wg.Wait()
	stop()
	rss := <-peak
	if err := r.End(); err != nil {
		return nil, err
	}
	accepted, inTime, put, unanswered, odd := map[string]string{}, 0, 0, 0, 0
	for i, a := range answers {
		switch a.status {
		case http.StatusAccepted:
			accepted[name(i)] = a.Job
			if times[i] <= burstTime {
				inTime++
			}
		case http.StatusTooManyRequests, http.StatusServiceUnavailable:
			put++
		case 0:
			unanswered++
		default:
			odd++
		}
	}
	lost, doubled, err := count(ctx, at, accepted)
	if err != nil {
		return nil, err
	}
	flaw := ""
	if unanswered+odd > 0 {
		flaw = fmt.Sprintf("%d deliveries got no answer, and %d another than 202, 429 and 503", unanswered, odd)
	}
	how := fmt.Sprintf("of %d at once: %d got 202, %d got 429 or 503", s.burst, len(accepted), put)
	return []bench.Figure{
		{Name: "burst_lost", Mark: bench.AtMost(0), Runs: []float64{float64(lost)}, How: "202 without its job", Flaw: flaw},
		{Name: "burst_doubled", Mark: bench.AtMost(0), Runs: []float64{float64(doubled)}, How: "jobs beyond one for each delivery"},
		{Name: "burst_accepted", Mark: bench.AtLeast(5000), Runs: []float64{float64(inTime)}, How: how + ", within 10 s"},
		{
			Name: "burst_rss_mib", Unit: "MiB", Mark: bench.AtMost(200), Runs: []float64{float64(rss) / (1 << 20)},
			How: "the most that the receiver had resident",
		},
	}, nil
}

func name(i int) string { return fmt.Sprintf("burst-%d", i) }

func watchRSS(ctx context.Context, pid int) (most int64) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if n, err := bench.RSS(pid); err == nil {
			most = max(most, n)
		}
		select {
		case <-ctx.Done():
			return most
		case <-tick.C:
		}
	}
}

// count looks for what was accepted: lost are deliveries whose job is not
// there, doubled the jobs that are more than the deliveries.
func count(ctx context.Context, at store, accepted map[string]string) (lost, doubled int, err error) {
	db, err := sql.Open("sqlite", "file:"+at.path+"?mode=ro")
	if err != nil {
		return 0, 0, err
	}
	defer db.Close()
	rows, err := db.QueryContext(ctx, "SELECT delivery.id, job.id FROM delivery JOIN job ON job.id = delivery.job")
	if err != nil {
		return 0, 0, err
	}
	defer rows.Close()
	there := map[string]string{}
	for rows.Next() {
		var id, job string
		if err := rows.Scan(&id, &job); err != nil {
			return 0, 0, err
		}
		there[id] = job
	}
	for id, job := range accepted {
		if there[id] != job {
			lost++
		}
	}
	var jobs int
	err = db.QueryRowContext(ctx, "SELECT COUNT(*) FROM job WHERE kind = 'create'").Scan(&jobs)
	return lost, jobs - len(there), errors.Join(err, rows.Err())
}
