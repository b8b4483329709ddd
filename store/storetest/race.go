package storetest

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"

	"seedbed"
)

var raceCases = map[string]func(*bench){
	"one name":        testOneName,
	"one delivery":    testOneDelivery,
	"addresses":       testAddressRace,
	"claims":          testClaimRace,
	"one cron slot":   testSlotRace,
	"one setting":     testSettingRace,
	"events gap-free": testEventRace,
}

const crowd = 100

// each runs f in n goroutines at once and waits for them.
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

// Different requests for one name: one gets it, the others learn who.
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

// The same delivery at once: all get one job.
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
	b.equal(len(get(b.Deliveries(ctx, 0))(b)), 1)
}

// More requests than addresses: each address is given once.
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

// Many owners and many jobs: each job is claimed once.
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

// Writers at once, and a reader who resumes after the last seq that it saw: it
// misses nothing.
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
