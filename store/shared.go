package store

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime/debug"
	"time"

	"seedbed"
	"seedbed/store/groupcommit"
)

// Batch is a transaction of one or several writes, with what they have read for all.
type Batch struct {
	*Tx
	// shared is set while the writes of several share the transaction, or try to. What is
	// refused by a key is then not looked for first, and a job that
	// somebody has locked is not waited for: the write goes apart, where it is.
	shared  bool
	dialect *dialect

	jobs     map[seedbed.JobID]*heldJob
	networks map[string]seedbed.Network // those locked, by name
	images   map[string]seedbed.Image
	free     map[string][]netip.Addr // addresses that are known to be free, by network
}

// alone is the batch of a write that shares its transaction with no other.
func alone(tx *Tx) *Batch { return &Batch{Tx: tx} }

// write is what a caller writes in a batch.
type write struct {
	// job is the job that it is about, if any: the batch reads all of its jobs at once.
	job *seedbed.JobRef
	// fn writes it, and returns the events that go with it.
	fn func(context.Context, *Batch) ([]notice, error)
}

const (
	// sharedMost bounds the writes that share a transaction.
	sharedMost = 64
	// sharedLimit bounds one transaction for many, whose callers' deadlines do not count.
	sharedLimit = 20 * time.Second
)

// errApart ends a write that cannot share a transaction.
var errApart = errors.New("the write needs a transaction of its own")

// together is update for a write that may share its transaction with others.
// Package groupcommit explains how. fn must write no rows that memo remembers.
func (db *DB) together(ctx context.Context, what string, fn func(context.Context, *Batch) ([]notice, error)) error {
	return db.join(ctx, db.shared, what, write{fn: fn})
}

// ofHolder is together for what the holder of a job writes into the job's own rows.
func (db *DB) ofHolder(ctx context.Context, what string, ref seedbed.JobRef, fn func(context.Context, *Batch) ([]notice, error)) error {
	return db.join(ctx, db.steps, what, write{&ref, fn})
}

func (db *DB) join(ctx context.Context, q *groupcommit.Queue[write], what string, w write) error {
	err := q.Do(ctx, w)
	if err == nil || errors.Is(err, errUnchanged) {
		return nil
	}
	return db.fail(ctx, what, err)
}

// share is ofHolder for what also writes rows that others lock. Where several
// transactions write at a time it has one of its own, so that
// no job waits for the rows of another.
func (db *DB) share(ctx context.Context, what string, fn func(context.Context, *Batch) ([]notice, error)) error {
	if !db.dialect.server {
		return db.join(ctx, db.steps, what, write{fn: fn})
	}
	return db.own(ctx, what, func(tx *Tx) error {
		events, err := fn(ctx, alone(tx))
		if err != nil {
			return err
		}
		return emit(ctx, tx, events...)
	})
}

// own is update for what the holder of a job writes into rows that no process
// remembers. It is announced after the transaction and not by it: PostgreSQL lets
// those that announce commit one after the other, each with a flush of its own.
func (db *DB) own(ctx context.Context, what string, fn func(*Tx) error) error {
	changed, err := db.change(ctx, what, fn)
	if changed {
		db.wake()
		db.announceSoon()
	}
	return err
}

// refusal is the error of a shared transaction that may be one write's fault.
// It hides its cause, so that the transaction is not tried again as it is.
type refusal struct{ err error }

func (r refusal) Error() string { return r.err.Error() }

// commitShared commits writes in one transaction (groupcommit.Commit). Unless forget is
// set it leaves what memo remembers.
func (db *DB) commitShared(forget bool) groupcommit.Commit[write] {
	return func(ctx context.Context, batch []*groupcommit.Write[write], apart bool) groupcommit.Result {
		err := db.transact(ctx, db.write, db.dialect.writing, func(tx *Tx) error {
			b := &Batch{Tx: tx, shared: !apart, dialect: &db.dialect}
			changed, err := writeAll(ctx, b, batch)
			if err == nil {
				err = tx.Flush(ctx)
			}
			switch {
			case err != nil && b.shared && db.mayBeOnes(ctx, err):
				return refusal{err}
			case err == nil && !changed:
				return errUnchanged
			}
			return err
		})
		if forget {
			db.memo.writes.Add(1) // even after an error, which may have come with the commit
		}
		if r := (refusal{}); errors.As(err, &r) {
			return groupcommit.Refused
		}
		switch {
		case err == nil:
			db.wake()
			db.announceSoon()
		case errors.Is(err, errUnchanged):
		case !apart && db.mayBeOnes(ctx, err): // it came with the commit
			return groupcommit.Refused
		default:
			for _, w := range batch {
				w.Err = err
			}
		}
		return groupcommit.Settled
	}
}

// writeAll runs the writes of a batch, and reports whether any has written something.
func writeAll(ctx context.Context, b *Batch, batch []*groupcommit.Write[write]) (changed bool, err error) {
	if b.shared {
		if err := b.readJobs(ctx, batch); err != nil {
			return false, err
		}
	}
	var events []notice
	for _, w := range batch {
		w.Apart = false
		if w.Err = w.Ctx.Err(); w.Err != nil {
			continue // nobody waits for it
		}
		before := b.mark()
		more, err := guarded(ctx, b, w.Do.fn)
		known := (*seedbed.Error)(nil)
		switch {
		case err == nil:
			changed, events = true, append(events, more...)
		case errors.Is(err, errUnchanged):
		case b.shared && errors.Is(err, errApart) && b.back(before):
			w.Apart = true
		case b.shared && errors.As(err, &known) && b.back(before):
			w.Err = err
		default:
			return false, err
		}
	}
	return changed, emit(ctx, b.Tx, events...)
}

// guarded runs one write. A panic in it is that write's error: its caller is not the
// one whose goroutine it runs in, and the others of the batch have no part in it.
func guarded(ctx context.Context, b *Batch, fn func(context.Context, *Batch) ([]notice, error)) (events []notice, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return fn(ctx, b)
}

// mayBeOnes reports whether a shared transaction failed because of one of its
// writes, and not because the database cannot be used.
func (db *DB) mayBeOnes(ctx context.Context, err error) bool {
	if ctx.Err() != nil || db.closed.Load() || errors.Is(err, errAgain) {
		return false
	}
	switch db.dialect.cause(err) {
	case causeUnavailable, causeDiskFull, causeAgain:
		return false
	}
	return true
}
