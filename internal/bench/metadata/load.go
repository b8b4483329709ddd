package main

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// connections are open at the same time, over all threads.
	connections = 64
	// perConnection is how many requests of a kept connection one guest makes before the next guest
	// has its turn: all guests are asked for in a round, and none comes near its limit.
	perConnection = 512
)

// target is what is asked of one server: for each source its request, and the body that it must
// get.
type target struct {
	to       unix.SockaddrInet4
	requests [][]byte
	bodies   [][]byte
	fresh    bool // one connection per request
}

// load is a script that asks for the same again and again. It is of one thread.
type load struct {
	sources []*source
	at      *target
	until   time.Time
	most    int // total requests; 0 means that only until limits them

	slots []turn
	turn  int // the source that is next, counted on
	step  int
	asked int
	took  []time.Duration
	bad   int
	flaw  string
}

// turn is what a slot is at.
type turn struct{ source, left int }

func (l *load) next(slot int) (request, bool) {
	if l.most > 0 && l.asked >= l.most || time.Now().After(l.until) {
		return request{}, false
	}
	l.asked++
	t := &l.slots[slot]
	fresh := l.at.fresh || t.left == 0
	if fresh {
		t.source, t.left = l.turn%len(l.sources), perConnection
		l.turn += l.step
	}
	t.left--
	return request{from: l.sources[t.source], to: l.at.to, data: l.at.requests[t.source], fresh: fresh}, true
}

func (l *load) answered(slot int, a answer) {
	if want := l.at.bodies[l.slots[slot].source]; a.status != 200 || !bytes.Equal(a.body, want) {
		l.failed(slot, fmt.Errorf("status %d, body %.60q, expected %.60q", a.status, a.body, want))
		return
	}
	l.took = append(l.took, a.took)
}

func (l *load) failed(slot int, err error) {
	l.slots[slot].left = 0
	l.bad++
	if l.flaw == "" {
		l.flaw = fmt.Sprintf("guest %s: %v", l.sources[l.slots[slot].source].guest.Name, err)
	}
}

// outcome is what one or more rounds gave.
type outcome struct {
	took  []time.Duration // of each request that was answered
	wall  time.Duration
	cpu   time.Duration // of the server
	bad   int
	flaw  string
	known int // how many of took are sorted
}

// rate is in requests per second.
func (o *outcome) rate() float64 { return float64(len(o.took)) / o.wall.Seconds() }

// perRequest is the server's processor time per request, in microseconds.
func (o *outcome) perRequest() float64 {
	return float64(o.cpu.Microseconds()) / float64(max(1, len(o.took)))
}

// quantile is the time within which so many of the requests were answered.
func (o *outcome) quantile(q float64) time.Duration {
	if len(o.took) == 0 {
		return 0
	}
	if o.known != len(o.took) {
		slices.Sort(o.took)
		o.known = len(o.took)
	}
	return o.took[min(len(o.took)-1, int(q*float64(len(o.took))))]
}

func (o *outcome) add(p outcome) {
	o.took = append(o.took, p.took...)
	o.wall += p.wall
	o.cpu += p.cpu
	o.bad += p.bad
	if o.flaw == "" {
		o.flaw = p.flaw
	}
}

// loader makes rounds of load from some sources.
type loader struct {
	sources []*source
	turn    int
}

// round loads a target for a time, or for so many requests, from one thread per processor.
func (l *loader) round(ctx context.Context, at *target, most int, length time.Duration) (outcome, error) {
	threads := runtime.NumCPU()
	loads := make([]*load, threads)
	errs := make([]error, threads)
	began := time.Now()
	var wait sync.WaitGroup
	for i := range loads {
		loads[i] = &load{sources: l.sources, at: at, until: began.Add(length), most: most / threads,
			slots: make([]turn, connections/threads), turn: l.turn + i, step: threads, took: make([]time.Duration, 0, 1<<17)}
		wait.Go(func() { _, errs[i] = play(ctx, loads[i], connections/threads) })
	}
	wait.Wait()
	o := outcome{wall: time.Since(began)}
	for i, one := range loads {
		if errs[i] != nil {
			return o, errs[i]
		}
		o.add(outcome{took: one.took, bad: one.bad, flaw: one.flaw})
		l.turn = max(l.turn, one.turn)
	}
	return o, ctx.Err()
}
