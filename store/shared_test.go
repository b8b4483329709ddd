package store

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	"seedbed"
	"seedbed/internal/lab"
	"seedbed/store/groupcommit"
	"seedbed/store/outbox"
	"seedbed/store/sqldb"
)

// inOneBatch accepts all requests in one shared transaction, in their order.
func inOneBatch(t *testing.T, db *DB, all []seedbed.Acceptance) []error {
	t.Helper()
	var writes []func() error
	for _, a := range all {
		writes = append(writes, func() error { _, err := db.Accept(t.Context(), a); return err })
	}
	return behind(t, db, db.writes.Together, writes...)
}

// behind lets writes wait for one that join queues, so that the next batch of that queue has them in
// their order. It returns their outcomes.
func behind(t *testing.T, db *DB, join func(context.Context, string, groupcommit.Change) error, writes ...func() error) []error {
	t.Helper()
	taken, release := make(chan struct{}), make(chan struct{})
	errs := make([]error, len(writes)+1)
	var writing sync.WaitGroup
	writing.Go(func() {
		wait := func(context.Context, *groupcommit.Batch) ([]outbox.Event, error) {
			close(taken)
			<-release
			return nil, sqldb.ErrUnchanged
		}
		errs[len(writes)] = join(t.Context(), "wait", groupcommit.Change{Do: wait})
	})
	<-taken
	for i, write := range writes {
		writing.Go(func() { errs[i] = write() })
		lab.Await(t, time.Minute, "it waits", func() bool { return db.writes.Waiting() == i+1 })
	}
	close(release)
	writing.Wait()
	if err := errs[len(writes)]; err != nil {
		t.Fatal(err)
	}
	return errs[:len(writes)]
}

// A write of a job's owner sees what an earlier write of the same batch has changed: that the job
// was claimed anew, and how many events it has.
func TestJobChangesInABatch(t *testing.T) {
	t.Parallel()
	db, ctx := fresh(t), t.Context()
	do(acceptImport(ctx, db, "debian"))(t)
	old := do(db.ClaimJob(ctx, "one", time.Hour))(t)
	step := func(next string) func() error {
		return func() error { return db.Step(ctx, old.Ref(), seedbed.Step{Next: next, Total: 2}) }
	}
	log := func() error { return db.LogEvent(ctx, old.Ref(), seedbed.Event{Msg: "half"}) }
	if err := errors.Join(behind(t, db, db.writes.OfHolder, log, step("one"))...); err != nil {
		t.Fatal(err)
	}
	for i, e := range do(db.Events(ctx, old.ID, 0, 10))(t) {
		if e.Seq != int64(i+1) {
			t.Errorf("event %d has the number %d", i+1, e.Seq)
		}
	}
	if err := log(); err != nil {
		t.Errorf("an event after them: %v", err)
	}
	if _, err := db.sql.Write.ExecContext(ctx, `UPDATE job SET lease_until = 0`); err != nil {
		t.Fatal(err)
	}
	var now *seedbed.Job
	claim := func() (err error) { now, err = db.ClaimJob(ctx, "two", time.Hour); return err }
	finish := func() error { return db.Finish(ctx, old.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded}) }
	errs := behind(t, db, db.writes.OfHolder, claim, finish)
	if errs[0] != nil || now == nil || now.Epoch != old.Epoch+1 {
		t.Fatalf("claimed anew: %+v, %v", now, errs[0])
	}
	if !errors.Is(errs[1], seedbed.ErrStale) {
		t.Errorf("ended under the old epoch: %v", errs[1])
	}
}

// fromHook returns n creates of a hook.
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

func TestSharedCreates(t *testing.T) {
	t.Parallel()
	testSharedCreates(t, fresh(t))
}

// Writes that arrive at the same time share a batch, even if they differ from those of the last
// one. Each refused write is refused by itself.
func testSharedCreates(t *testing.T, db *DB) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	do(db.CreateNetwork(ctx, seedbed.Network{Name: "default", Bridge: "seedbed0", MAC: seedbed.NewMAC(),
		Prefix: netip.MustParsePrefix("10.99.0.0/24"), Gateway: netip.MustParseAddr("10.99.0.1")}))(t)
	do(acceptImport(ctx, db, "debian"))(t)
	change := func(query string) {
		t.Helper()
		if _, err := db.sql.Write.ExecContext(ctx, query); err != nil {
			t.Fatal(err)
		}
	}
	change(`UPDATE image SET state = 'active', pool = 'default'`)
	ok := func(prefix string, n int) (all []seedbed.Acceptance) {
		t.Helper()
		all = fromHook(prefix, n)
		if err := errors.Join(inOneBatch(t, db, all)...); err != nil {
			t.Errorf("%s: %v", prefix, err)
		}
		return all
	}
	ok("a", 1)
	for i, a := range ok("b", 37) {
		got := do(db.Instance(ctx, a.Instance.ID))(t)
		if want := netip.AddrFrom4([4]byte{10, 99, 0, byte(3 + i)}); got.NICs[0].Addr != want {
			t.Errorf("%s has %s, want %s", got.Name, got.NICs[0].Addr, want)
		}
		if j := do(db.Job(ctx, a.Job.ID))(t); j.State != seedbed.JobQueued || string(j.Spec) != string(a.Job.Spec) || j.Instance != got.ID {
			t.Errorf("job %+v", j)
		}
		if events := do(db.Events(ctx, a.Job.ID, 0, 10))(t); len(events) != 1 || events[0].Seq != 1 {
			t.Errorf("events %+v", events)
		}
		if d := do(db.Delivery(ctx, "ci", a.Delivery.ID))(t); d.Job != a.Job.ID ||
			string(d.Payload) != "\x00\x01\xff" || d.Headers["user-agent"] != "test" {
			t.Errorf("delivery %+v", d)
		}
	}
	chosen := fromHook("c", 1) // a chosen address that the next requests would get
	chosen[0].Instance.NICs[0].Addr = netip.MustParseAddr("10.99.0.41")
	if errs := inOneBatch(t, db, chosen); errs[0] != nil {
		t.Fatal(errs[0])
	}
	ok("d", 5)
	change(`UPDATE image SET state = 'removing'`)
	for i, err := range inOneBatch(t, db, fromHook("f", 3)) {
		if !errors.Is(err, seedbed.ErrInvalid) {
			t.Errorf("%d: %v, with an image that is being removed", i, err)
		}
	}
	change(`UPDATE image SET state = 'active'`)
	change(`UPDATE network SET gateway = '10.99.0.99'`)
	ok("h", 3)
	do(db.CreateEndpoint(ctx, seedbed.Endpoint{Name: "all", URL: "https://example.org/", Events: []string{"*"}, Enabled: true,
		Keys: []seedbed.EndpointKey{{ID: "k1", Key: make([]byte, 32)}}}))(t)
	ok("i", 3)
	told := 0
	for _, o := range do(db.OutgoingDeliveries(ctx, "all", seedbed.OutgoingQuery{Limit: 100}))(t) {
		if o.Type == seedbed.EventJobAccepted {
			told++
		}
	}
	if told != 3 {
		t.Errorf("%d events, want 3", told)
	}
	all := fromHook("j", 8)
	all[1].Instance.NICs[0].MAC = chosen[0].Instance.NICs[0].MAC
	all[3].Delivery.ID = chosen[0].Delivery.ID // it was accepted before
	all[4].Instance.Name = "a0"
	all[6].Instance.Name = all[5].Instance.Name
	for i, err := range inOneBatch(t, db, all) {
		if refused := i == 1 || i == 4 || i == 6; refused != errors.Is(err, seedbed.ErrExists) || !refused && err != nil {
			t.Errorf("%d: %v", i, err)
		}
	}
	if n := len(do(db.Instances(ctx))(t)); n != 1+37+1+5+3+3+4 {
		t.Errorf("%d instances, want 54", n)
	}
}
