package worker

import (
	"context"
	"errors"
	"sync"
	"time"

	"seedbed"
)

// forgetAfter is how long the highest epoch of a job is kept after its last call has ended.
const forgetAfter = 24 * time.Hour

// sweepEvery is how often jobs that can be forgotten are searched for.
const sweepEvery = time.Hour

// fence refuses writers of an old epoch. For each job it remembers the highest epoch that it has
// seen, and lets only one call run at a time.
type fence struct {
	now   func() time.Time
	mu    sync.Mutex
	jobs  map[seedbed.JobID]*jobCalls
	swept time.Time
}

// jobCalls is one job's state. It is kept at least as long as the job has calls.
type jobCalls struct {
	epoch   int64
	used    time.Time
	running *entry
	calls   map[*entry]struct{} // running and waiting
}

// entry is one call, from its arrival until it has ended.
type entry struct {
	id     string
	call   seedbed.Call
	cancel context.CancelCauseFunc
	done   chan struct{}
}

func newFence(now func() time.Time) *fence {
	return &fence{now: now, jobs: map[seedbed.JobID]*jobCalls{}, swept: now()}
}

// enter waits until the call may run, and returns the context that it runs under. leave must be
// called when the call has ended. A call of a higher epoch first ends the running and waiting calls
// of its job. Errors: ErrStale for a lower epoch, even if it becomes lower during the wait;
// ErrUnavailable if the earlier call does not end in time.
func (f *fence) enter(ctx context.Context, id string, call seedbed.Call) (_ context.Context, leave func(), _ error) {
	ctx, cancel := context.WithCancelCause(ctx)
	e := &entry{id: id, call: call, cancel: cancel, done: make(chan struct{})}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sweep()
	s := f.callsOf(call.Job)
	if call.Epoch < s.epoch {
		cancel(nil)
		return nil, nil, stale(call, s.epoch)
	}
	if call.Epoch > s.epoch {
		s.epoch = call.Epoch
		for older := range s.calls {
			older.cancel(stale(older.call, call.Epoch))
		}
	}
	s.calls[e] = struct{}{}
	for s.running != nil {
		earlier := s.running
		f.mu.Unlock()
		select {
		case <-earlier.done:
		case <-ctx.Done():
		}
		f.mu.Lock()
		if ctx.Err() != nil {
			f.end(s, e)
			return nil, nil, waited(ctx, earlier.call)
		}
	}
	s.running = e
	return ctx, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		s.running = nil
		f.end(s, e)
	}, nil
}

// end removes an entry. The lock is held.
func (f *fence) end(s *jobCalls, e *entry) {
	delete(s.calls, e)
	s.used = f.now()
	e.cancel(nil)
	close(e.done)
}

// callsOf returns the job's slot, and makes one if necessary. The lock is held.
func (f *fence) callsOf(job seedbed.JobID) *jobCalls {
	s := f.jobs[job]
	if s == nil {
		s = &jobCalls{calls: map[*entry]struct{}{}}
		f.jobs[job] = s
	}
	s.used = f.now()
	return s
}

// stop ends the call with that ID, and returns a channel for each ended call, which is closed when
// that call has ended. Without an ID it ends every call of the job up to the call's epoch, and
// earlier epochs are refused from then on.
func (f *fence) stop(id string, call seedbed.Call) ([]<-chan struct{}, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.jobs[call.Job]
	if id == "" {
		f.sweep()
		s = f.callsOf(call.Job)
		if call.Epoch < s.epoch {
			return nil, stale(call, s.epoch)
		}
		s.epoch = call.Epoch
	}
	if s == nil {
		return nil, nil
	}
	var ends []<-chan struct{}
	for e := range s.calls {
		if id == "" || e.id == id {
			e.cancel(seedbed.Errorf(seedbed.ErrUnavailable, "the call was cancelled"))
			ends = append(ends, e.done)
		}
	}
	return ends, nil
}

// sweep removes jobs that have not been used for long. The lock is held.
func (f *fence) sweep() {
	now := f.now()
	if now.Sub(f.swept) < sweepEvery {
		return
	}
	f.swept = now
	for id, s := range f.jobs {
		if len(s.calls) == 0 && now.Sub(s.used) >= forgetAfter {
			delete(f.jobs, id)
		}
	}
}

func stale(call seedbed.Call, epoch int64) error {
	return seedbed.Errorf(seedbed.ErrStale, "job %s has a newer holder: epoch %d, and the call's is %d", call.Job.Short(), epoch, call.Epoch)
}

func waited(ctx context.Context, earlier seedbed.Call) error {
	if err := context.Cause(ctx); errors.Is(err, seedbed.ErrStale) {
		return err
	}
	return seedbed.Errorf(seedbed.ErrUnavailable, "the earlier call of job %s (stage %s, epoch %d) has not ended",
		earlier.Job.Short(), earlier.Stage, earlier.Epoch)
}
