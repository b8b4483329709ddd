package store

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"seedbed"
	"seedbed/internal/feedtest"
	"seedbed/store/feed"
	"seedbed/store/sqldb"
)

// publisher creates a job that may publish its instance.
func publisher(t *testing.T, db *DB, name string) (seedbed.JobRef, seedbed.Guest) {
	t.Helper()
	ctx := t.Context()
	id := seedbed.NewInstanceID()
	do(db.Accept(ctx, seedbed.Acceptance{
		Job:      seedbed.Job{ID: seedbed.NewJobID(), Kind: seedbed.JobCreate},
		Instance: &seedbed.Instance{ID: id, Name: name, VCPUs: 1, Memory: seedbed.GiB},
	}))(t)
	j := do(db.ClaimJob(ctx, "test", time.Hour))(t)
	return j.Ref(), seedbed.Guest{ID: id, Name: name, NICs: []seedbed.GuestNIC{{Network: "lan"}}}
}

// withLAN is fresh with a network that reaches several nodes.
func withLAN(t *testing.T) *DB {
	t.Helper()
	db := fresh(t)
	do(db.CreateNetwork(t.Context(), seedbed.Network{Name: "lan", Kind: seedbed.NetworkBridged, Bridge: "lan0",
		MAC: seedbed.MAC{0x52, 0x54}, Uplink: "br0"}))(t)
	return db
}

// A node keeps its newest tombstones, and so do its peers. A follower that has not read the older ones gets a snapshot.
func TestTombstones(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db := withLAN(t)
	db.Limits.Tombstones = 3
	gen := do(db.FeedPage(ctx, "node", 0, ""))(t).Generation
	const guests = 5
	for n := range guests {
		ref, g := publisher(t, db, fmt.Sprintf("web%d", n))
		do(db.Publish(ctx, ref, "node", g, seedbed.Documents{}))(t)
		do(db.Retract(ctx, ref, "node", g.ID))(t)
	}
	// Revisions 2, 4, 6, 8 and 10 are tombstones, of which 2 and 4 were pruned.
	for since, snapshot := range map[int64]bool{0: true, 3: true, 4: false, 9: false, 10: false} {
		page := do(db.FeedPage(ctx, "node", since, gen))(t)
		if page.Snapshot != snapshot || page.Revision != 2*guests {
			t.Errorf("since %d: %+v", since, page)
		}
		if page := do(db.Peers(ctx, "node2", since, gen))(t); page.Snapshot != snapshot || page.Revision != 2*guests {
			t.Errorf("peers since %d: %+v", since, page)
		}
	}
	if n := len(do(db.FeedPage(ctx, "node", 4, gen))(t).Changes); n != 3 {
		t.Errorf("%d tombstones", n)
	}
	if n := len(do(db.FeedPage(ctx, "node", 0, gen))(t).Changes); n != 0 {
		t.Errorf("%d records in the snapshot of nothing", n)
	}
}

// A page that is not a snapshot is limited, and its Revision is the last one that it covers.
func TestLongPage(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db := fresh(t)
	db.Limits.Page = 3
	gen := do(db.FeedPage(ctx, "node", 0, ""))(t).Generation
	for n := range 7 {
		ref, g := publisher(t, db, fmt.Sprintf("web%d", n))
		do(db.Publish(ctx, ref, "node", g, seedbed.Documents{}))(t)
	}
	for since, want := range map[int64][2]int64{0: {3, 3}, 3: {3, 6}, 6: {1, 7}, 7: {0, 7}} {
		page := do(db.FeedPage(ctx, "node", since, gen))(t)
		if got := [2]int64{int64(len(page.Changes)), page.Revision}; got != want || page.Snapshot {
			t.Errorf("since %d: %d changes up to %d, want %v", since, got[0], got[1], want)
		}
	}
	if page := do(db.FeedPage(ctx, "node", 0, ""))(t); len(page.Changes) != 7 || page.Revision != 7 {
		t.Errorf("snapshot of %d up to %d", len(page.Changes), page.Revision)
	}
}

// A blob outlives its last record by blobGrace, and no longer.
func TestBlobGrace(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db := fresh(t)
	ref, g := publisher(t, db, "web1")
	do(db.Publish(ctx, ref, "node", g, seedbed.Documents{UserData: []byte("old")}))(t)
	page := do(db.FeedPage(ctx, "node", 0, ""))(t)
	old := feedtest.Changes(t, page)[0].Guest.UserData.SHA256
	do(db.Publish(ctx, ref, "node", g, seedbed.Documents{UserData: []byte("new")}))(t)
	do(db.Blob(ctx, old))(t)
	do(db.sql.Write.ExecContext(ctx, `UPDATE blob SET unused_since = $1 WHERE unused_since IS NOT NULL`,
		sqldb.Micros(sqldb.Now().Add(-2*feed.BlobGrace))))(t)
	do(db.Publish(ctx, ref, "node", g, seedbed.Documents{UserData: []byte("third")}))(t)
	if _, err := db.Blob(ctx, old); !errors.Is(err, seedbed.ErrNotFound) {
		t.Errorf("the old blob: %v", err)
	}
	// The second blob is within blobGrace, and a new record uses it again.
	do(db.Publish(ctx, ref, "node", g, seedbed.Documents{UserData: []byte("new")}))(t)
	other, h := publisher(t, db, "web2")
	do(db.Publish(ctx, other, "node", h, seedbed.Documents{UserData: []byte("new")}))(t)
	do(db.Retract(ctx, ref, "node", g.ID))(t)
	var used int
	if err := db.sql.Read.QueryRow(`SELECT COUNT(*) FROM blob WHERE unused_since IS NULL`).Scan(&used); err != nil || used != 1 {
		t.Errorf("%d blobs in use (%v)", used, err)
	}
}

func TestHintIsForCommits(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	db := fresh(t)
	do(acceptImport(ctx, db, "taken"))(t)
	hint := db.Hint()
	woken := make(chan error, 1)
	go func() {
		select {
		case <-hint:
			woken <- nil
		case <-ctx.Done():
			woken <- ctx.Err()
		}
	}()
	if _, err := acceptImport(ctx, db, "taken"); err == nil {
		t.Fatal("accepted")
	}
	select {
	case <-hint:
		t.Fatal("a refusal gave the hint")
	default:
	}
	do(acceptImport(ctx, db, "debian"))(t)
	if err := <-woken; err != nil {
		t.Fatal(err)
	}
}
