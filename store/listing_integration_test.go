//go:build integration

package store

import (
	"slices"
	"testing"
	"time"

	"seedbed"
)

// Filtered pages of 100,000 instances and jobs take well under 50 ms with PostgreSQL too. The fastest
// of several counts, because whatever else uses the processors only adds to the time.
func TestPostgresListing(t *testing.T) {
	s := postgresServer(t)
	db := s.fresh(t)
	const n, rounds = 100000, 21
	crowd(t, db, n)
	if _, err := db.sql.Write.ExecContext(t.Context(), `ANALYZE`); err != nil {
		t.Fatal(err)
	}
	for name, page := range pages(seedbed.InProject(seedbed.DefaultProject), n) {
		var took []time.Duration
		for range rounds {
			began := time.Now()
			if _, err := page(t.Context(), db); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			took = append(took, time.Since(began))
		}
		slices.Sort(took)
		t.Logf("%s: best %s, median %s, worst %s", name, took[0], took[rounds/2], took[rounds-1])
		if took[0] > 50*time.Millisecond {
			t.Errorf("%s: %s", name, took)
		}
	}
}
