//go:build integration

package store

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"seedbed"
)

// volleyWorld opens a database with a network and an image.
func volleyWorld(t *testing.T) (context.Context, *DB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	db := postgresServer(t).fresh(t)
	do(db.CreateNetwork(ctx, seedbed.Network{Name: "default", Bridge: "seedbed0", MAC: seedbed.NewMAC(),
		Prefix: netip.MustParsePrefix("10.99.0.0/24"), Gateway: netip.MustParseAddr("10.99.0.1")}))(t)
	do(acceptImport(ctx, db, "debian"))(t)
	run(t, db, `UPDATE image SET state = 'active', pool = 'default'`)
	return ctx, db
}

func run(t *testing.T, db *DB, query string) {
	t.Helper()
	if _, err := db.write.ExecContext(t.Context(), query); err != nil {
		t.Fatal(err)
	}
}

// What one volley writes is what is read afterwards, to the last column.
func TestPostgresVolley(t *testing.T) {
	ctx, db := volleyWorld(t)
	do(db.CreateEndpoint(ctx, seedbed.Endpoint{Name: "all", URL: "https://example.org/", Events: []string{"*"}, Enabled: true, Keys: []seedbed.EndpointKey{{ID: "k1", Key: make([]byte, 32)}}}))(t)
	do(db.CreateEndpoint(ctx, seedbed.Endpoint{Name: "other", URL: "https://example.org/", Events: []string{"node.*"}, Enabled: true, Keys: []seedbed.EndpointKey{{ID: "k1", Key: make([]byte, 32)}}}))(t)
	all := fromHook("web", 5)
	all[0].Delivery = nil
	errs, long := volleyed(t, db, all)
	if err := errors.Join(errs...); err != nil || long != 0 {
		t.Fatalf("%d went the long way: %v", long, err)
	}
	for i, a := range all {
		got := do(db.Instance(ctx, a.Instance.ID))(t)
		if want := netip.AddrFrom4([4]byte{10, 99, 0, byte(2 + i)}); got.NICs[0].Addr != want {
			t.Errorf("%s has %s, want %s", got.Name, got.NICs[0].Addr, want)
		}
		if diff := cmp.Diff(a.Instance.Volumes, got.Volumes); diff != "" {
			t.Errorf("volumes (-want +got):\n%s", diff)
		}
		if j := do(db.Job(ctx, a.Job.ID))(t); j.State != seedbed.JobQueued || string(j.Spec) != string(a.Job.Spec) || j.Instance != got.ID {
			t.Errorf("job %+v", j)
		}
		if events := do(db.Events(ctx, a.Job.ID, 0, 10))(t); len(events) != 1 || events[0].Seq != 1 {
			t.Errorf("events %+v", events)
		}
		if a.Delivery == nil {
			continue
		}
		if d := do(db.Delivery(ctx, "ci", a.Delivery.ID))(t); d.Job != a.Job.ID || string(d.Payload) != "\x00\x01\xff" || d.Headers["user-agent"] != "test" {
			t.Errorf("delivery %+v", d)
		}
	}
	var seqs []int64
	for _, o := range do(db.OutgoingDeliveries(ctx, "all", "", 100))(t) {
		if o.Type == seedbed.EventJobAccepted {
			seqs = append(seqs, o.Seq)
		}
	}
	if diff := cmp.Diff([]int64{5, 4, 3, 2, 1}, seqs); diff != "" {
		t.Errorf("numbers of events (-want +got):\n%s", diff)
	}
}

// Those that are in others' way are refused, each with its reason, and go the
// long way alone.
func TestPostgresVolleyRefused(t *testing.T) {
	ctx, db := volleyWorld(t)
	first := fromHook("web", 4)
	errs, _ := volleyed(t, db, first)
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	all := fromHook("db", 8)
	all[1].Instance.NICs[0].MAC = first[0].Instance.NICs[0].MAC
	all[3].Delivery.ID = first[2].Delivery.ID // came before
	all[6].Instance.Name = all[5].Instance.Name
	errs, long := volleyed(t, db, all)
	if long != 3 {
		t.Errorf("%d went the long way, want 3", long)
	}
	for i, err := range errs {
		if refused := i == 1 || i == 6; refused != errors.Is(err, seedbed.ErrExists) || !refused && err != nil {
			t.Errorf("%d: %v", i, err)
		}
	}
	if n := len(do(db.Instances(ctx))(t)); n != 4+5 {
		t.Errorf("%d instances, want 9", n)
	}
}

// What was taken for granted and is so no more is seen.
func TestPostgresVolleyStale(t *testing.T) {
	ctx, db := volleyWorld(t)
	ok := func(prefix string, wantLong int) {
		t.Helper()
		errs, long := volleyed(t, db, fromHook(prefix, 3))
		if err := errors.Join(errs...); err != nil || long != wantLong {
			t.Errorf("%d went the long way, want %d: %v", long, wantLong, err)
		}
	}
	ok("a", 0)
	run(t, db, `UPDATE image SET state = 'removing'`)
	errs, _ := volleyed(t, db, fromHook("b", 3))
	for i, err := range errs {
		if !errors.Is(err, seedbed.ErrInvalid) {
			t.Errorf("%d: %v, with an image that is being removed", i, err)
		}
	}
	run(t, db, `UPDATE image SET state = 'active'`)
	ok("c", 0)
	run(t, db, `UPDATE network SET gateway = '10.99.0.9'`)
	ok("d", 3)
	for _, i := range do(db.Instances(ctx))(t) {
		if i.NICs[0].Addr == netip.MustParseAddr("10.99.0.9") {
			t.Errorf("%s has the gateway's address", i.Name)
		}
	}
	ok("g", 0)
	do(db.CreateEndpoint(ctx, seedbed.Endpoint{Name: "all", URL: "https://example.org/", Events: []string{"*"}, Enabled: true, Keys: []seedbed.EndpointKey{{ID: "k1", Key: make([]byte, 32)}}}))(t)
	ok("e", 3)
	ok("f", 0)
	if n := len(do(db.OutgoingDeliveries(ctx, "all", "", 100))(t)); n != 6 {
		t.Errorf("%d events, want 6", n)
	}
}
