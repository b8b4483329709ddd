package groupcommit

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Result is the outcome of a batch.
type Result int

const (
	// Settled means that each write has its outcome in Err or is set Apart.
	Settled Result = iota
	// Refused means that nothing was written because one of the writes was refused, and that it is
	// not known which.
	Refused
)

// Write is one write of a batch.
type Write[T any] struct {
	// Ctx is the caller's context. A write whose context has ended is skipped.
	Ctx context.Context
	// Do describes what to write.
	Do T
	// Err is the outcome.
	Err error
	// Apart is set for a write that needs a transaction of its own.
	Apart bool

	turn  chan struct{}
	leads bool // set before turn is closed
}

// Commit writes a batch in one transaction. take returns the batch, the same one each time. Commit
// calls it once the transaction has begun, so that writes that arrive until then are part of it. If
// alone is set, the batch is one write that could not share a transaction: it may wait for locks,
// and must set Err.
type Commit[T any] func(ctx context.Context, take func() []*Write[T], alone bool) Result

// Queue collects writes in batches, and commits one batch at a time.
type Queue[T any] struct {
	commit Commit[T]
	most   int
	limit  time.Duration

	mu      sync.Mutex
	waiting []*Write[T]
	leading bool
}

// New returns a queue whose batches have at most most writes, and take at most limit each.
func New[T any](most int, limit time.Duration, commit Commit[T]) *Queue[T] {
	return &Queue[T]{commit: commit, most: most, limit: limit}
}

// Len returns how many writes wait for the next batch.
func (q *Queue[T]) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting)
}

// errAbandoned is the outcome of a write whose leader did not finish, such as after a panic.
var errAbandoned = errors.New("the transaction that was to write this was abandoned")

// Do writes do, possibly in one batch with concurrent writes, and returns its outcome.
func (q *Queue[T]) Do(ctx context.Context, do T) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	w := &Write[T]{Ctx: ctx, Do: do, Err: errAbandoned, turn: make(chan struct{})}
	q.mu.Lock()
	q.waiting = append(q.waiting, w)
	if !q.leading {
		q.appoint()
	}
	q.mu.Unlock()
	<-w.turn
	if w.leads {
		q.lead(w)
	}
	if w.Apart {
		q.commit(ctx, only(w), true)
	}
	return w.Err
}

// appoint makes the first waiting write the leader of the next batch.
func (q *Queue[T]) appoint() {
	if q.leading = len(q.waiting) > 0; !q.leading {
		return
	}
	w := q.waiting[0]
	q.waiting = q.waiting[1:]
	w.leads = true
	close(w.turn)
}

// follow returns the waiting writes that a leader takes into its batch.
func (q *Queue[T]) follow() []*Write[T] {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := min(len(q.waiting), q.most-1)
	followers := q.waiting[:n:n]
	q.waiting = q.waiting[n:]
	return followers
}

// lead commits the batch of w, wakes its followers and appoints the next leader.
func (q *Queue[T]) lead(w *Write[T]) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.Ctx), q.limit)
	defer cancel()
	batch, taken, settled := []*Write[T]{w}, false, false
	defer func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		for _, follower := range batch[1:] {
			if !settled { // a panic: what the attempt has noted so far is not the outcome
				follower.Err, follower.Apart = errAbandoned, false
			}
			close(follower.turn)
		}
		q.appoint()
	}()
	q.settle(ctx, func() []*Write[T] {
		if !taken {
			batch, taken = append(batch, q.follow()...), true
		}
		return batch
	})
	settled = true
}

// only returns the take of a fixed batch.
func only[T any](batch ...*Write[T]) func() []*Write[T] {
	return func() []*Write[T] { return batch }
}

// settle commits a batch. If the batch is refused, settle commits its two halves, until each
// refused write is alone.
func (q *Queue[T]) settle(ctx context.Context, take func() []*Write[T]) {
	if q.commit(ctx, take, false) == Settled {
		return
	}
	batch := take()
	if len(batch) == 1 {
		batch[0].Apart = true
		return
	}
	half := len(batch) / 2
	q.settle(ctx, only(batch[:half]...))
	q.settle(ctx, only(batch[half:]...))
}
