package store

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"seedbed"
	"seedbed/store/feed"
	"seedbed/store/sqldb"
)

// tally counts an instance's events, including those that GuestEvents does not return.
func tally(t *testing.T, db *DB, id seedbed.InstanceID) int {
	t.Helper()
	return do(sqldb.Value[int](db.sql.Read.QueryRowContext(t.Context(), `SELECT COUNT(*) FROM guest_event WHERE instance = $1`, id)))(t)
}

// A guest that asks endlessly does not fill the disk. Counting its events is expensive, so they are
// cut only now and then.
func TestGuestEventsBounded(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	path := filepath.Join(t.TempDir(), "seedbed.db")
	db := open(t, path)
	small := feed.Limits{GuestEvents: 5, GuestMargin: 3, Guests: 10}
	db.Limits = small
	var seq int64
	add := func(id seedbed.InstanceID, n int) {
		t.Helper()
		var events []seedbed.GuestEvent
		for range n {
			seq++
			events = append(events, seedbed.GuestEvent{Seq: seq, Instance: id, Kind: seedbed.GuestAccess})
		}
		if err := db.AddGuestEvents(ctx, "node", "s", events); err != nil {
			t.Fatal(err)
		}
		if all := do(db.GuestEvents(ctx, id, 100))(t); len(all) != min(5, tally(t, db, id)) || all[0].Seq != seq {
			t.Errorf("%d events of %s are shown, the newest is %d", len(all), id, all[0].Seq)
		}
	}
	var one []int
	for range 12 {
		add("one", 1)
		add("two", 2)
		one = append(one, tally(t, db, "one"))
	}
	// The events are cut at the first event of an instance, and at every third event after a cut.
	if d := cmp.Diff([]int{1, 2, 3, 4, 5, 6, 5, 6, 7, 5, 6, 7}, one); d != "" {
		t.Errorf("kept (-want +got):\n%s", d)
	}
	add("one", 1000)
	if n := tally(t, db, "one"); n != 5 {
		t.Errorf("%d events were kept after many in one call", n)
	}
	// The events are bounded even if the program is restarted often.
	for range 5 {
		add("one", 2)
		if n := tally(t, db, "one"); n > 7 {
			t.Errorf("%d events were kept over a restart", n)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		db = open(t, path)
		db.Limits = small
	}
	// The number of instances whose events are counted is bounded too.
	for n := range 50 {
		add(seedbed.InstanceID(fmt.Sprint("guest", n)), 1)
	}
	if n := len(db.SinceCut); n > 10 {
		t.Errorf("%d instances are remembered", n)
	}
}

// Events of a call that was rolled back do not count.
func TestGuestEventsRolledBack(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	e := seedbed.GuestEvent{Seq: 1, Instance: "one", Kind: seedbed.GuestAccess}
	if err := db.AddGuestEvents(t.Context(), "node", "s", []seedbed.GuestEvent{e}); err != nil {
		t.Fatal(err)
	}
	do(db.sql.Write.ExecContext(t.Context(),
		`CREATE TRIGGER refuse BEFORE INSERT ON guest_event WHEN NEW.seq = 3 BEGIN SELECT RAISE(ABORT, 'refused'); END`))(t)
	events := []seedbed.GuestEvent{{Seq: 2, Instance: "one"}, {Seq: 3, Instance: "one"}}
	if err := db.AddGuestEvents(t.Context(), "node", "s", events); err == nil {
		t.Fatal("accepted")
	}
	if n := db.SinceCut["one"]; n != 0 {
		t.Errorf("%d events count", n)
	}
}
