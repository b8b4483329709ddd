package worker

import (
	"slices"
	"sync"
	"time"

	"seedbed"
	"seedbed/provision/effects"
)

const (
	// resultTime is how long the end of a program is kept: an agent tells it once, and whoever asked may not have got the answer.
	resultTime = 10 * time.Minute
	// resultsEach and resultsMost bound what is kept of one domain and of all.
	resultsEach = 16 * seedbed.MiB
	resultsMost = 64 * seedbed.MiB
	// resultCost is added to the size of each, so that many small ones are bounded too.
	resultCost = 4 * seedbed.KiB
	// maxLooks limits the questions whether a program has exited, at the same time.
	maxLooks = 64
)

// results keeps how programs in guests have ended, for some minutes.
type results struct {
	mu    sync.Mutex
	now   func() time.Time
	kept  []result // the oldest first
	looks map[effects.GuestProcess]*look
}

// result is the end of one program.
type result struct {
	of      effects.GuestProcess
	process seedbed.GuestProcess
	at      time.Time
}

func (r result) size() seedbed.Bytes {
	return resultCost + seedbed.Bytes(len(r.process.Stdout)+len(r.process.Stderr))
}

// look is a question to an agent whether a program has exited. done is closed when the others are set.
type look struct {
	done    chan struct{}
	process seedbed.GuestProcess
	err     error
}

func newResults(now func() time.Time) *results {
	return &results{now: now, looks: map[effects.GuestProcess]*look{}}
}

// look returns the question about a program that is under way, or begins one. The question goes on if those who asked leave, and
// what it finds out is kept. A program whose end is kept is not asked about.
func (r *results) look(of effects.GuestProcess, ask func() (seedbed.GuestProcess, error)) (*look, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.expire()
	if at := slices.IndexFunc(r.kept, func(k result) bool { return k.of == of }); at >= 0 {
		l := &look{done: make(chan struct{}), process: r.kept[at].process}
		close(l.done)
		return l, nil
	}
	if l, ok := r.looks[of]; ok {
		return l, nil
	}
	if len(r.looks) == maxLooks {
		return nil, seedbed.Errorf(seedbed.ErrUnavailable, "guest agents are asked about %d programs at the moment, which is the most", maxLooks)
	}
	l := &look{done: make(chan struct{})}
	r.looks[of] = l
	go func() {
		defer close(l.done)
		l.process, l.err = ask()
		r.end(of, l)
	}()
	return l, nil
}

// end is the end of a question.
func (r *results) end(of effects.GuestProcess, l *look) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.looks, of)
	if l.err == nil && l.process.Exited {
		r.kept = append(r.kept, result{of, l.process, r.now()})
		r.bound(of.ID, resultsEach)
		r.bound("", resultsMost)
	}
}

// forget forgets the end of a program whose number another program has now.
func (r *results) forget(of effects.GuestProcess) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kept = slices.DeleteFunc(r.kept, func(k result) bool { return k.of == of })
}

// expire forgets what is old.
func (r *results) expire() {
	r.kept = slices.DeleteFunc(r.kept, func(k result) bool { return r.now().Sub(k.at) > resultTime })
}

// bound forgets the oldest of a domain, or of all if id is empty, until there are at most that many bytes.
func (r *results) bound(id seedbed.InstanceID, most seedbed.Bytes) {
	size := seedbed.Bytes(0)
	for _, k := range r.kept {
		if id == "" || k.of.ID == id {
			size += k.size()
		}
	}
	r.kept = slices.DeleteFunc(r.kept, func(k result) bool {
		if size <= most || id != "" && k.of.ID != id {
			return false
		}
		size -= k.size()
		return true
	})
}
