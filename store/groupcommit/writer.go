package groupcommit

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"seedbed"
	"seedbed/store/outbox"
	"seedbed/store/sqldb"
)

// Writer commits writes to a database, those that arrive at the same time in one transaction.
type Writer struct {
	db *sqldb.DB
	// requests queues the writes of requests, and steps those of jobs by their owners.
	requests, steps *Queue[Change]
	// prepare reads and locks at once what the writes of a batch need.
	prepare Prepare
}

// Prepare reads and locks at once what the writes of a shared transaction need, and keeps it in the
// batch with [Of].
type Prepare func(ctx context.Context, b *Batch, writes []Change) error

// NewWriter returns the writer of a database.
func NewWriter(db *sqldb.DB, prepare Prepare) *Writer {
	w := &Writer{db: db, prepare: prepare}
	w.requests = New(most, limit, w.commitShared(false))
	w.steps = New(most, limit, w.commitShared(true))
	return w
}

// Waiting returns how many writes wait for the next transaction.
func (w *Writer) Waiting() int { return w.requests.Len() + w.steps.Len() }

// Batch is a transaction of one or several writes, with the rows that were read for all of them.
type Batch struct {
	*sqldb.Tx
	// Shared is set while several writes share the transaction, or try to. A write then does not
	// look for what a key refuses, and does not wait for a locked job: it moves to a transaction of
	// its own, where it does both.
	Shared  bool
	Dialect *sqldb.Dialect

	values map[any]any // by a nil pointer of their type
}

// Of returns what the writes of a batch share as a T, such as the rows that one of them has
// read. It is the zero value at first, and ends with the transaction.
func Of[T any](b *Batch) *T {
	key := (*T)(nil)
	if v, ok := b.values[key]; ok {
		return v.(*T)
	}
	if b.values == nil {
		b.values = map[any]any{}
	}
	v := new(T)
	b.values[key] = v
	return v
}

// Alone returns the batch of a write that has the transaction for itself.
func Alone(tx *sqldb.Tx) *Batch { return &Batch{Tx: tx} }

// Change is the write of one caller in a batch.
type Change struct {
	// Job is the job that the write is about, if any. The batch reads all of its jobs at once.
	Job *seedbed.JobRef
	// Ends is set if the write ends the job.
	Ends bool
	// Networks are those that the write takes addresses of. The batch locks all of its networks first.
	Networks []string
	// Groups are the security groups that its NICs may come to be in, which are locked next.
	Groups []string
	// Hook, Token and Project are those whose quotas the write counts against, if any. The batch locks
	// all of them after the networks.
	Hook, Token, Project string
	// Do writes, and returns the events of the write.
	Do func(context.Context, *Batch) ([]outbox.Event, error)
}

const (
	// most is the largest number of writes that share a transaction.
	most = 64
	// limit bounds a shared transaction, which ignores the deadlines of its callers.
	limit = 20 * time.Second
)

// ErrApart means that a write cannot share a transaction.
var ErrApart = errors.New("the write needs a transaction of its own")

// Together is [sqldb.DB.Update] for a write that may share its transaction with others; the package
// comment explains how. It must not write rows that are cached.
func (w *Writer) Together(ctx context.Context, what string, c Change) error {
	return w.join(ctx, w.requests, what, c)
}

// OfHolder is Together for writes of a job's owner to the job's own rows.
func (w *Writer) OfHolder(ctx context.Context, what string, c Change) error {
	return w.join(ctx, w.steps, what, c)
}

func (w *Writer) join(ctx context.Context, q *Queue[Change], what string, c Change) error {
	err := q.Do(ctx, c)
	if err == nil || errors.Is(err, sqldb.ErrUnchanged) {
		return nil
	}
	return w.db.Fail(ctx, what, err)
}

// Share is OfHolder for writes that also touch rows which other transactions lock. In a database
// with several writers it uses a transaction of its own, so that no job waits for the rows of
// another.
func (w *Writer) Share(ctx context.Context, what string, fn func(context.Context, *Batch) ([]outbox.Event, error)) error {
	if !w.db.Dialect.Server {
		return w.join(ctx, w.steps, what, Change{Do: fn})
	}
	return w.Own(ctx, what, func(tx *sqldb.Tx) error {
		events, err := fn(ctx, Alone(tx))
		if err != nil {
			return err
		}
		return outbox.Emit(ctx, tx, events...)
	})
}

// Own is [sqldb.DB.Update] for writes of a job's owner to rows that are not cached. The write is
// announced after its transaction, not in it, because PostgreSQL commits announcing transactions
// one after the other, each with its own flush.
func (w *Writer) Own(ctx context.Context, what string, fn func(*sqldb.Tx) error) error {
	changed, err := w.db.Change(ctx, what, fn)
	if changed {
		w.db.Wake()
		w.db.AnnounceSoon()
	}
	return err
}

// refusal is the error of a shared transaction that one of its writes may have caused. It hides its
// cause, so that the same transaction is not tried again.
type refusal struct{ err error }

func (r refusal) Error() string { return r.err.Error() }

// commitShared returns the Commit that commits writes in one transaction. It invalidates the cached
// values only if forget is set.
func (w *Writer) commitShared(forget bool) Commit[Change] {
	return func(ctx context.Context, take func() []*Write[Change], apart bool) Result {
		err := w.db.Transact(ctx, func(tx *sqldb.Tx) error {
			b := &Batch{Tx: tx, Shared: !apart, Dialect: &w.db.Dialect}
			changed, err := w.writeAll(ctx, b, take())
			if err == nil {
				err = tx.Flush(ctx)
			}
			switch {
			case err != nil && b.Shared && w.db.MayBeOnes(ctx, err):
				return refusal{err}
			case err == nil && !changed:
				return sqldb.ErrUnchanged
			}
			return err
		})
		if forget {
			w.db.Forget() // even after an error, because the commit may have succeeded
		}
		if r := (refusal{}); errors.As(err, &r) {
			return Refused
		}
		switch {
		case err == nil:
			w.db.Wake()
			w.db.AnnounceSoon()
		case errors.Is(err, sqldb.ErrUnchanged):
		case !apart && w.db.MayBeOnes(ctx, err): // the commit failed
			return Refused
		default:
			for _, one := range take() {
				one.Err = err
			}
		}
		return Settled
	}
}

// writeAll runs the writes of a batch, and reports whether any of them has written something.
func (w *Writer) writeAll(ctx context.Context, b *Batch, batch []*Write[Change]) (changed bool, err error) {
	if b.Shared {
		var all []Change
		for _, one := range batch {
			if one.Ctx.Err() == nil {
				all = append(all, one.Do)
			}
		}
		if err := w.prepare(ctx, b, all); err != nil {
			return false, err
		}
	}
	var events []outbox.Event
	for _, one := range batch {
		one.Apart = false
		if one.Err = one.Ctx.Err(); one.Err != nil {
			continue // its caller has given up
		}
		before := b.Mark()
		more, err := guarded(ctx, b, one.Do.Do)
		known := (*seedbed.Error)(nil)
		switch {
		case err == nil:
			changed, events = true, append(events, more...)
		case errors.Is(err, sqldb.ErrUnchanged):
		case b.Shared && errors.Is(err, ErrApart) && b.Back(before):
			one.Apart = true
		case b.Shared && errors.As(err, &known) && b.Back(before):
			one.Err = err
		default:
			return false, err
		}
	}
	return changed, outbox.Emit(ctx, b.Tx, events...)
}

// guarded runs one write and turns a panic into that write's error. The write runs in the goroutine
// of another caller, and must not affect the rest of the batch.
func guarded(ctx context.Context, b *Batch, fn func(context.Context, *Batch) ([]outbox.Event, error)) (events []outbox.Event, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return fn(ctx, b)
}
