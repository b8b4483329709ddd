package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"runtime"
	"time"

	"seedbed/internal/bench"
)

// growth compares the median answer at many instances with that at few: the same ten guests ask
// both, and only the directory is another.
func (l *lab) growth(ctx context.Context, note *table) ([]bench.Figure, error) {
	figure := bench.Figure{Name: "growth_ratio", Unit: "x", Mark: bench.AtMost(1.05),
		How: fmt.Sprintf("median answer at %d instances to that at %d", manyGuests, fewGuests)}
	side := func(h *host) (*loader, *target) {
		sources := h.sources[:fewGuests]
		at := &target{to: sockaddr(metadataTCP)}
		for _, s := range sources {
			at.requests, at.bodies = append(at.requests, get(idPath, "", false)), append(at.bodies, []byte(s.guest.ServedID()))
		}
		return &loader{sources: sources}, at
	}
	manyFrom, manyAt := side(l.many)
	fewFrom, fewAt := side(l.few)
	for run := range l.runs + 1 {
		t, err := l.alternate(ctx, run, 3*rounds, func(our bool) (outcome, error) {
			time.Sleep(growthPause)
			if our {
				return manyFrom.round(ctx, manyAt, growthRound, roundLength)
			}
			return fewFrom.round(ctx, fewAt, growthRound, roundLength)
		})
		if err != nil {
			return nil, err
		}
		if run == 0 {
			continue
		}
		figure.Runs = append(figure.Runs, t.ratio(func(o *outcome) float64 { return float64(o.quantile(0.5)) }))
		figure.Flaw = cmp.Or(figure.Flaw, t.flaw())
		note.add("growth", fmt.Sprintf("seedbed-metadata, %d", manyGuests), t.ours)
		note.add("growth", fmt.Sprintf("seedbed-metadata, %d", fewGuests), t.others)
	}
	say("growth is measured")
	return []bench.Figure{figure}, nil
}

// memory is what the daemon holds after the load, once it has settled: it has not changed by half a
// hundredth for five seconds. The runtime gives back slowly.
func (l *lab) memory(ctx context.Context, _ *table) ([]bench.Figure, error) {
	figure := bench.Figure{Name: "rss_mib", Unit: "MiB", Mark: bench.AtMost(120),
		How: fmt.Sprintf("VmRSS at %d instances, after the load", manyGuests)}
	last, since := 0.0, time.Now()
	began := time.Now()
	err := l.many.daemon.await(ctx, time.Minute, 200*time.Millisecond, func() bool {
		b, err := bench.RSS(l.many.daemon.pid())
		if err != nil {
			figure.Flaw = err.Error()
			return true
		}
		now := float64(b) / (1 << 20)
		if now < last*0.995 || now > last*1.005 {
			last, since = now, time.Now()
		}
		return time.Since(since) > 5*time.Second || time.Since(began) > 30*time.Second
	})
	figure.Runs = []float64{last}
	return []bench.Figure{figure}, err
}

// boots are the storms. One that was disturbed is made again while there is patience for storms,
// which is apart from that for rounds.
func (l *lab) boots(ctx context.Context, _ *table) ([]bench.Figure, error) {
	figure := bench.Figure{Name: "storm_s", Unit: "s", Mark: bench.AtMost(5)}
	left := stormPatience
	for len(figure.Runs) < l.runs {
		var s storm
		before, err := l.used()
		if err != nil {
			return nil, err
		}
		busy, took, err := l.watched(func() (err error) {
			s, err = runStorm(ctx, l.many.sources, l.many.in, sockaddr(metadataTCP))
			return err
		})
		if err != nil {
			return nil, err
		}
		after, err := l.used()
		if err != nil {
			return nil, err
		}
		say("%d guests have booted", s.guests)
		figure.How = fmt.Sprintf("%d guests boot at once, %d requests, %d guests failed, %.1f s of processor time on %d processors",
			len(l.many.sources), s.asked, s.wrong, (after - before).Seconds(), runtime.NumCPU())
		if s.flaw != "" {
			figure.Flaw = fmt.Sprintf("%d guests booted, %d failed: %s", s.guests, s.wrong, s.flaw)
		} else if busy > l.patience.share && took < left {
			left -= took
			continue
		}
		figure.Flaw = cmp.Or(figure.Flaw, l.disturbed(busy))
		figure.Runs = append(figure.Runs, s.wall.Seconds())
	}
	return []bench.Figure{figure}, nil
}

// used is the processor time of guests and daemon so far.
func (l *lab) used() (time.Duration, error) {
	own, err := bench.CPU(os.Getpid())
	if err != nil {
		return 0, err
	}
	daemon, err := bench.CPU(l.many.daemon.pid())
	return own + daemon, err
}

// disturbed says that other programs ran on the machine during a run; it is empty if none did.
func (l *lab) disturbed(busy float64) string {
	if busy <= l.patience.share {
		return ""
	}
	return fmt.Sprintf("other programs had %.0f%% of the machine during a run", busy*100)
}

// starts measures how soon a guest is answered after the program was started with nothing but what
// is on disk: seedbedd is away.
func (l *lab) starts(ctx context.Context, _ *table) ([]bench.Figure, error) {
	figure := bench.Figure{Name: "start_s", Unit: "s", Mark: bench.AtMost(2),
		How: fmt.Sprintf("from exec to the first answer, %d instances on disk", manyGuests)}
	l.many.unfeed()
	for range l.runs {
		if err := l.many.daemon.stop(); err != nil {
			return nil, err
		}
		busy, took, err := l.watched(func() error {
			if err := l.many.start(); err != nil {
				return err
			}
			return l.many.daemon.await(ctx, startTime, pollTime, func() bool { return l.many.answers(ctx) })
		})
		if err != nil {
			return nil, err
		}
		figure.Runs = append(figure.Runs, took.Seconds())
		figure.Flaw = cmp.Or(figure.Flaw, l.disturbed(busy))
	}
	return []bench.Figure{figure}, nil
}
