package storetest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"seedbed"
)

func testEventsOfAll(b *bench) {
	ctx := context.Background()
	if last := get(b.LastPlace(ctx))(b); last != 0 {
		b.Errorf("before any event the last place is %d", last)
	}
	b.world()
	before := get(b.LastPlace(ctx))(b)
	j, _ := b.running("web1")
	for n := range 3 {
		b.must(b.LogEvent(ctx, j.Ref(), seedbed.Event{Msg: fmt.Sprint(n), Progress: n}))
	}
	all := get(b.EventsOfAll(ctx, seedbed.AllProjects(), before, 0))(b)
	own := get(b.Events(ctx, j.ID, 0, 0))(b)
	if len(all) != len(own) {
		b.Fatalf("%d events among all, %d of the job", len(all), len(own))
	}
	for i, e := range all {
		b.equal(e.Event, own[i])
		b.equal(e, seedbed.NumberedEvent{Event: e.Event, Place: before + int64(i) + 1, Kind: seedbed.JobCreate, Subject: "web1"})
	}
	b.equal(get(b.EventsOfAll(ctx, seedbed.AllProjects(), before+1, 2))(b), all[1:3])
	b.equal(get(b.EventsOfAll(ctx, seedbed.AllProjects(), all[len(all)-1].Place, 5))(b), []seedbed.NumberedEvent{})
	b.equal(get(b.LastPlace(ctx))(b), all[len(all)-1].Place)
}

// Followers of all events miss none and get none twice while many writers are active, although each
// asks only for what is after the last event that it has.
func testEventsRace(b *bench) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	b.world()
	const writers, each, followers = 4, 25, 3
	start := get(b.LastPlace(ctx))(b)
	var jobs []seedbed.Job
	for n := range writers {
		j, _ := b.running(fmt.Sprintf("web%d", n))
		jobs = append(jobs, j)
	}
	want := map[seedbed.JobID]int64{}
	for _, j := range jobs {
		want[j.ID] = get(b.Events(ctx, j.ID, 0, 0))(b)[0].Seq + each
	}
	var wg sync.WaitGroup
	for _, j := range jobs {
		wg.Go(func() {
			for n := range each {
				if err := b.LogEvent(ctx, j.Ref(), seedbed.Event{Msg: fmt.Sprint(n)}); err != nil {
					b.Error(err)
				}
			}
		})
	}
	for range followers {
		wg.Go(func() {
			after, seen := start, map[seedbed.JobID]int64{}
			for done := 0; done < writers; {
				hint := b.Hint()
				found, err := b.EventsOfAll(ctx, seedbed.AllProjects(), after, 7)
				if err != nil {
					b.Error(err)
					return
				}
				for _, e := range found {
					if e.Seq != seen[e.Job]+1 || e.Place <= after {
						b.Errorf("event %d of a job follows %d, place %d follows %d", e.Seq, seen[e.Job], e.Place, after)
						return
					}
					if seen[e.Job], after = e.Seq, e.Place; e.Seq == want[e.Job] {
						done++
					}
				}
				if len(found) > 0 {
					continue
				}
				select {
				case <-hint:
				case <-time.After(100 * time.Millisecond):
				case <-ctx.Done():
					b.Errorf("after five minutes %d of %d jobs were seen to their end", done, writers)
					return
				}
			}
		})
	}
	wg.Wait()
}
