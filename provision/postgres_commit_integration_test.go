//go:build integration

package provision

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"testing"
	"time"

	"seedbed"
	testlab "seedbed/internal/lab"
	"seedbed/internal/sample"
	"seedbed/internal/sleep"
	"seedbed/internal/testdb"
	"seedbed/store"
)

// TestPostgresCrashesAtCommits crashes PostgreSQL at every eighth commit of an instance's jobs, with
// SEEDBED_LONG=1 at each, from the webhook that requests it to the end of its removal: before the
// server received the commit, and after the commit was done but before the client learned of it.
// Each delivery must nevertheless have one job, which succeeds, and everything must exist once, and
// later not at all.
func TestPostgresCrashesAtCommits(t *testing.T) {
	for _, when := range []struct {
		name  string
		after bool
	}{{"before", false}, {"after", true}} {
		t.Run(when.name, func(t *testing.T) {
			t.Parallel()
			server := testlab.Postgres(t)
			proxy := newCommits(t, server.SocketPath())
			l := newLabOn(t, openThrough(t, server, proxy))
			l.lease = 600 * time.Millisecond
			l.withProfile(seedbed.ReadyReport)
			engine := l.start()
			n, each := sample.Of(t, []int{1, 2, 3, 4, 5, 6, 7, 8}, 1)[0], 8
			if sample.Long() {
				each = 1
			}
			crashes := 0
			for ; ; n += each {
				proxy.arm(n, when.after)
				done := make(chan error, 1)
				go func() {
					defer close(done) // also if a check has ended this goroutine
					done <- l.comeAndGo(fmt.Sprintf("web%d", n))
				}()
				var err error
				select {
				case <-proxy.struck:
					server.Restart(t, "immediate")
					close(proxy.resume)
					err = <-done
				case err = <-done:
				}
				if err != nil || t.Failed() {
					t.Fatalf("crash at commit %d: %v", n, err)
				}
				if !proxy.disarm() {
					break
				}
				crashes++
				select {
				case <-proxy.resume:
				default: // it was at another commit, after the jobs had ended
					server.Restart(t, "immediate")
					close(proxy.resume)
				}
			}
			engine.stop()
			l.lookedAtLast()
			t.Logf("%d crashes, each at another commit", crashes)
			if n < 20 {
				t.Errorf("two jobs took %d commits: these are not all", n-1)
			}
		})
	}
}

// openThrough opens an empty store on the server, through the proxy.
func openThrough(t *testing.T, server *testlab.PostgresServer, proxy *commits) *store.DB {
	t.Helper()
	name := server.Database(t, "")
	if err := store.Migrate(t.Context(), store.Config{DSN: server.DSN(name), Log: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	host, port, err := net.SplitHostPort(proxy.addr)
	if err != nil {
		t.Fatal(err)
	}
	return testdb.OpenDSN(t, fmt.Sprintf("host=%s port=%s user=postgres dbname=%s sslmode=disable", host, port, name))
}

// comeAndGo makes and removes an instance by webhooks that are repeated until they are
// acknowledged, and checks what exists after each.
func (l *lab) comeAndGo(name string) error {
	ctx, cancel := context.WithTimeout(l.t.Context(), 5*time.Minute)
	defer cancel()
	made, err := l.deliver(ctx, seedbed.Request{Action: "create", Name: name, Profile: "small"})
	if err != nil {
		return err
	}
	if domains, volumes := l.counts(); domains != 1 || volumes != 1 {
		return fmt.Errorf("%d domains and %d volumes of one instance", domains, volumes)
	}
	l.whole(name, seedbed.InstanceRunning)
	removed, err := l.deliver(ctx, seedbed.Request{Action: "remove", Name: name})
	if err != nil {
		return err
	}
	if domains, volumes := l.counts(); domains != 0 || volumes != 0 {
		return fmt.Errorf("%d domains and %d volumes are left", domains, volumes)
	}
	if _, err := steady(ctx,
		func() (seedbed.Instance, error) {
			return l.db.InstanceByName(ctx, seedbed.InDefault(name))
		}); !errors.Is(err, seedbed.ErrNotFound) {
		return fmt.Errorf("the instance is there: %w", err)
	}
	jobs, err := steady(ctx, func() ([]seedbed.Job, error) { return l.db.Jobs(ctx, 0) })
	if err != nil {
		return err
	}
	var own []seedbed.JobID
	for _, j := range jobs {
		if j.Subject == name {
			own = append(own, j.ID)
		}
	}
	if len(own) != 2 {
		return fmt.Errorf("jobs %v; expected %s and %s", own, made, removed)
	}
	for _, id := range []seedbed.JobID{made, removed} {
		job, err := steady(ctx, func() (seedbed.Job, error) { return l.db.Job(ctx, id) })
		if err != nil {
			return err
		}
		l.checkHistory(ctx, job)
	}
	return nil
}

func (l *lab) counts() (domains, volumes int) {
	d, _ := l.hv.Domains(l.t.Context())
	v, _ := l.pool.Volumes(l.t.Context())
	return len(d), len(v)
}

// deliver sends a webhook until it is acknowledged, sends it again to see that the job stays the
// same, and waits until that has succeeded.
func (l *lab) deliver(ctx context.Context, r seedbed.Request) (seedbed.JobID, error) {
	id := r.Action + " " + r.Name
	send := func() (seedbed.Receipt, error) {
		for {
			receipt, err := l.intake.Submit(ctx, r, &seedbed.Delivery{Hook: "ci", ID: id, SHA256: sha256.Sum256([]byte(id)), Received: time.Now()})
			if !errors.Is(err, seedbed.ErrUnavailable) {
				return receipt, err
			}
		}
	}
	receipt, err := send()
	if err != nil {
		return "", fmt.Errorf("%s: %w", id, err)
	}
	if again, err := send(); err != nil || again.Job != receipt.Job || !again.Duplicate {
		return "", fmt.Errorf("%s again: job %s, duplicate %v, %v; expected job %s", id, again.Job, again.Duplicate, err, receipt.Job)
	}
	for {
		job, err := l.db.Job(ctx, receipt.Job)
		switch {
		case err != nil && !errors.Is(err, seedbed.ErrUnavailable):
			return "", fmt.Errorf("%s: %w", id, err)
		case err == nil && job.State == seedbed.JobSucceeded:
			return job.ID, nil
		case err == nil && job.State.Terminal():
			return "", fmt.Errorf("%s ended %s: %s\n%s", id, job.State, job.Error, l.history(job.ID))
		}
		if sleep.For(ctx, 5*time.Millisecond); ctx.Err() != nil { // between two polls
			return "", fmt.Errorf("%s has not ended: %s at %s\n%s", id, job.State, job.Stage, l.history(receipt.Job))
		}
	}
}
