package store

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"seedbed"
	"seedbed/store/groupcommit"
	"seedbed/store/outbox"
	"seedbed/store/sqldb"
)

// Batch is a transaction of one or several writes, with the rows that were read for all of them.
type Batch struct {
	*sqldb.Tx
	// shared is set while several writes share the transaction, or try to. A write then does not
	// look for what a key refuses, and does not wait for a locked job: it moves to a transaction of
	// its own, where it does both.
	shared  bool
	dialect *sqldb.Dialect

	values map[any]any // by a nil pointer of their type
}

// ofBatch returns what the writes of a batch share as a T, such as the rows that one of them has
// read. It is the zero value at first, and ends with the transaction.
func ofBatch[T any](b *Batch) *T {
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

// alone returns the batch of a write that has the transaction for itself.
func alone(tx *sqldb.Tx) *Batch { return &Batch{Tx: tx} }

// write is the write of one caller in a batch.
type write struct {
	// job is the job that the write is about, if any. The batch reads all of its jobs at once.
	job *seedbed.JobRef
	// ends is set if the write ends the job.
	ends bool
	// networks are those that the write takes addresses of. The batch locks all of its networks first.
	networks []string
	// fn writes, and returns the events of the write.
	fn func(context.Context, *Batch) ([]outbox.Event, error)
}

const (
	// sharedMost is the largest number of writes that share a transaction.
	sharedMost = 64
	// sharedLimit bounds a shared transaction, which ignores the deadlines of its callers.
	sharedLimit = 20 * time.Second
)

// errApart means that a write cannot share a transaction.
var errApart = errors.New("the write needs a transaction of its own")

// writeTogether is update for a write that may share its transaction with others; package groupcommit
// explains how. It must not write rows that are cached.
func (db *DB) writeTogether(ctx context.Context, what string, w write) error {
	return db.join(ctx, db.shared, what, w)
}

// ofHolder is writeTogether for writes of a job's owner to the job's own rows.
func (db *DB) ofHolder(ctx context.Context, what string, w write) error {
	return db.join(ctx, db.steps, what, w)
}

func (db *DB) join(ctx context.Context, q *groupcommit.Queue[write], what string, w write) error {
	err := q.Do(ctx, w)
	if err == nil || errors.Is(err, sqldb.ErrUnchanged) {
		return nil
	}
	return db.sql.Fail(ctx, what, err)
}

// share is ofHolder for writes that also touch rows which other transactions lock. In a database
// with several writers it uses a transaction of its own, so that no job waits for the rows of
// another.
func (db *DB) share(ctx context.Context, what string, fn func(context.Context, *Batch) ([]outbox.Event, error)) error {
	if !db.sql.Dialect.Server {
		return db.join(ctx, db.steps, what, write{fn: fn})
	}
	return db.own(ctx, what, func(tx *sqldb.Tx) error {
		events, err := fn(ctx, alone(tx))
		if err != nil {
			return err
		}
		return outbox.Emit(ctx, tx, events...)
	})
}

// own is update for writes of a job's owner to rows that are not cached. The write is announced
// after its transaction, not in it, because PostgreSQL commits announcing transactions one after
// the other, each with its own flush.
func (db *DB) own(ctx context.Context, what string, fn func(*sqldb.Tx) error) error {
	changed, err := db.sql.Change(ctx, what, fn)
	if changed {
		db.sql.Wake()
		db.sql.AnnounceSoon()
	}
	return err
}

// refusal is the error of a shared transaction that one of its writes may have caused. It hides its
// cause, so that the same transaction is not tried again.
type refusal struct{ err error }

func (r refusal) Error() string { return r.err.Error() }

// commitShared returns the groupcommit.Commit that commits writes in one transaction. It
// invalidates the cached values only if forget is set.
func (db *DB) commitShared(forget bool) groupcommit.Commit[write] {
	return func(ctx context.Context, take func() []*groupcommit.Write[write], apart bool) groupcommit.Result {
		err := db.sql.Transact(ctx, func(tx *sqldb.Tx) error {
			b := &Batch{Tx: tx, shared: !apart, dialect: &db.sql.Dialect}
			changed, err := db.writeAll(ctx, b, take())
			if err == nil {
				err = tx.Flush(ctx)
			}
			switch {
			case err != nil && b.shared && db.sql.MayBeOnes(ctx, err):
				return refusal{err}
			case err == nil && !changed:
				return sqldb.ErrUnchanged
			}
			return err
		})
		if forget {
			db.sql.Forget() // even after an error, because the commit may have succeeded
		}
		if r := (refusal{}); errors.As(err, &r) {
			return groupcommit.Refused
		}
		switch {
		case err == nil:
			db.sql.Wake()
			db.sql.AnnounceSoon()
		case errors.Is(err, sqldb.ErrUnchanged):
		case !apart && db.sql.MayBeOnes(ctx, err): // the commit failed
			return groupcommit.Refused
		default:
			for _, w := range take() {
				w.Err = err
			}
		}
		return groupcommit.Settled
	}
}

// writeAll runs the writes of a batch, and reports whether any of them has written something.
func (db *DB) writeAll(ctx context.Context, b *Batch, batch []*groupcommit.Write[write]) (changed bool, err error) {
	if b.shared {
		var all []write
		for _, w := range batch {
			if w.Ctx.Err() == nil {
				all = append(all, w.Do)
			}
		}
		if err := db.prepare(ctx, b, all); err != nil {
			return false, err
		}
	}
	var events []outbox.Event
	for _, w := range batch {
		w.Apart = false
		if w.Err = w.Ctx.Err(); w.Err != nil {
			continue // its caller has given up
		}
		before := b.Mark()
		more, err := guarded(ctx, b, w.Do.fn)
		known := (*seedbed.Error)(nil)
		switch {
		case err == nil:
			changed, events = true, append(events, more...)
		case errors.Is(err, sqldb.ErrUnchanged):
		case b.shared && errors.Is(err, errApart) && b.Back(before):
			w.Apart = true
		case b.shared && errors.As(err, &known) && b.Back(before):
			w.Err = err
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
