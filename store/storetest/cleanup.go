package storetest

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
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
	"snapshots":      testSnapshotSchedule,
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

var removalCases = map[string]func(*bench){
	"remove what is made":   testRemoveWhileMade,
	"remove what is queued": testRemoveWhileQueued,
	"refused removal":       testRemoveRefused,
}

// removing accepts the removal of an instance that is being made.
func (b *bench) removing(making seedbed.Job, i seedbed.Instance) seedbed.JobID {
	b.Helper()
	ctx := context.Background()
	a := removeOf(i.ID)
	b.equal(get(b.Accept(ctx, a))(b), seedbed.Receipt{Job: a.Job.ID, State: seedbed.JobQueued, Cancels: making.ID})
	b.equal(get(b.Instance(ctx, i.ID))(b).State, seedbed.InstanceRemoving)
	j := get(b.Job(ctx, a.Job.ID))(b)
	b.equal([]any{j.After, j.Blocked, j.Subject, j.Node}, []any{making.ID, true, i.Name, node})
	b.equal(get(b.Job(ctx, making.ID))(b).Cancel, true)
	if none := get(b.ClaimNext(ctx, seedbed.ClaimOptions{Owner: "eager", Lease: lease}))(b); none != nil {
		b.Fatalf("the removal is given out before its time: %+v", none)
	}
	_, err := b.Accept(ctx, removeOf(i.ID))
	b.want(err, seedbed.ErrInUse)
	b.equal(holder(err), a.Job.ID)
	return a.Job.ID
}

// A removal follows the job that makes its instance, whether or not undoing that job leaves something.
func testRemoveWhileMade(b *bench) {
	ctx := context.Background()
	b.world()
	for name, c := range map[string]struct {
		end  seedbed.JobResult
		gone bool
	}{
		"rolled back": {seedbed.JobResult{State: seedbed.JobRolledBack, Error: "cancelled", Drop: true}, true},
		"left behind": {seedbed.JobResult{State: seedbed.JobIncomplete, Error: "cancelled", InstanceState: seedbed.InstanceFailed}, false},
	} {
		making, i := b.running("web-" + strings.ReplaceAll(name, " ", "-"))
		id := b.removing(making, i)
		for _, late := range []seedbed.JobResult{
			{State: seedbed.JobSucceeded, InstanceState: seedbed.InstanceRunning},
			{State: seedbed.JobSucceeded},
			{State: seedbed.JobFailed, Error: "no", Keep: true, InstanceState: seedbed.InstanceFailed},
		} {
			b.want(b.Finish(ctx, making.Ref(), late), seedbed.ErrConflict, "cancelled")
		}
		b.must(b.Undo(ctx, making.Ref(), "cancelled"))
		b.must(b.Finish(ctx, making.Ref(), c.end))
		j := get(b.Job(ctx, id))(b)
		if c.gone {
			b.equal([]any{j.State, j.Blocked, j.Error}, []any{seedbed.JobSucceeded, false, ""})
			_, err := b.Instance(ctx, i.ID)
			b.want(err, seedbed.ErrNotFound)
			if e := b.last(id); e.Msg != "succeeded" {
				b.Errorf("%s: last event %+v", name, e)
			}
			continue
		}
		b.equal([]any{j.State, j.Blocked}, []any{seedbed.JobQueued, false})
		b.equal(get(b.Instance(ctx, i.ID))(b).State, seedbed.InstanceRemoving)
		j = b.claim()
		b.equal(j.ID, id)
		b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded, Drop: true}))
	}
}

// A job that no engine has started ends at once, and its name is free.
func testRemoveWhileQueued(b *bench) {
	ctx := context.Background()
	b.world()
	b.endpoint("all", "*")
	made := createOf("web1")
	get(b.Accept(ctx, made))(b)
	a := removeOf(made.Instance.ID)
	b.equal(get(b.Accept(ctx, a))(b), seedbed.Receipt{Job: a.Job.ID, State: seedbed.JobSucceeded, Cancels: made.Job.ID})
	b.equal(get(b.Job(ctx, made.Job.ID))(b).State, seedbed.JobRolledBack)
	_, err := b.InstanceByName(ctx, seedbed.InDefault("web1"))
	b.want(err, seedbed.ErrNotFound)
	first := get(b.Events(ctx, a.Job.ID, 0, 1))(b)
	if len(first) != 1 || first[0].Msg != "accepted" {
		b.Errorf("the removal's first event: %+v", first)
	}
	b.equal(b.told("all"),
		[]string{"1 job.accepted web1 pending", "2 job.accepted web1 pending", "3 job.cancelled web1 pending", "4 job.succeeded web1 pending"})
	get(b.Accept(ctx, createOf("web1")))(b)
}

// A removal that is refused cancels nothing.
func testRemoveRefused(b *bench) {
	ctx := context.Background()
	b.world()
	made := createOf("web1")
	made.Instance.Protected = true
	get(b.Accept(ctx, made))(b)
	_, err := b.Accept(ctx, removeOf(made.Instance.ID))
	b.want(err, seedbed.ErrConflict, "protected")
	b.equal(get(b.Job(ctx, made.Job.ID))(b).Cancel, false)
	b.equal(get(b.InstanceByName(ctx, seedbed.InDefault("web1")))(b).State, seedbed.InstanceProvisioning)
	a := removeOf(made.Instance.ID)
	a.Confirm = "web1"
	b.equal(get(b.Accept(ctx, a))(b).Cancels, made.Job.ID)
}

var overtakeCases = map[string]func(*bench){
	"forced stop": testForcedStopOvertakes,
}

// testForcedStopOvertakes checks that a forced stop cancels the stop or reboot that asks the guest of
// its instance to shut down, runs however that one ends, and overtakes nothing else.
func testForcedStopOvertakes(b *bench) {
	ctx := context.Background()
	b.world()
	forced := func(i seedbed.Instance) seedbed.Acceptance {
		a := power(seedbed.JobStop, i.ID)
		a.Job.Spec = json.RawMessage(`{"force":true}`)
		return a
	}
	for _, kind := range []seedbed.JobKind{seedbed.JobStop, seedbed.JobReboot} {
		for _, begun := range []bool{true, false} {
			name := string(kind) + "-begun"
			if !begun {
				name = string(kind) + "-queued"
			}
			making, i := b.running(name)
			_, err := b.Accept(ctx, forced(i))
			b.want(err, seedbed.ErrInUse) // a create is not overtaken
			b.must(b.Finish(ctx, making.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded, InstanceState: seedbed.InstanceRunning}))
			waits := power(kind, i.ID)
			get(b.Accept(ctx, waits))(b)
			var job seedbed.Job
			if begun {
				job = b.claim()
				b.equal(job.ID, waits.Job.ID)
			}
			_, err = b.Accept(ctx, power(seedbed.JobStop, i.ID))
			b.want(err, seedbed.ErrInUse) // neither by a stop that asks the guest
			stop := forced(i)
			b.equal(get(b.Accept(ctx, stop))(b), seedbed.Receipt{Job: stop.Job.ID, State: seedbed.JobQueued, Cancels: waits.Job.ID})
			_, err = b.Accept(ctx, forced(i))
			b.want(err, seedbed.ErrInUse)
			b.equal(holder(err), stop.Job.ID)
			says := "superseded by stop job " + stop.Job.ID.Short() + ", which switches the instance off at once"
			if begun {
				j := get(b.Job(ctx, stop.Job.ID))(b)
				b.equal([]any{j.After, j.Blocked}, []any{waits.Job.ID, true})
				b.equal(get(b.Job(ctx, waits.Job.ID))(b).Cancel, true)
				b.must(b.Undo(ctx, job.Ref(), "cancelled"))
				b.must(b.Finish(ctx, job.Ref(), seedbed.JobResult{State: seedbed.JobRolledBack, Error: "cancelled"}))
			}
			ended := get(b.Job(ctx, waits.Job.ID))(b)
			b.equal([]any{ended.State, ended.Error}, []any{seedbed.JobRolledBack, says})
			var told bool
			for _, e := range get(b.Events(ctx, ended.ID, 0, 100))(b) {
				told = told || e.Level == "warn" && strings.Contains(e.Msg, says)
			}
			b.equal(told, true)
			j := get(b.Job(ctx, stop.Job.ID))(b)
			b.equal([]any{j.State, j.Blocked}, []any{seedbed.JobQueued, false})
			next := b.claim()
			b.equal(next.ID, stop.Job.ID)
			b.must(b.Finish(ctx, next.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded, InstanceState: seedbed.InstanceStopped}))
		}
	}
}

// power is the acceptance of a job that starts, stops or reboots an instance.
func power(kind seedbed.JobKind, id seedbed.InstanceID) seedbed.Acceptance {
	return seedbed.Acceptance{Job: seedbed.Job{ID: seedbed.NewJobID(), Kind: kind, Instance: id}}
}

// The snapshots that a schedule has made are known, and a job for a schedule removes no other ones.
func testSnapshotSchedule(b *bench) {
	ctx := context.Background()
	b.world()
	i := b.instance("web1")
	hourly := get(b.CreateSchedule(ctx, seedbed.Schedule{Kind: seedbed.ScheduleSnapshot, Name: "hourly", Cron: "@hourly",
		ScheduleSettings: seedbed.ScheduleSettings{Instances: []string{"web1"}, Keep: seedbed.Retention{Hourly: 2}}}))(b)
	b.equal(get(b.Schedule(ctx, seedbed.ScheduleSnapshot, "hourly"))(b), hourly)
	b.want(b.DeleteSchedule(ctx, seedbed.ScheduleBackup, "hourly"), seedbed.ErrNotFound, "backup schedule")
	job := func(kind seedbed.JobKind, snapshot, schedule string) seedbed.Acceptance {
		a := volumeJob(kind, i.ID, snapshot)
		a.Job.Spec, _ = json.Marshal(seedbed.SnapshotJob{Name: snapshot, Schedule: schedule})
		return a
	}
	run := seedbed.ScheduleRun{Time: time.Now().UTC().Truncate(time.Second), Jobs: 1, Items: []seedbed.ScheduleItem{}}
	b.must(b.NoteRun(ctx, seedbed.ScheduleSnapshot, "hourly", run))
	hourly.Last = &run
	b.equal(get(b.Schedule(ctx, seedbed.ScheduleSnapshot, "hourly"))(b), hourly)
	var states []seedbed.JobState
	for name, end := range map[string]seedbed.JobState{"s1": seedbed.JobSucceeded, "s2": seedbed.JobRolledBack, "s3": seedbed.JobIncomplete} {
		get(b.Accept(ctx, job(seedbed.JobSnapshot, name, "hourly")))(b)
		b.end(seedbed.JobResult{State: end, Error: map[bool]string{true: "no"}[end != seedbed.JobSucceeded]})
	}
	get(b.Accept(ctx, job(seedbed.JobSnapshot, "mine", "")))(b)
	b.end(seedbed.JobResult{State: seedbed.JobSucceeded})
	all := get(b.ScheduledSnapshots(ctx))(b)
	slices.SortFunc(all, func(x, y seedbed.ScheduledSnapshot) int { return cmp.Compare(x.Name, y.Name) })
	for _, s := range all {
		b.equal([]any{s.Schedule, s.Instance, s.Taken.IsZero()}, []any{"hourly", seedbed.InDefault("web1"), false})
		states = append(states, s.State)
	}
	b.equal(states, []seedbed.JobState{seedbed.JobSucceeded, seedbed.JobIncomplete}) // nothing is left of s2
	b.equal(len(get(b.ScheduleFailures(ctx, hourly))(b)), 2)
	get(b.Accept(ctx, job(seedbed.JobSnapshot, "s3", "")))(b) // by hand, of what the schedule has left behind
	b.end(seedbed.JobResult{State: seedbed.JobSucceeded})
	b.equal(len(get(b.ScheduledSnapshots(ctx))(b)), 1)
	_, err := b.Accept(ctx, job(seedbed.JobSnapshotRemove, "mine", "hourly"))
	b.want(err, seedbed.ErrConflict, "was not made by the snapshot schedule hourly")
	get(b.Accept(ctx, job(seedbed.JobSnapshot, "s5", "hourly")))(b)
	b.end(seedbed.JobResult{State: seedbed.JobSucceeded})
	both := job(seedbed.JobSnapshotRemove, "s1", "hourly")
	both.Job.Spec, _ = json.Marshal(seedbed.SnapshotJob{Name: "s1", Also: []string{"s5", "mine"}, Schedule: "hourly"})
	_, err = b.Accept(ctx, both)
	b.want(err, seedbed.ErrConflict, `"mine"`)
	both.Job.Spec, _ = json.Marshal(seedbed.SnapshotJob{Name: "s1", Also: []string{"s5"}, Schedule: "hourly"})
	get(b.Accept(ctx, both))(b)
	b.end(seedbed.JobResult{State: seedbed.JobSucceeded})
	b.equal(len(get(b.ScheduledSnapshots(ctx))(b)), 0)
	get(b.Accept(ctx, job(seedbed.JobSnapshot, "s4", "hourly")))(b)
	b.end(seedbed.JobResult{State: seedbed.JobSucceeded})
	b.must(b.DeleteSchedule(ctx, seedbed.ScheduleSnapshot, "hourly"))
	b.equal(len(get(b.ScheduledSnapshots(ctx))(b)), 1) // they stay
	b.must(b.NoteRun(ctx, seedbed.ScheduleSnapshot, "hourly", run))
}
