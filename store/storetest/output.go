package storetest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"seedbed"
)

var outputCases = map[string]func(*bench){
	"lines":     testOutput,
	"bounded":   testOutputBounded,
	"retention": testOutputRetention,
}

func lines(stream string, texts ...string) (all []seedbed.OutputLine) {
	for _, t := range texts {
		all = append(all, seedbed.OutputLine{Stream: stream, Text: t})
	}
	return all
}

func texts(all []seedbed.JobOutput) (out []string) {
	for _, l := range all {
		out = append(out, l.Text)
	}
	return out
}

// staged returns a job with two stages, of which the second is running.
func (b *bench) staged(name string) seedbed.Job {
	b.Helper()
	ctx := context.Background()
	j, _ := b.running(name)
	b.must(b.Step(ctx, j.Ref(), seedbed.Step{Next: "prepare", Total: 2}))
	b.must(b.Step(ctx, j.Ref(), seedbed.Step{Done: "prepare", Next: "install", Total: 2}))
	return j
}

func testOutput(b *bench) {
	ctx := context.Background()
	b.world()
	j := b.staged("web1")
	b.must(b.LogOutput(ctx, j.Ref(), "prepare", lines("stdout", "one", "two\x00\xff")))
	b.must(b.LogOutput(ctx, j.Ref(), "install", lines("stderr", strings.Repeat("é", 5000))))
	b.must(b.LogOutput(ctx, j.Ref(), "install", nil))
	all := get(b.JobOutput(ctx, j.ID, "", 0, 0))(b)
	if len(all) != 3 || all[0].At.IsZero() || len(all[2].Text) > 4096 {
		b.Fatalf("output: %+v", all)
	}
	all[0].At = time.Time{}
	b.equal(all[0], seedbed.JobOutput{N: 1, Stage: "prepare", OutputLine: seedbed.OutputLine{Stream: "stdout", Text: "one"}})
	b.equal(all[1].Text, "two\ufffd\ufffd")
	b.equal(all[2].Stream, "stderr")
	b.equal(texts(get(b.JobOutput(ctx, j.ID, "prepare", 1, 0))(b)), []string{"two\ufffd\ufffd"})
	b.equal(len(get(b.JobOutput(ctx, j.ID, "", 0, 2))(b)), 2)
	b.equal(get(b.JobOutput(ctx, j.ID, "start", 0, 0))(b), []seedbed.JobOutput{})
	b.want(b.LogOutput(ctx, j.Ref(), "start", lines("stdout", "x")), seedbed.ErrConflict, "start")
	b.want(b.LogOutput(ctx, seedbed.JobRef{ID: j.ID, Epoch: j.Epoch + 1}, "install", lines("stdout", "x")), seedbed.ErrStale)
	_, err := b.JobOutput(ctx, seedbed.NewJobID(), "", 0, 0)
	b.want(err, seedbed.ErrNotFound)
}

// testOutputBounded checks that the beginning and the end of a very long output are kept, with one
// line in place of the middle, and that each stage has its own limit.
func testOutputBounded(b *bench) {
	ctx := context.Background()
	b.world()
	j := b.staged("web1")
	b.must(b.LogOutput(ctx, j.Ref(), "prepare", lines("stdout", "before")))
	const batch, batches = 400, 20
	n := 0
	for range batches {
		var part []seedbed.OutputLine
		for range batch {
			part = append(part, seedbed.OutputLine{Stream: "stdout", Text: fmt.Sprintf("%08d ", n) + strings.Repeat("x", 500)})
			n++
		}
		b.must(b.LogOutput(ctx, j.Ref(), "install", part))
	}
	b.equal(texts(get(b.JobOutput(ctx, j.ID, "prepare", 0, 0))(b)), []string{"before"})
	all := get(b.JobOutput(ctx, j.ID, "install", 0, 0))(b)
	size, notes, kept, before := 0, 0, 0, ""
	for i, l := range all {
		size += len(l.Text)
		if l.Stream == seedbed.OutputNote {
			notes++
			var gone, bytes int
			if _, err := fmt.Sscanf(l.Text, "%d lines with %d bytes", &gone, &bytes); err != nil || gone != n-len(all)+1 || bytes != gone*509 {
				b.Errorf("note %q of %d lines, of which %d are kept", l.Text, n, len(all)-1)
			}
			if i < 100 {
				b.Errorf("only %d lines of the beginning are kept", i)
			}
			continue
		}
		kept++
		if l.Text <= before {
			b.Fatalf("line %q after %q", l.Text[:8], before[:8])
		}
		before = l.Text
	}
	if notes != 1 || size > int(seedbed.MaxOutput) || size < int(seedbed.MaxOutput)/2 {
		b.Errorf("%d notes, %d lines of %d bytes", notes, kept, size)
	}
	b.equal([]string{all[0].Text[:8], all[len(all)-1].Text[:8]}, []string{"00000000", fmt.Sprintf("%08d", n-1)})
}

func testOutputRetention(b *bench) {
	ctx := context.Background()
	b.world()
	j := b.staged("web1")
	b.must(b.LogOutput(ctx, j.Ref(), "install", lines("stdout", "one", "two")))
	later := time.Now().Add(time.Hour)
	b.equal(get(b.CountOutput(ctx, later))(b), 0) // the job has not ended
	b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded, InstanceState: seedbed.InstanceRunning}))
	b.equal(get(b.CountOutput(ctx, time.Now().Add(-time.Hour)))(b), 0)
	b.equal(get(b.CountOutput(ctx, later))(b), 2)
	b.equal(get(b.DropOutput(ctx, later))(b), 2)
	b.equal(get(b.JobOutput(ctx, j.ID, "", 0, 0))(b), []seedbed.JobOutput{})
}

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
