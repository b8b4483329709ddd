package storetest

import (
	"context"
	"time"

	"seedbed"
	"seedbed/internal/feedtest"
)

var cleanupCases = map[string]func(*bench){
	"cron slots":     testSlots,
	"presence":       testPresence,
	"stale mappings": testStaleMappings,
	"drop mapping":   testDropMapping,
	"deliveries":     testOldDeliveries,
	"guest events":   testOldGuestEvents,
}

func testSlots(b *bench) {
	ctx := context.Background()
	b.equal(get(b.CronSlot(ctx, "mappings", day))(b), true)
	b.equal(get(b.CronSlot(ctx, "mappings", day))(b), false)
	b.equal(get(b.CronSlot(ctx, "other", day))(b), true)
	b.equal(get(b.CronSlot(ctx, "mappings", day.Add(time.Minute)))(b), true)
	b.equal(get(b.CronSlot(ctx, "mappings", day))(b), false)
	b.equal(get(b.CronSlot(ctx, "mappings", day.AddDate(0, 0, 30)))(b), true)
	b.equal(get(b.CronSlot(ctx, "mappings", day))(b), false)
}

func testPresence(b *bench) {
	ctx := context.Background()
	b.world()
	i, other := b.instance("web1"), b.instance("web2")
	elsewhere := createOf("web3")
	elsewhere.Instance.Node = "node2"
	get(b.Accept(ctx, elsewhere))(b)
	j := b.claim()
	b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded, InstanceState: seedbed.InstanceRunning}))
	_, making := b.running("web4")
	gone := func(id seedbed.InstanceID) time.Time {
		b.Helper()
		return get(b.Instance(ctx, id))(b).GoneSince
	}
	b.must(b.NotePresence(ctx, node, []seedbed.InstanceID{other.ID}, day))
	b.must(b.NotePresence(ctx, node, []seedbed.InstanceID{other.ID}, day.Add(time.Hour)))
	b.equal([]time.Time{gone(i.ID), gone(other.ID), gone(elsewhere.Instance.ID), gone(making.ID)}, []time.Time{day, {}, {}, {}})
	before := b.Hint()
	b.must(b.NotePresence(ctx, node, []seedbed.InstanceID{other.ID}, day.Add(2*time.Hour)))
	select {
	case <-before:
		b.Error("an inventory without a change gave the hint")
	default:
	}
	b.must(b.NotePresence(ctx, node, []seedbed.InstanceID{i.ID, other.ID, seedbed.NewInstanceID()}, day.Add(time.Hour)))
	b.equal(gone(i.ID), time.Time{})
	b.must(b.NotePresence(ctx, node, nil, day.Add(2*time.Hour)))
	b.equal([]time.Time{gone(i.ID), gone(other.ID)}, []time.Time{day.Add(2 * time.Hour), day.Add(2 * time.Hour)})
}

// An instance is not stale if it is held, being made, present, or a job works on it.
func testStaleMappings(b *bench) {
	ctx := context.Background()
	b.world()
	stale := b.instance("stale")
	held := createOf("held")
	held.Instance.Held = true
	get(b.Accept(ctx, held))(b)
	j := b.claim()
	b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded, InstanceState: seedbed.InstanceStopped}))
	present := b.instance("present")
	removing := b.instance("removing")
	_, making := b.running("making")
	started, half := b.running("half")
	b.must(b.Step(ctx, started.Ref(), seedbed.Step{Next: "ready", InstanceState: seedbed.InstanceRunning}))
	b.must(b.NotePresence(ctx, node, []seedbed.InstanceID{present.ID}, day))
	get(b.Accept(ctx, removeOf(removing.ID)))(b)

	list := func(cutoff time.Time) (names []string) {
		b.Helper()
		for _, i := range get(b.StaleMappings(ctx, cutoff))(b) {
			names = append(names, i.Name)
		}
		return names
	}
	b.equal(list(day.Add(-time.Second)), []string(nil))
	b.equal(list(day), []string{"stale"})
	for _, id := range []seedbed.InstanceID{held.Instance.ID, present.ID, removing.ID, making.ID, half.ID, seedbed.NewInstanceID()} {
		before := get(b.Instances(ctx))(b)
		b.equal(get(b.DropMapping(ctx, id, day))(b), false)
		b.equal(get(b.Instances(ctx))(b), before)
	}
	b.equal(get(b.DropMapping(ctx, stale.ID, day.Add(-time.Second)))(b), false)
	b.must(b.NotePresence(ctx, node, []seedbed.InstanceID{stale.ID}, day))
	b.equal(get(b.DropMapping(ctx, stale.ID, day))(b), false)
}

func testDropMapping(b *bench) {
	ctx := context.Background()
	b.world()
	j, i := b.running("web1")
	get(b.Publish(ctx, j.Ref(), node, guestOf(i), seedbed.Documents{UserData: []byte("data")}))(b)
	b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded, InstanceState: seedbed.InstanceRunning}))
	b.must(b.AddGuestEvents(ctx, node, "s", []seedbed.GuestEvent{leaseEvent(1, i, day)}))
	b.must(b.NotePresence(ctx, node, nil, day))
	b.equal(get(b.DropMapping(ctx, i.ID, day))(b), true)
	b.equal(get(b.DropMapping(ctx, i.ID, day))(b), false)
	now := get(b.Instance(ctx, i.ID))(b)
	b.equal([]any{now.State, len(now.NICs), len(now.Volumes)}, []any{seedbed.InstanceGone, 0, 1})
	b.equal(get(b.Leases(ctx, seedbed.AllProjects()))(b), []seedbed.Lease{})
	b.equal(feedtest.Changes(b, get(b.FeedPage(ctx, node, 1, b.generation()))(b)), []feedtest.Change{{Revision: 2, Instance: i.ID}})
	b.must(b.AddGuestEvents(ctx, node, "s", []seedbed.GuestEvent{leaseEvent(2, i, day)}))
	b.equal(get(b.Leases(ctx, seedbed.AllProjects()))(b), []seedbed.Lease{})
	_, err := b.Accept(ctx, createOf("web1"))
	b.want(err, seedbed.ErrExists, `"web1"`)
	a := createOf("web2")
	a.Instance.NICs[0].MAC, a.Instance.NICs[0].Addr = i.NICs[0].MAC, i.NICs[0].Addr
	get(b.Accept(ctx, a))(b)
	if n := get(b.Instance(ctx, a.Instance.ID))(b).NICs[0].ID; n <= i.NICs[0].ID {
		b.Errorf("NIC number %d was given again after %d", n, i.NICs[0].ID)
	}
	b.claim()
	b.remove(i.ID)
}

func testOldDeliveries(b *bench) {
	ctx := context.Background()
	b.world()
	for n := range 3 {
		a := createOf(nameN(n))
		a.Delivery = delivery(nameN(n), "x")
		a.Delivery.Received = day.Add(time.Duration(n) * time.Hour)
		get(b.Accept(ctx, a))(b)
	}
	for range 2 {
		j := b.claim()
		b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded}))
	}
	for cutoff, want := range map[time.Duration]int{0: 0, time.Hour: 1, 100 * time.Hour: 2} {
		b.equal(get(b.CountDeliveries(ctx, day.Add(cutoff)))(b), want)
	}
	b.equal(get(b.DropDeliveries(ctx, day.Add(time.Hour)))(b), 1)
	b.equal(get(b.DropDeliveries(ctx, day.Add(100*time.Hour)))(b), 1)
	b.equal(get(b.Deliveries(ctx, seedbed.DeliveryQuery{}))(b)[0].ID, nameN(2))
	b.equal(len(get(b.Jobs(ctx, 0))(b)), 4)
}

func testOldGuestEvents(b *bench) {
	ctx := context.Background()
	b.world()
	i := b.instance("web1")
	b.must(b.AddGuestEvents(ctx, node, "s", []seedbed.GuestEvent{access(1, i, "/", 200), access(2, i, "/", 200)}))
	before := day.Add(2 * time.Second)
	b.equal(get(b.CountGuestEvents(ctx, before))(b), 1)
	b.equal(get(b.DropGuestEvents(ctx, before))(b), 1)
	b.equal(get(b.DropGuestEvents(ctx, before))(b), 0)
	b.equal(get(b.GuestEvents(ctx, i.ID, 0))(b)[0].Seq, int64(2))
}
