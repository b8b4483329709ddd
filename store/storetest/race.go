package storetest

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"seedbed"
	"seedbed/store"
)

var raceCases = map[string]func(*bench){
	"one name":        testOneName,
	"one MAC":         testOneMAC,
	"one address":     testOneAddress,
	"one delivery":    testOneDelivery,
	"addresses":       testAddressRace,
	"creates alike":   testCreatesAlike,
	"claims":          testClaimRace,
	"project quota":   testProjectQuotaRace,
	"object quotas":   testObjectQuotaRace,
	"snapshot quota":  testSnapshotQuotaRace,
	"project rates":   testProjectRates,
	"one cron slot":   testSlotRace,
	"one setting":     testSettingRace,
	"events gap-free": testEventRace,
	"cancel and end":  testCancelRace,
	"NIC of profile":  testProfileNICsRace,
}

// turn returns the program that is asked next. The methods after it are those that race.
func (b *bench) turn() *store.DB {
	if b.other != nil && b.asked.Add(1)%2 == 0 {
		return b.other
	}
	return b.DB
}

func (b *bench) Accept(ctx context.Context, a seedbed.Acceptance) (seedbed.Receipt, error) {
	return b.turn().Accept(ctx, a)
}

func (b *bench) ClaimJob(ctx context.Context, owner string, lease time.Duration) (*seedbed.Job, error) {
	return b.turn().ClaimJob(ctx, owner, lease)
}

func (b *bench) LogEvent(ctx context.Context, ref seedbed.JobRef, e seedbed.Event) error {
	return b.turn().LogEvent(ctx, ref, e)
}

func (b *bench) CronSlot(ctx context.Context, task string, at time.Time) (bool, error) {
	return b.turn().CronSlot(ctx, task, at)
}

func (b *bench) SettingOnce(ctx context.Context, key string, fresh func() []byte) ([]byte, error) {
	return b.turn().SettingOnce(ctx, key, fresh)
}

const crowd = 100

// each runs f in n goroutines at the same time and waits for them.
func each(n int, f func(n int)) {
	var all sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		all.Go(func() {
			<-start
			f(i)
		})
	}
	close(start)
	all.Wait()
}

// Different requests ask for one name. One gets it, and the others learn which job has it.
func testOneName(b *bench) {
	ctx := context.Background()
	b.world()
	var mu sync.Mutex
	var won []seedbed.JobID
	held := map[seedbed.JobID]int{}
	each(crowd, func(int) {
		r, err := b.Accept(ctx, createOf("web1"))
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err == nil:
			won = append(won, r.Job)
		case errors.Is(err, seedbed.ErrExists):
			held[holder(err)]++
		default:
			b.Error(err)
		}
	})
	if len(won) != 1 || held[won[0]] != crowd-1 {
		b.Fatalf("made by %v, refused because of %v", won, held)
	}
	b.equal(len(get(b.Jobs(ctx, 0))(b)), 2)
}

// Of several instances with one MAC, only one is accepted.
func testOneMAC(b *bench) {
	mac := newMAC()
	b.onlyOne(func(i *seedbed.Instance) { i.NICs[0].MAC = mac })
}

// Of several instances that ask for one address, only one is accepted.
func testOneAddress(b *bench) {
	addr := netip.MustParseAddr("10.99.0.77")
	b.onlyOne(func(i *seedbed.Instance) { i.NICs[0].Addr = addr })
}

// onlyOne requests many instances at the same time that differ only in their names after set has
// changed them. All but one are refused, and leave nothing behind.
func (b *bench) onlyOne(set func(*seedbed.Instance)) {
	b.Helper()
	ctx := context.Background()
	b.world()
	var made atomic.Int64
	each(crowd, func(n int) {
		a := createOf(nameN(n))
		set(a.Instance)
		_, err := b.Accept(ctx, a)
		if err == nil {
			made.Add(1)
		} else if !errors.Is(err, seedbed.ErrExists) && !errors.Is(err, seedbed.ErrConflict) {
			b.Error(err)
		}
	})
	b.equal(made.Load(), int64(1))
	b.equal(len(get(b.Instances(ctx))(b)), 1)
	b.equal(len(get(b.Jobs(ctx, 0))(b)), 2) // and the image's
}

// The same delivery arrives several times at once. All requests get one job.
func testOneDelivery(b *bench) {
	ctx := context.Background()
	b.world()
	var mu sync.Mutex
	jobs, fresh := map[seedbed.JobID]int{}, 0
	each(crowd, func(int) {
		a := createOf("web1")
		a.Delivery = delivery("msg_1", "body")
		r, err := b.Accept(ctx, a)
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			b.Error(err)
			return
		}
		if jobs[r.Job]++; !r.Duplicate {
			fresh++
		}
	})
	if len(jobs) != 1 || fresh != 1 {
		b.Fatalf("%d jobs, %d of them fresh", len(jobs), fresh)
	}
	b.equal(len(get(b.Jobs(ctx, 0))(b)), 2)
	b.equal(len(get(b.Deliveries(ctx, seedbed.DeliveryQuery{}))(b)), 1)
}

// There are more requests than addresses. Each address is assigned once.
func testAddressRace(b *bench) {
	ctx := context.Background()
	b.image("debian")
	b.network("default", "seedbed0", "10.99.0.0/27")
	const room = 32 - 3
	var mu sync.Mutex
	full := 0
	each(room+10, func(n int) {
		_, err := b.Accept(ctx, createOf(nameN(n)))
		mu.Lock()
		defer mu.Unlock()
		if errors.Is(err, seedbed.ErrFull) {
			full++
		} else if err != nil {
			b.Error(err)
		}
	})
	seen := map[netip.Addr]bool{}
	for _, i := range get(b.Instances(ctx))(b) {
		if a := i.NICs[0].Addr; seen[a] {
			b.Errorf("%s was given twice", a)
		} else {
			seen[a] = true
		}
	}
	if len(seen) != room || full != 10 {
		b.Fatalf("%d addresses were given, %d requests refused", len(seen), full)
	}
}

// Requests that arrive at the same time share a batch. Each keeps its own values, whether they are
// equal or different.
func testCreatesAlike(b *bench) {
	ctx := context.Background()
	b.world()
	var all []seedbed.Acceptance
	for n := range crowd {
		a := createOf(nameN(n))
		a.Delivery = delivery(fmt.Sprintf("msg_%d", n), "body")
		if n >= crowd/2 { // these are all different
			i := a.Instance
			i.Profile, i.Memory, i.Held, i.UserData = fmt.Sprintf("p%d", n), seedbed.Bytes(n)*seedbed.GiB, n%2 == 0, fmt.Appendf(nil, "#!%d", n)
			i.Tags, i.Password = map[string]string{"n": fmt.Sprint(n)}, fmt.Sprint(n)
			i.NICs = append(i.NICs, seedbed.NIC{Index: 1, MAC: newMAC(), Network: "default"})
			i.Volumes = append(i.Volumes, seedbed.Volume{Name: string(i.ID) + "-1", Pool: fmt.Sprintf("pool%d", n), Index: 1, Size: seedbed.GiB})
		}
		all = append(all, a)
	}
	errs := make([]error, len(all))
	for _, half := range [][2]int{{0, crowd / 2}, {crowd / 2, crowd}} {
		each(half[1]-half[0], func(n int) { _, errs[half[0]+n] = b.Accept(ctx, all[half[0]+n]) })
	}
	b.must(errors.Join(errs...))
	account := get(b.Project(ctx, seedbed.DefaultProject))(b).Number
	for _, a := range all {
		i := get(b.Instance(ctx, a.Instance.ID))(b)
		wanted := *a.Instance
		wanted.State, wanted.Revision, wanted.Datasource = seedbed.InstanceProvisioning, 1, seedbed.DatasourceEC2
		wanted.Follow, wanted.Project, wanted.Account = seedbed.FollowPinned, seedbed.DefaultProject, account
		b.equal(i, wanted, cmpopts.IgnoreFields(seedbed.Instance{}, "Created", "Changed"), cmpopts.IgnoreFields(seedbed.NIC{}, "ID", "Addr"))
		j := get(b.Job(ctx, a.Job.ID))(b)
		b.equal(j, seedbed.Job{ID: a.Job.ID, Kind: seedbed.JobCreate, State: seedbed.JobQueued, Project: i.Project, Subject: i.Name,
			Instance: i.ID, Node: node, Pool: "default"}, cmpopts.IgnoreFields(seedbed.Job{}, "Created"))
		d := get(b.Delivery(ctx, a.Delivery.Hook, a.Delivery.ID))(b)
		b.equal(d.Job, j.ID)
		b.equal(d.SHA256, a.Delivery.SHA256)
		b.equal(len(get(b.Events(ctx, j.ID, 0, 10))(b)), 1)
	}
}

// Many owners claim many jobs. Each job is claimed once.
func testClaimRace(b *bench) {
	ctx := context.Background()
	b.world()
	const jobs = 30
	for n := range jobs {
		get(b.Accept(ctx, createOf(nameN(n))))(b)
	}
	var mu sync.Mutex
	owners := map[seedbed.JobID]string{}
	each(16, func(n int) {
		owner := fmt.Sprintf("owner%d", n)
		for {
			j, err := b.ClaimJob(ctx, owner, lease)
			if err != nil {
				b.Error(err)
			}
			if j == nil {
				return
			}
			mu.Lock()
			if other := owners[j.ID]; other != "" || j.Owner != owner || j.Epoch != 1 {
				b.Errorf("job %s of %q was claimed by %q as %+v", j.ID, other, owner, j)
			}
			owners[j.ID] = owner
			mu.Unlock()
		}
	})
	b.equal(len(owners), jobs)
}

func testSlotRace(b *bench) {
	var mu sync.Mutex
	first := 0
	each(crowd, func(int) {
		ok, err := b.CronSlot(context.Background(), "mappings", day)
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			b.Error(err)
		}
		if ok {
			first++
		}
	})
	b.equal(first, 1)
}

func testSettingRace(b *bench) {
	var mu sync.Mutex
	seen := map[string]int{}
	each(crowd, func(n int) {
		v, err := b.SettingOnce(context.Background(), "key", func() []byte { return []byte{byte(n)} })
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			b.Error(err)
		}
		seen[string(v)]++
	})
	b.equal(len(seen), 1)
}

// A reader that resumes after the last seq that it saw misses nothing while several writers are
// active.
func testEventRace(b *bench) {
	ctx := context.Background()
	b.world()
	j, _ := b.running("web1")
	const writers, lines = 8, 10
	done := make(chan struct{})
	go func() {
		defer close(done)
		each(writers, func(int) {
			for range lines {
				if err := b.LogEvent(ctx, j.Ref(), seedbed.Event{Msg: "line"}); err != nil {
					b.Error(err)
				}
			}
		})
	}()
	defer func() { <-done }()
	var last int64
	b.until("all events", func() bool {
		for _, e := range get(b.Events(ctx, j.ID, last, 7))(b) {
			if e.Seq != last+1 {
				b.Fatalf("event %d came after %d", e.Seq, last)
			}
			last = e.Seq
		}
		return last == writers*lines+1
	})
}

// Jobs are cancelled while their owners commit a stage or their end. A cancel that was accepted is
// never overtaken by a success, and one that comes after the end is refused.
func testCancelRace(b *bench) {
	ctx := context.Background()
	b.world()
	const most = 40
	jobs := make([]seedbed.Job, most)
	for n := range jobs {
		jobs[n], _ = b.running(fmt.Sprintf("web%d", n))
		b.must(b.Step(ctx, jobs[n].Ref(), seedbed.Step{Next: "start", Total: 1}))
	}
	results := []seedbed.JobResult{
		{State: seedbed.JobSucceeded},
		{State: seedbed.JobSucceeded, InstanceState: seedbed.InstanceRunning},
		{State: seedbed.JobFailed, Error: "no KVM", Keep: true},
	}
	refused, ended := make([]error, most), make([]error, most)
	each(2*most, func(n int) {
		j := jobs[n/2]
		if n%2 == 0 {
			refused[n/2] = b.CancelJob(ctx, j.ID)
			return
		}
		if ended[n/2] = b.turn().Step(ctx, j.Ref(), seedbed.Step{Done: "start"}); ended[n/2] == nil {
			ended[n/2] = b.turn().Finish(ctx, j.Ref(), results[n/2%len(results)])
		}
	})
	for n, j := range jobs {
		now := get(b.Job(ctx, j.ID))(b)
		if refused[n] == nil {
			b.want(ended[n], seedbed.ErrConflict, "cancelled")
			b.equal([]any{now.State, now.Cancel, now.Owner}, []any{seedbed.JobRunning, true, "test"})
			continue
		}
		b.want(refused[n], seedbed.ErrConflict, "has ended already")
		b.must(ended[n])
		b.equal([]any{now.State, now.Cancel}, []any{results[n%len(results)].State, false})
	}
}
