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
	batch []*Write[T] // only set for the leader: the writes that it commits, its own first
}

// Commit writes a batch in one transaction. If alone is set, the batch is one write that could not
// share a transaction: it may wait for locks, and must set Err.
type Commit[T any] func(ctx context.Context, batch []*Write[T], alone bool) Result

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

// Leads reports whether a batch is being committed.
func (q *Queue[T]) Leads() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.leading
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
	if w.batch != nil {
		q.lead(w.batch)
	}
	if w.Apart {
		q.commit(ctx, []*Write[T]{w}, true)
	}
	return w.Err
}

// appoint makes the first waiting write the leader of the next batch.
func (q *Queue[T]) appoint() {
	n := min(len(q.waiting), q.most)
	if q.leading = n > 0; !q.leading {
		return
	}
	batch := q.waiting[:n:n]
	q.waiting = q.waiting[n:]
	batch[0].batch = batch
	close(batch[0].turn)
}

// lead commits a batch, wakes its followers and appoints the next leader.
func (q *Queue[T]) lead(batch []*Write[T]) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(batch[0].Ctx), q.limit)
	defer cancel()
	defer func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		for _, follower := range batch[1:] {
			close(follower.turn)
		}
		q.appoint()
	}()
	q.settle(ctx, batch)
}

// settle commits a batch. If the batch is refused, settle commits its two halves, until each
// refused write is alone.
func (q *Queue[T]) settle(ctx context.Context, batch []*Write[T]) {
	if q.commit(ctx, batch, false) == Settled {
		return
	}
	if len(batch) == 1 {
		batch[0].Apart = true
		return
	}
	half := len(batch) / 2
	q.settle(ctx, batch[:half])
	q.settle(ctx, batch[half:])
}
