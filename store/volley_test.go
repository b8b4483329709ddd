package store

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"seedbed"
	"seedbed/internal/lab"
)

// volleyed accepts all in one volley, and those that it cannot take the long
// way: long is how many. The errors are in the order of all.
func volleyed(t *testing.T, db *DB, all []seedbed.Acceptance) (errs []error, long int) {
	t.Helper()
	q := &db.asks
	q.mu.Lock()
	q.leading = 100 // nobody else commits
	q.mu.Unlock()
	errs = make([]error, len(all))
	var accepting sync.WaitGroup
	var batch []*ask
	for i, a := range all { // one by one, so that their order is known
		accepting.Go(func() { _, errs[i] = db.Accept(t.Context(), a) })
		lab.Await(t, time.Minute, "it waits", func() bool {
			q.mu.Lock()
			defer q.mu.Unlock()
			batch = q.waiting
			return len(batch) == i+1
		})
	}
	q.mu.Lock()
	q.waiting, q.leading = nil, 0
	q.mu.Unlock()
	rest, apart := db.volley(t.Context(), batch)
	if len(rest) > 0 {
		db.settleLong(t.Context(), rest, apart)
	}
	for _, a := range batch {
		close(a.told)
	}
	accepting.Wait()
	return errs, len(rest)
}

// fromHook are so many creates of a hook.
func fromHook(prefix string, n int) (all []seedbed.Acceptance) {
	for i := range n {
		name := fmt.Sprintf("%s%d", prefix, i)
		id := seedbed.NewInstanceID()
		all = append(all, seedbed.Acceptance{
			Job:      seedbed.Job{ID: seedbed.NewJobID(), Kind: seedbed.JobCreate, Spec: []byte(`{"name":"` + name + `"}`)},
			Delivery: &seedbed.Delivery{Hook: "ci", ID: name, Headers: map[string]string{"user-agent": "test"}, Payload: []byte{0, 1, 255}},
			Instance: &seedbed.Instance{ID: id, Name: name, Image: "debian", Node: "node", VCPUs: 1, Memory: seedbed.GiB,
				NICs:    []seedbed.NIC{{MAC: seedbed.MAC{0x52, 0x54, 1, prefix[0], byte(n), byte(i)}, Network: "default"}},
				Volumes: []seedbed.Volume{{Name: string(id) + "-0", Pool: "default", Size: seedbed.GiB, Image: "debian"}}},
		})
	}
	return all
}

// On SQLite, too, what comes at the same time is written together, also when it was
// not what was expected the last time.
func TestVolley(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	db := fresh(t)
	do(db.CreateNetwork(ctx, seedbed.Network{Name: "default", Bridge: "seedbed0", MAC: seedbed.NewMAC(),
		Prefix: netip.MustParsePrefix("10.99.0.0/24"), Gateway: netip.MustParseAddr("10.99.0.1")}))(t)
	do(acceptImport(ctx, db, "debian"))(t)
	change := func(query string) {
		t.Helper()
		if _, err := db.write.ExecContext(ctx, query); err != nil {
			t.Fatal(err)
		}
	}
	change(`UPDATE image SET state = 'active', pool = 'default'`)
	ok := func(prefix string, n, wantLong int) {
		t.Helper()
		errs, long := volleyed(t, db, fromHook(prefix, n))
		if err := errors.Join(errs...); err != nil || long != wantLong {
			t.Errorf("%s: %d went the long way, want %d: %v", prefix, long, wantLong, err)
		}
	}
	ok("a", 1, 0)
	ok("b", 37, 0)
	chosen := fromHook("c", 1) // somebody's own choice is in the way of the next ones
	chosen[0].Instance.NICs[0].Addr = netip.MustParseAddr("10.99.0.41")
	errs, _ := volleyed(t, db, chosen)
	if errs[0] != nil {
		t.Fatal(errs[0])
	}
	ok("d", 5, 0)
	ok("e", 5, 0)
	change(`UPDATE image SET state = 'removing'`)
	errs, _ = volleyed(t, db, fromHook("f", 3))
	for i, err := range errs {
		if !errors.Is(err, seedbed.ErrInvalid) {
			t.Errorf("%d: %v, with an image that is being removed", i, err)
		}
	}
	change(`UPDATE image SET state = 'active'`)
	ok("g", 3, 0)
	change(`UPDATE network SET gateway = '10.99.0.99'`)
	ok("h", 3, 3)
	ok("i", 3, 0)
	again := fromHook("j", 3)
	again[1].Instance.Name = "a0" // and one more, which takes the others along
	errs, long := volleyed(t, db, again)
	if long != 3 || errs[0] != nil || !errors.Is(errs[1], seedbed.ErrExists) || errs[2] != nil {
		t.Errorf("%d went the long way: %v", long, errs)
	}
	ok("k", 3, 0)
}

// Every column of a table that is gathered has its type.
func TestPileTypes(t *testing.T) {
	t.Parallel()
	for n, into := range pileOrder {
		if columns := strings.Count(into, ",") + 1; columns != len(pileTypes[n]) {
			t.Errorf("%s: %d columns and %d types", into, columns, len(pileTypes[n]))
		}
	}
}
