package storetest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"seedbed"
)

var outboxCases = map[string]func(*bench){
	"endpoints":            testEndpoints,
	"key rotation":         testEndpointRotation,
	"key versions":         testEndpointVersions,
	"events of a life":     testEventsOfLife,
	"events of an undo":    testEventsOfUndo,
	"events of a script":   testEventsOfScript,
	"events of a refusal":  testNoEvents,
	"events of a cleanup":  testEventsOfCleanup,
	"events of nodes":      testEventsOfNodes,
	"events of a node":     testEventsOfNode,
	"claim in order":       testClaimOutgoing,
	"lost claim":           testLostOutgoing,
	"release":              testReleaseOutgoing,
	"failures":             testFailures,
	"disabled":             testDisabledEndpoint,
	"disabled by a record": testDisabledByRecord,
	"disabled and told":    testDisabledAndTold,
	"changed":              testChangedEndpoint,
	"resend and replay":    testReplay,
	"old":                  testOldOutgoing,
	"seq without gaps":     testSeqRace,
	"claim race":           testOutgoingRace,
}

// These changes disable and enable an endpoint.
var (
	disabled = seedbed.EndpointChange{Enabled: new(bool)}
	enabled  = seedbed.EndpointChange{Enabled: new(true)}
)

var key32 = []byte("0123456789abcdef0123456789abcdef")

func endpointOf(name string, events ...string) seedbed.Endpoint {
	return seedbed.Endpoint{Name: name, Project: seedbed.DefaultProject, URL: "https://" + name + ".example/hook", Events: events,
		Keys: []seedbed.EndpointKey{{Key: key32}}}
}

func (b *bench) endpoint(name string, events ...string) seedbed.Endpoint {
	b.Helper()
	return get(b.CreateEndpoint(context.Background(), endpointOf(name, events...)))(b)
}

// told returns the deliveries to an endpoint as "seq type subject state", in order.
func (b *bench) told(endpoint string) []string {
	b.Helper()
	var all []string
	for _, o := range get(b.OutgoingDeliveries(context.Background(), endpoint, seedbed.OutgoingQuery{}))(b) {
		all = append(all, fmt.Sprintf("%d %s %s %s", o.Seq, o.Type, o.Subject, o.State))
	}
	slices.Reverse(all)
	return all
}

// happen emits n cleanup.finished events.
func (b *bench) happen(n int) {
	b.Helper()
	for range n {
		b.must(b.CleanupFinished(context.Background(), nil))
	}
}

// due claims the next delivery, and fails the test if there is none.
func (b *bench) due() seedbed.OutgoingClaim {
	b.Helper()
	c, _, err := b.ClaimOutgoing(context.Background(), "test", lease)
	b.must(err)
	if c == nil {
		b.Fatal("nothing is due")
	}
	return *c
}

// idle checks that nothing is due, and returns how long it is until then.
func (b *bench) idle() time.Duration {
	b.Helper()
	c, next, err := b.ClaimOutgoing(context.Background(), "test", lease)
	b.must(err)
	if c != nil {
		b.Fatalf("%s %d is due", c.Endpoint.Name, c.Outgoing.Seq)
	}
	return next
}

var sent = seedbed.Attempt{At: day, Took: time.Second, Status: 204, State: seedbed.OutgoingSent}

func testClaimOutgoing(b *bench) {
	ctx := context.Background()
	b.equal(b.idle(), time.Duration(0))
	b.endpoint("one", "*")
	b.endpoint("two", "*")
	b.happen(2)
	first, other := b.due(), b.due()
	b.equal([]any{first.Outgoing.Seq, other.Outgoing.Seq, first.Outgoing.State}, []any{int64(1), int64(1), seedbed.OutgoingPending})
	if first.Endpoint.Name == other.Endpoint.Name || len(first.Endpoint.Keys) != 1 {
		b.Fatalf("%+v and %+v", first.Endpoint, other.Endpoint)
	}
	if next := b.idle(); next < lease/2 { // both are claimed
		b.Fatalf("next in %s", next)
	}
	b.must(b.RecordOutgoing(ctx, first, sent))
	c := b.due()
	b.equal([]any{c.Endpoint.Name, c.Outgoing.Seq}, []any{first.Endpoint.Name, int64(2)})
	b.must(b.RecordOutgoing(ctx, c, sent))
	b.must(b.RecordOutgoing(ctx, other, sent))
	b.must(b.RecordOutgoing(ctx, b.due(), sent))
	b.equal(b.idle(), time.Duration(0))
	o := get(b.OutgoingDeliveries(ctx, "one", seedbed.OutgoingQuery{State: seedbed.OutgoingSent, Limit: 1}))(b)[0]
	b.equal([]any{o.Seq, o.Attempts, o.Status, o.Took, o.Tried.Equal(day), o.Next.IsZero()}, []any{int64(2), 1, 204, time.Second, true, true})
	for _, args := range []struct {
		owner string
		lease time.Duration
	}{{"", lease}, {"x", 0}} {
		_, _, err := b.ClaimOutgoing(ctx, args.owner, args.lease)
		b.want(err, seedbed.ErrInvalid)
	}
}

func testLostOutgoing(b *bench) {
	ctx := context.Background()
	b.endpoint("one", "*")
	b.happen(1)
	old, _, err := b.ClaimOutgoing(ctx, "gone", 20*time.Millisecond)
	b.must(err)
	var c *seedbed.OutgoingClaim
	b.until("the lease is over", func() bool {
		c, _, err = b.ClaimOutgoing(ctx, "test", lease)
		b.must(err)
		return c != nil
	})
	b.equal([]any{c.Outgoing.ID, c.Outgoing.Attempts}, []any{old.Outgoing.ID, 0})
	b.want(b.RecordOutgoing(ctx, *old, sent), seedbed.ErrStale)
	b.want(b.ReleaseOutgoing(ctx, *old), seedbed.ErrStale)
	b.must(b.RecordOutgoing(ctx, *c, sent))
	b.want(b.RecordOutgoing(ctx, *c, sent), seedbed.ErrStale)
	b.equal(get(b.OutgoingDeliveries(ctx, "one", seedbed.OutgoingQuery{}))(b)[0].Attempts, 1)
}

func testReleaseOutgoing(b *bench) {
	ctx := context.Background()
	b.endpoint("one", "*")
	b.happen(1)
	c := b.due()
	b.must(b.ReleaseOutgoing(ctx, c))
	again := b.due()
	b.equal([]any{again.Outgoing.ID, again.Outgoing.Attempts, again.Epoch}, []any{c.Outgoing.ID, 0, c.Epoch + 1})
}

func testFailures(b *bench) {
	ctx := context.Background()
	b.endpoint("one", "*")
	b.happen(2)
	failed := seedbed.Attempt{At: day, Status: 500, Error: "it answered 500", State: seedbed.OutgoingPending, Retry: time.Hour}
	b.must(b.RecordOutgoing(ctx, b.due(), failed))
	if next := b.idle(); next < 50*time.Minute || next > time.Hour { // the second waits for the first
		b.Fatalf("next in %s", next)
	}
	e := get(b.Endpoint(ctx, "one"))(b)
	if e.Failures != 1 || e.FailingSince.IsZero() || !e.OpenUntil.IsZero() {
		b.Fatalf("%+v", e)
	}
	first := get(b.OutgoingDeliveries(ctx, "one", seedbed.OutgoingQuery{}))(b)[1]
	b.equal([]any{first.State, first.Attempts, first.Status, first.Error, first.Next.IsZero()},
		[]any{seedbed.OutgoingPending, 1, 500, "it answered 500", false})
	get(b.Resend(ctx, "one", first.ID))(b)
	dead := seedbed.Attempt{Error: "no answer", State: seedbed.OutgoingDead, Pause: time.Hour}
	b.must(b.RecordOutgoing(ctx, b.due(), dead))
	if next := b.idle(); next < 50*time.Minute { // the endpoint is paused
		b.Fatalf("next in %s", next)
	}
	after := get(b.Endpoint(ctx, "one"))(b)
	if after.Failures != 2 || !after.FailingSince.Equal(e.FailingSince) || after.OpenUntil.IsZero() {
		b.Fatalf("%+v", after)
	}
	stats := get(b.OutgoingStats(ctx))(b)[0]
	b.equal([]any{stats.Endpoint, stats.Enabled, stats.Open, stats.Pending, stats.Dead, stats.Oldest.IsZero()},
		[]any{"one", true, true, 1, 1, false})
	get(b.Resend(ctx, "one", first.ID))(b) // a requested resend is tried at once
	b.must(b.RecordOutgoing(ctx, b.due(), sent))
	e = get(b.Endpoint(ctx, "one"))(b)
	b.equal([]any{e.Failures, e.FailingSince.IsZero(), e.OpenUntil.IsZero()}, []any{0, true, true})
	b.equal(b.due().Outgoing.Seq, int64(2))
}

func testDisabledEndpoint(b *bench) {
	ctx := context.Background()
	b.endpoint("one", "*")
	b.happen(2)
	c := b.due()
	e := get(b.ChangeEndpoint(ctx, "one", disabled))(b)
	b.equal([]any{e.Enabled, e.Reason}, []any{false, seedbed.DisabledByOperator})
	b.happen(1)
	b.equal(b.idle(), time.Duration(0))
	// A claimed delivery is sent or skipped.
	b.must(b.RecordOutgoing(ctx, c, sent))
	b.equal(b.told("one"),
		[]string{"1 cleanup.finished cleanup sent", "2 cleanup.finished cleanup skipped", "3 cleanup.finished cleanup skipped"})
	_, err := b.Replay(ctx, "one", day, true)
	b.want(err, seedbed.ErrConflict, "disabled")
	e = get(b.ChangeEndpoint(ctx, "one", enabled))(b)
	b.equal([]any{e.Enabled, e.Reason}, []any{true, ""})
	b.equal(b.idle(), time.Duration(0))
	b.equal(get(b.Replay(ctx, "one", day, true))(b), 2)
	c = b.due()
	b.equal(c.Outgoing.Seq, int64(2))
	get(b.ChangeEndpoint(ctx, "one", disabled))(b)
	b.must(b.RecordOutgoing(ctx, c, seedbed.Attempt{State: seedbed.OutgoingPending, Retry: time.Hour, Error: "x"}))
	b.equal(b.told("one")[1], "2 cleanup.finished cleanup skipped")
}

func testDisabledByRecord(b *bench) {
	ctx := context.Background()
	b.endpoint("one", "*")
	b.happen(2)
	b.must(b.RecordOutgoing(ctx, b.due(),
		seedbed.Attempt{Status: 410, Error: "gone", State: seedbed.OutgoingDead, Disable: "it answered 410 Gone"}))
	e := get(b.Endpoint(ctx, "one"))(b)
	b.equal([]any{e.Enabled, e.Reason}, []any{false, "it answered 410 Gone"})
	b.equal(b.told("one"), []string{"1 cleanup.finished cleanup dead", "2 cleanup.finished cleanup skipped"})
	get(b.ChangeEndpoint(ctx, "one", disabled))(b)
	b.equal(get(b.Endpoint(ctx, "one"))(b).Reason, "it answered 410 Gone")
}

func testReplay(b *bench) {
	ctx := context.Background()
	b.endpoint("one", "*")
	b.happen(3)
	for range 2 {
		b.must(b.RecordOutgoing(ctx, b.due(), sent))
	}
	b.must(b.RecordOutgoing(ctx, b.due(), seedbed.Attempt{State: seedbed.OutgoingDead, Error: "x"}))
	all := get(b.OutgoingDeliveries(ctx, "one", seedbed.OutgoingQuery{}))(b)
	b.equal(get(b.OutgoingDeliveries(ctx, "one", seedbed.OutgoingQuery{Before: all[0].Seq, Limit: 1}))(b), all[1:2])
	b.equal(get(b.OutgoingDeliveries(ctx, "one", seedbed.OutgoingQuery{State: seedbed.OutgoingDead, Since: all[2].At}))(b), all[:1])
	b.equal(len(get(b.OutgoingDeliveries(ctx, "one", seedbed.OutgoingQuery{Since: time.Now().Add(time.Hour)}))(b)), 0)
	_, err := b.Resend(ctx, "one", "msg_none")
	b.want(err, seedbed.ErrNotFound, "msg_none")
	o := get(b.Resend(ctx, "one", all[2].ID))(b)
	b.equal([]any{o.ID, o.Seq, o.State, o.Attempts}, []any{all[2].ID, int64(1), seedbed.OutgoingPending, 0})
	b.must(b.RecordOutgoing(ctx, b.due(), sent))
	b.equal(get(b.Replay(ctx, "one", time.Now().Add(time.Hour), false))(b), 0)
	b.equal(get(b.Replay(ctx, "one", all[1].At, true))(b), 1)
	c := b.due()
	b.equal([]any{c.Outgoing.ID, c.Outgoing.Attempts}, []any{all[0].ID, 0})
	b.must(b.RecordOutgoing(ctx, c, sent))
	b.equal(get(b.Replay(ctx, "one", all[2].At, false))(b), 3)
	for seq := range int64(3) {
		c := b.due()
		b.equal(c.Outgoing.Seq, seq+1)
		b.must(b.RecordOutgoing(ctx, c, sent))
	}
}

func testOldOutgoing(b *bench) {
	ctx := context.Background()
	b.endpoint("one", "*")
	b.happen(3)
	b.must(b.RecordOutgoing(ctx, b.due(), sent))
	b.must(b.RecordOutgoing(ctx, b.due(), seedbed.Attempt{State: seedbed.OutgoingDead, Error: "x"}))
	later := time.Now().Add(time.Hour)
	b.equal(get(b.CountOutgoing(ctx, later.Add(-2*time.Hour)))(b), 0)
	b.equal(get(b.CountOutgoing(ctx, later))(b), 2)
	b.equal(get(b.DropOutgoing(ctx, later))(b), 2)
	b.equal(get(b.DropOutgoing(ctx, later))(b), 0)
	b.equal(b.told("one"), []string{"3 cleanup.finished cleanup pending"})
	b.happen(1)
	b.equal(b.told("one")[1], "4 cleanup.finished cleanup pending")
}

// While many writers are active, a reader never sees a seq without all lower ones.
func testSeqRace(b *bench) {
	ctx := context.Background()
	b.endpoint("one", "*")
	b.endpoint("two", "cleanup.*")
	const writers, each = 8, 12
	var all sync.WaitGroup
	for range writers {
		all.Go(func() {
			for range each {
				if err := b.CleanupFinished(ctx, nil); err != nil {
					b.Error(err)
				}
			}
		})
	}
	ended := make(chan struct{})
	go func() { all.Wait(); close(ended) }()
	for last := false; !last; {
		select {
		case <-ended:
			last = true
		default:
		}
		for _, name := range []string{"one", "two"} {
			seen := get(b.OutgoingDeliveries(ctx, name, seedbed.OutgoingQuery{}))(b)
			for at, o := range seen {
				if want := int64(len(seen) - at); o.Seq != want {
					b.Fatalf("%s has seq %d where %d is missing", name, o.Seq, want)
				}
			}
			if last && len(seen) != writers*each {
				b.Errorf("%s was told %d events, want %d", name, len(seen), writers*each)
			}
		}
	}
}

// If several senders claim at the same time, each delivery has one of them at a time, in order.
func testOutgoingRace(b *bench) {
	ctx := context.Background()
	b.endpoint("one", "*")
	b.endpoint("two", "*")
	const n = 20
	b.happen(n)
	var mu sync.Mutex
	got := map[string][]int64{}
	var all sync.WaitGroup
	for w := range 4 {
		all.Go(func() {
			for {
				mu.Lock()
				over := len(got["one"]) == n && len(got["two"]) == n
				mu.Unlock()
				if over {
					return
				}
				c, _, err := b.ClaimOutgoing(ctx, nameN(w), lease)
				if err != nil {
					b.Error(err)
					return
				}
				if c == nil {
					continue
				}
				mu.Lock()
				got[c.Endpoint.Name] = append(got[c.Endpoint.Name], c.Outgoing.Seq)
				mu.Unlock()
				if err := b.RecordOutgoing(ctx, *c, sent); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	for name, seqs := range got {
		if len(seqs) != n || !slices.IsSorted(seqs) {
			b.Errorf("%s: %v", name, seqs)
		}
	}
}
