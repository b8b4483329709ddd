//go:build integration

package provision

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"seedbed"
	testlab "seedbed/internal/lab"
	"seedbed/internal/testdb"
)

// TestPostgresCrashes crashes PostgreSQL repeatedly while webhooks arrive and jobs run. The sender
// repeats each webhook until it is acknowledged. In the end each delivery has one job, every job
// has ended, and each instance has one domain and one volume.
func TestPostgresCrashes(t *testing.T) {
	server := testlab.Postgres(t)
	l := newLabOn(t, testdb.OpenPostgres(t, server))
	l.lease = 2 * time.Second
	l.withProfile(seedbed.ReadyReport)
	ctx := t.Context()
	engine := l.start()

	const senders, each = 4, 25
	var mu sync.Mutex
	acknowledged := map[string]seedbed.JobID{}
	var group sync.WaitGroup
	for s := range senders {
		group.Go(func() {
			for n := range each {
				name := fmt.Sprintf("web%d-%d", s, n)
				for {
					receipt, err := l.intake.Submit(ctx, seedbed.Request{Action: "create", Name: name, Profile: "small"},
						&seedbed.Delivery{Hook: "ci", ID: name, SHA256: sha256.Sum256([]byte(name)), Received: time.Now()})
					if err == nil {
						mu.Lock()
						acknowledged[name] = receipt.Job
						mu.Unlock()
						break
					}
					if !errors.Is(err, seedbed.ErrUnavailable) {
						t.Errorf("%s: %v", name, err)
						return
					}
				}
			}
		})
	}
	crashes := 0
	for ; crashes < 12 && done(l) < senders*each+1; crashes++ {
		server.Restart(t, "immediate")
		before := done(l)
		testlab.Await(t, testlab.Patience, "a job ends after a crash", func() bool { n := done(l); return n > before || n == senders*each+1 })
	}
	if crashes < 5 {
		t.Errorf("the work was done after %d crashes: want more of it", crashes)
	}
	group.Wait()
	testlab.Await(t, 5*time.Minute, "every job has ended", func() bool { return done(l) == senders*each+1 })
	if len(acknowledged) != senders*each {
		t.Fatalf("%d deliveries were acknowledged", len(acknowledged))
	}
	t.Logf("%d jobs, %d crashes", senders*each, crashes)
	jobs, err := l.db.Jobs(ctx, 0)
	l.ok(err)
	bySubject := map[string]seedbed.JobID{}
	for _, j := range jobs {
		if j.Kind == seedbed.JobImport {
			continue
		}
		if other, twice := bySubject[j.Subject]; twice {
			t.Errorf("%s has jobs %s and %s", j.Subject, other, j.ID)
		}
		bySubject[j.Subject] = j.ID
		if j.State != seedbed.JobSucceeded {
			t.Errorf("%s: %s: %s\n%s", j.Subject, j.State, j.Error, l.history(j.ID))
		}
	}
	deliveries, err := l.db.Deliveries(ctx, seedbed.DeliveryQuery{})
	l.ok(err)
	if len(deliveries) != len(acknowledged) || len(bySubject) != len(acknowledged) {
		t.Errorf("%d deliveries and %d jobs for %d acknowledgements", len(deliveries), len(bySubject), len(acknowledged))
	}
	for _, d := range deliveries {
		if acknowledged[d.ID] != d.Job || bySubject[d.ID] != d.Job {
			t.Errorf("delivery %s led to %s, was acknowledged with %s, and its job is %s", d.ID, d.Job, acknowledged[d.ID], bySubject[d.ID])
		}
	}
	instances, err := l.db.Instances(ctx)
	l.ok(err)
	addresses := map[string]bool{}
	for _, i := range instances {
		addresses[i.NICs[0].Addr.String()] = true
	}
	domains, err := l.hv.Domains(ctx)
	l.ok(err)
	volumes, err := l.pool.Volumes(ctx)
	l.ok(err)
	if n := len(acknowledged); len(instances) != n || len(addresses) != n || len(domains) != n || len(volumes) != n {
		t.Errorf("%d instances, %d addresses, %d domains and %d volumes for %d deliveries",
			len(instances), len(addresses), len(domains), len(volumes), n)
	}
	engine.stop()
	l.lookedAtLast()
}

// done counts the jobs that have ended; 0 while the database is away.
func done(l *lab) (n int) {
	jobs, err := l.db.Jobs(l.t.Context(), 0)
	if err != nil {
		return 0
	}
	for _, j := range jobs {
		if j.State.Terminal() {
			n++
		}
	}
	return n
}
