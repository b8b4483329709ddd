package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"text/tabwriter"
	"time"

	"seedbed/internal/bench"
)

// turns are the rounds of one run, of two sides that take turns.
type turns struct {
	ours, others []outcome
	// disturbed are the pairs of rounds while which the machine was busy with something else.
	disturbed int
}

// patience is the total time for repeating rounds in which other programs used too much of the
// machine.
type patience struct {
	left  time.Duration
	share float64
}

// alternate makes so many rounds of each side, one after the other; who begins changes.
func (l *lab) alternate(ctx context.Context, run, rounds int, round func(our bool) (outcome, error)) (turns, error) {
	if run == 0 {
		rounds = 1
	}
	var t turns
	for len(t.ours) < rounds {
		if err := ctx.Err(); err != nil {
			return t, err
		}
		first := (len(t.ours)+run)%2 == 0
		var both [2]outcome
		busy, took, err := l.watched(func() (err error) {
			for i, our := range []bool{first, !first} {
				if both[i], err = round(our); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return t, err
		}
		if busy > l.patience.share && l.patience.left > 0 {
			l.patience.left -= took
			continue
		}
		if busy > l.patience.share {
			t.disturbed++
		}
		if !first {
			both[0], both[1] = both[1], both[0]
		}
		t.ours, t.others = append(t.ours, both[0]), append(t.others, both[1])
	}
	return t, nil
}

// watched calls f and returns how long it took and what share of the machine other programs used
// during that time.
func (l *lab) watched(f func() error) (busy float64, took time.Duration, err error) {
	others := func() (time.Duration, error) { // f may start a daemon again
		return bench.Others(os.Getpid(), l.many.daemon.pid(), l.few.daemon.pid(), l.constant.pid())
	}
	before, err := others()
	if err != nil {
		return 0, 0, err
	}
	began := time.Now()
	if err := f(); err != nil {
		return 0, 0, err
	}
	took = time.Since(began)
	after, err := others()
	return (after - before).Seconds() / (took.Seconds() * float64(runtime.NumCPU())), took, err
}

// ratio compares each round with the other side's next to it, and is the median: what a busy
// machine does to one of them is left out.
func (t *turns) ratio(of func(*outcome) float64) float64 {
	var all []float64
	for i := range min(len(t.ours), len(t.others)) {
		if theirs := of(&t.others[i]); theirs > 0 {
			all = append(all, of(&t.ours[i])/theirs)
		}
	}
	return bench.Median(all)
}

// flaw says what was wrong with the rounds; it is empty when nothing was.
func (t *turns) flaw() string {
	if o := sum(append(append([]outcome(nil), t.ours...), t.others...)); o.bad > 0 {
		return fmt.Sprintf("%d requests failed, such as: %s", o.bad, o.flaw)
	}
	if t.disturbed > 0 {
		return fmt.Sprintf("other programs used the machine in %d of %d pairs of rounds", t.disturbed, len(t.ours))
	}
	return ""
}

func sum(all []outcome) outcome {
	var o outcome
	for _, a := range all {
		o.add(a)
	}
	return o
}

// table is what was measured on the way to the figures.
type table struct{ lines []string }

func (t *table) add(load, server string, rounds []outcome) {
	o := sum(rounds)
	t.lines = append(t.lines, fmt.Sprintf("%s\t%s\t%.0f\t%.2f\t%.2f\t%.1f\t%d", load, server, o.rate(),
		o.quantile(0.5).Seconds()*1e3, o.quantile(0.99).Seconds()*1e3, o.perRequest(), o.bad))
}

func (t *table) write(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(tw, "load\tserver\trequests/s\tp50 ms\tp99 ms\tserver CPU us/request\tfailed")
	for _, line := range t.lines {
		fmt.Fprintln(tw, line)
	}
	fmt.Fprintln(tw)
	return tw.Flush()
}
