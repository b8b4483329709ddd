//go:build integration

package outbox

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"testing"
	"time"

	"seedbed"
	"seedbed/internal/lab"
	"seedbed/store"
)

// Three control hosts on one database, of which two stop meanwhile: each receiver gets every event,
// in order; what was cut off comes again.
func TestPostgresHosts(t *testing.T) {
	s := lab.Postgres(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	at := store.Config{DSN: s.DSN(s.Database(t, "")), Log: slog.New(slog.DiscardHandler)}
	must(store.Migrate(ctx, at))

	const endpoints, events = 3, 40
	var mu sync.Mutex
	got := map[string][]int64{}
	url := receiver(t, func(w http.ResponseWriter, r *http.Request) {
		var m message
		if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		got[r.URL.Path] = append(got[r.URL.Path], m.Seq)
	})
	open := func() *store.DB {
		t.Helper()
		db, err := store.Open(ctx, at)
		must(err)
		t.Cleanup(func() { must(db.Close()) })
		return db
	}
	db := open()
	for n := range endpoints {
		e := endpointAt(fmt.Sprintf("%s/%d", url, n))
		e.Name, e.Events = fmt.Sprintf("ci%d", n), []string{"*"}
		_, err := db.CreateEndpoint(ctx, e)
		must(err)
	}
	var hosts sync.WaitGroup
	defer hosts.Wait()
	var stops []context.CancelFunc
	for n := range 3 {
		d := New(Config{Store: open(), Directory: db, Node: fmt.Sprint("node", n), Log: slog.New(slog.DiscardHandler)})
		working, stop := context.WithCancel(ctx)
		defer stop()
		stops = append(stops, stop)
		hosts.Go(func() {
			if err := d.Run(working); err != nil {
				t.Error(err)
			}
		})
	}
	for n := range events {
		must(db.CleanupFinished(ctx, map[string]int{"leases": n}))
		if n == 10 || n == 20 {
			stops[n/10]()
		}
	}
	lab.Await(t, time.Minute, "every event sent", func() bool {
		stats, err := db.OutgoingStats(ctx)
		must(err)
		for _, s := range stats {
			if s.Pending > 0 {
				return false
			}
		}
		return true
	})
	mu.Lock()
	defer mu.Unlock()
	for n := range endpoints {
		var once []int64
		for _, seq := range got[fmt.Sprint("/", n)] {
			if len(once) == 0 || once[len(once)-1] != seq { // cut off, and sent again
				once = append(once, seq)
			}
		}
		if len(once) != events {
			t.Errorf("endpoint %d got %v", n, once)
			continue
		}
		for i, seq := range once {
			if seq != int64(i+1) {
				t.Errorf("endpoint %d got %d as the %dth", n, seq, i+1)
			}
		}
		all, err := db.OutgoingDeliveries(ctx, fmt.Sprint("ci", n), seedbed.OutgoingQuery{State: seedbed.OutgoingSent})
		must(err)
		if len(all) != events {
			t.Errorf("endpoint %d: %d are recorded as sent", n, len(all))
		}
	}
}
