package outbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"seedbed"
	"seedbed/internal/run"
	"seedbed/internal/testdb"
	"seedbed/store"
)

// post is one thing that a receiver got.
type posted struct {
	endpoint, id string
	seq          int64
	at           time.Duration // since the beginning
}

// bench is a store and a receiver in memory. It is made within a bubble of synctest, so that its
// time costs none.
type bench struct {
	*testing.T
	db    *store.DB
	began time.Time

	mu     sync.Mutex
	posts  []posted
	answer func(posted) result // nil takes everything
}

func newBench(t *testing.T) *bench {
	t.Helper()
	return &bench{T: t, db: testdb.Open(t), began: time.Now()}
}

func (b *bench) endpoint(name string) {
	b.Helper()
	_, err := b.db.CreateEndpoint(context.Background(), seedbed.Endpoint{Name: name, URL: "https://" + name + ".example/",
		Events: []string{"*"},
		Keys:   []seedbed.EndpointKey{{Key: bytes.Repeat([]byte{7}, 32)}}})
	b.must(err)
}

func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *bench) happen(n int) {
	b.Helper()
	for range n {
		b.must(b.db.CleanupFinished(context.Background(), nil))
	}
}

// deliverer is one on the bench's store, or on another's that wraps it.
func (b *bench) deliverer(s Store) *Deliverer {
	if s == nil {
		s = b.db
	}
	d := New(Config{Store: s, Directory: b.db, Node: "node1", Log: slog.New(slog.DiscardHandler)})
	d.random = func() float64 { return 0.5 }
	d.send = b.send
	return d
}

func (b *bench) send(_ context.Context, e seedbed.Endpoint, o seedbed.Outgoing) result {
	b.mu.Lock()
	p := posted{e.Name, o.ID, o.Seq, time.Since(b.began)}
	b.posts = append(b.posts, p)
	answer := b.answer
	b.mu.Unlock()
	r := result{status: 200}
	if answer != nil {
		r = answer(p)
	}
	r.at = time.Now()
	return r
}

// run runs deliverers for that time, and then closes the store.
func (b *bench) run(d time.Duration, all ...*Deliverer) {
	b.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	var group sync.WaitGroup
	for _, one := range all {
		group.Go(func() {
			if err := one.Run(ctx); err != nil {
				b.Error(err)
			}
		})
	}
	group.Wait()
}

func (b *bench) close() { b.must(b.db.Close()) }

func (b *bench) states(endpoint string) []string {
	b.Helper()
	all, err := b.db.OutgoingDeliveries(context.Background(), endpoint, seedbed.OutgoingQuery{})
	b.must(err)
	var s []string
	for _, o := range all {
		s = append(s, fmt.Sprintf("%d %s %d", o.Seq, o.State, o.Attempts))
	}
	slices.Reverse(s)
	return s
}

func down(posted) result { return result{err: "connection refused"} }

func (b *bench) equal(want, got any) {
	b.Helper()
	if d := cmp.Diff(want, got); d != "" {
		b.Errorf("(-want +got):\n%s", d)
	}
}

// A receiver that stays down gets ten attempts on the schedule, then the next event its turn, after
// the circuit's pause.
func TestSchedule(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		defer b.close()
		b.endpoint("ci")
		b.happen(2)
		b.answer = down
		b.run(80*time.Hour, b.deliverer(nil))
		var want, got []time.Duration
		at := time.Duration(0)
		for _, step := range schedule {
			at += step
			want = append(want, at)
		}
		for _, p := range b.posts {
			if p.seq == 1 {
				got = append(got, p.at.Round(time.Second))
			}
		}
		b.equal(want, got)
		b.equal("1 dead 10", b.states("ci")[0])
		if first := b.posts[10]; first.seq != 2 || first.at.Round(time.Minute) != at.Round(time.Minute)+32*time.Minute {
			t.Errorf("the second event was tried at %s, after the first one's %s", first.at, at)
		}
		for n, p := range b.posts[1:] {
			if p.seq == 2 && n > 10 && p.at-b.posts[n].at < time.Hour {
				t.Errorf("attempts %s apart on an open circuit", p.at-b.posts[n].at)
			}
		}
	})
}

// After five days without a success the endpoint is disabled; what was missed is replayed once it
// is enabled.
func TestOutOfPatience(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		defer b.close()
		b.endpoint("ci")
		b.happen(3)
		b.answer = down
		d := b.deliverer(nil)
		b.run(6*24*time.Hour, d)
		e, err := b.db.Endpoint(context.Background(), "ci")
		b.must(err)
		if e.Enabled || !strings.Contains(e.Reason, "connection refused") {
			t.Errorf("%+v", e)
		}
		if c := d.Check(context.Background())[0]; c.OK || !strings.Contains(c.Detail, "ci is disabled") {
			t.Errorf("%+v", c)
		}
		b.answer = nil
		_, err = b.db.ChangeEndpoint(context.Background(), "ci", seedbed.EndpointChange{Enabled: new(true)})
		b.must(err)
		n, err := b.db.Replay(context.Background(), "ci", b.began, true)
		b.must(err)
		b.equal(3, n)
		b.run(time.Minute, b.deliverer(nil))
		b.equal([]string{"1 sent 1", "2 sent 1", "3 sent 1"}, b.states("ci"))
		if c := d.Check(context.Background())[0]; !c.OK {
			t.Errorf("%+v", c)
		}
	})
}

// An endpoint that fails holds back its own events, in order, and no other's.
func TestOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		defer b.close()
		b.endpoint("bad")
		b.endpoint("good")
		b.happen(4)
		failures := 3
		b.answer = func(p posted) result {
			b.mu.Lock()
			defer b.mu.Unlock()
			if p.endpoint == "bad" && p.seq == 2 && failures > 0 {
				failures--
				return result{status: 500, err: "it answered 500"}
			}
			return result{status: 200}
		}
		d := b.deliverer(nil)
		b.run(time.Hour, d, b.deliverer(nil))
		var bad []int64
		for _, p := range b.posts {
			switch {
			case p.endpoint == "bad":
				bad = append(bad, p.seq)
			case p.at > time.Second:
				t.Errorf("good got %d after %s", p.seq, p.at)
			}
		}
		b.equal([]int64{1, 2, 2, 2, 2, 3, 4}, bad)
		b.equal([]string{"1 sent 1", "2 sent 4", "3 sent 1", "4 sent 1"}, b.states("bad"))
		ids := map[string]int64{}
		for _, p := range b.posts {
			if seq, ok := ids[p.id]; ok && seq != p.seq {
				t.Errorf("id %s is of %d and %d", p.id, seq, p.seq)
			}
			ids[p.id] = p.seq
		}
		b.equal(8, len(ids))
	})
}

func TestGone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		defer b.close()
		b.endpoint("ci")
		b.happen(3)
		b.answer = func(posted) result { return result{status: 410, err: "it answered 410 Gone"} }
		d := b.deliverer(nil)
		b.run(time.Hour, d)
		b.equal(1, len(b.posts))
		b.equal([]string{"1 dead 1", "2 skipped 0", "3 skipped 0"}, b.states("ci"))
		reg := prometheus.NewRegistry()
		reg.MustRegister(d)
		w := httptest.NewRecorder()
		run.MetricsHandler(reg).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		var got []string
		for line := range strings.Lines(w.Body.String()) {
			if !strings.HasPrefix(line, "#") {
				got = append(got, strings.TrimSpace(line))
			}
		}
		b.equal([]string{
			`seedbed_outbox_attempts_total{endpoint="ci",result="failed"} 1`,
			`seedbed_outbox_circuit_open{endpoint="ci"} 0`,
			`seedbed_outbox_dead{endpoint="ci"} 1`,
			`seedbed_outbox_enabled{endpoint="ci"} 0`,
			`seedbed_outbox_exhausted_total{endpoint="ci"} 1`,
			`seedbed_outbox_oldest_seconds{endpoint="ci"} 0`,
			`seedbed_outbox_pending{endpoint="ci"} 0`,
		}, got)
	})
}

// crashing is a store whose outcomes are lost, as when the host dies between sending and recording.
type crashing struct{ Store }

func (crashing) RecordOutgoing(context.Context, seedbed.OutgoingClaim, seedbed.Attempt) error {
	return errors.New("the power went out")
}

func TestCrashBeforeRecord(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		defer b.close()
		b.endpoint("ci")
		b.happen(1)
		b.run(time.Second, b.deliverer(crashing{b.db}))
		b.run(time.Hour, b.deliverer(nil))
		if len(b.posts) != 2 || b.posts[0].id != b.posts[1].id {
			t.Fatalf("posts %+v", b.posts)
		}
		if d := b.posts[1].at; d < lease || d > lease+time.Minute {
			t.Errorf("sent again after %s, while the lease is %s", d, lease)
		}
		b.equal([]string{"1 sent 1"}, b.states("ci"))
	})
}

// An attempt that is cut off by the end of the deliverer is nobody's failure, and whoever comes
// next makes it at once. A panic fails one delivery.
func TestCutOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		defer b.close()
		b.endpoint("ci")
		b.happen(1)
		d := b.deliverer(nil)
		d.send = func(ctx context.Context, e seedbed.Endpoint, o seedbed.Outgoing) result {
			<-ctx.Done()
			return result{err: ctx.Err().Error()}
		}
		b.run(time.Second, d)
		d = b.deliverer(nil)
		d.send = func(context.Context, seedbed.Endpoint, seedbed.Outgoing) result { panic("a bug") }
		b.run(time.Second, d)
		b.equal([]string{"1 pending 1"}, b.states("ci"))
		b.run(time.Minute, b.deliverer(nil))
		b.equal([]string{"1 sent 2"}, b.states("ci"))
		if at := b.posts[0].at; at > 10*time.Second {
			t.Errorf("delivered after %s", at)
		}
	})
}

// An event is sent as soon as it happens, and what another host wrote within the poll.
func TestHint(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		defer b.close()
		b.endpoint("ci")
		time.AfterFunc(10*time.Minute, func() { b.happen(1) })
		b.run(20*time.Minute, b.deliverer(nil))
		if len(b.posts) != 1 || b.posts[0].at > 10*time.Minute+time.Second {
			t.Errorf("posts %+v", b.posts)
		}
	})
}

// No more attempts are made at a time than there are workers, and a closed store is waited for.
func TestBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		for n := range workers + 4 {
			b.endpoint(fmt.Sprintf("ci%d", n))
		}
		b.happen(1)
		busy, most := 0, 0
		d := b.deliverer(nil)
		d.send = func(context.Context, seedbed.Endpoint, seedbed.Outgoing) result {
			b.mu.Lock()
			busy++
			most = max(most, busy)
			b.mu.Unlock()
			time.Sleep(time.Second) // the bubble's own time
			b.mu.Lock()
			busy--
			b.mu.Unlock()
			return result{status: 200}
		}
		b.run(10*time.Second, d)
		b.equal(workers, most)
		for _, s := range []string{"ci0", fmt.Sprintf("ci%d", workers+3)} {
			b.equal([]string{"1 sent 1"}, b.states(s))
		}
		b.close()
		b.run(10*time.Second, d)
		if _, err := d.Test(context.Background(), "ci0"); !errors.Is(err, seedbed.ErrUnavailable) {
			t.Errorf("a test without a store: %v", err)
		}
	})
}
