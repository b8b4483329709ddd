package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"
)

// asks are the writes that wait to be committed together. While one transaction
// flushes to the disk, those that come meanwhile make up the next: the flush is
// what takes the time, and so it is shared.
type asks struct {
	mu      sync.Mutex
	waiting []*ask
	leading int // so many commit
}

// ask is one write of many in a transaction.
type ask struct {
	ctx context.Context
	fn  func(context.Context, *sql.Tx) ([]notice, error)
	// held is set for a write of a job's holder: nothing of it is gathered, and it
	// may change what memo remembers.
	held bool
	// rows is what fn has gathered, before it waits; nil where it has to read.
	rows *pile
	// stride is set where that says what is written, in place of fn.
	stride *stride
	err    error
	// told is closed when err is known, unless there are some in lead: then this
	// one commits for those, of which it is the first.
	told chan struct{}
	lead []*ask
}

// safely runs what is asked. A panic in it must not take the others along, nor
// leave them without one who commits.
func (a *ask) safely(ctx context.Context, tx *sql.Tx) (told []notice, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return a.fn(ctx, tx)
}

const (
	// togetherMost bounds a transaction.
	togetherMost = 64
	// laneLeast is how many wait before another transaction begins beside one, and
	// strideLeast how many strides: one statement is written while another flushes.
	laneLeast   = 24
	strideLeast = 4
	// togetherLimit bounds one transaction for many, none of whose own time counts.
	togetherLimit = 20 * time.Second
)

// together is update for a write that may share its transaction with others of
// its kind. Of these each is refused or written by itself: what one finds
// wrong undoes nothing of another. fn must write no rows that memo remembers.
func (db *DB) together(ctx context.Context, what string, fn func(context.Context, *sql.Tx) ([]notice, error)) error {
	return db.join(&db.asks, &ask{ctx: ctx, fn: fn}, what)
}

// share is update for what the holders of jobs write while their jobs run, into
// the rows of their own job and of their node's feed, and for what nodes have
// applied: what many write at the same time is flushed once.
// Where each statement is a way to a server and back, they do better beside each other.
func (db *DB) share(ctx context.Context, what string, fn func(context.Context, *sql.Tx) ([]notice, error)) error {
	if db.dialect.volleys {
		return db.own(ctx, what, func(tx *sql.Tx) error {
			events, err := fn(ctx, tx)
			if err != nil {
				return err
			}
			return emit(ctx, tx, events...)
		})
	}
	return db.join(&db.steps, &ask{ctx: ctx, fn: fn, held: true}, what)
}

// own is update for what the holder of a job writes into rows that no process
// remembers. It is announced after the transaction and not by it: PostgreSQL lets
// those that announce commit one after the other, each with a flush of its own.
func (db *DB) own(ctx context.Context, what string, fn func(*sql.Tx) error) error {
	changed, err := db.change(ctx, what, fn)
	if changed {
		db.wake()
		db.tellSoon()
	}
	return err
}

// join has a commit, with others of its queue, by whoever is first.
func (db *DB) join(q *asks, a *ask, what string) error {
	ctx := a.ctx
	if ctx.Err() != nil {
		return db.fail(ctx, what, ctx.Err())
	}
	least := laneLeast
	if a.stride != nil {
		least = strideLeast
	}
	if a.fn != nil && !a.held {
		db.gather(a)
	}
	a.told = make(chan struct{})
	q.mu.Lock()
	q.waiting = append(q.waiting, a)
	q.appoint(db.dialect.lanes, least)
	q.mu.Unlock()
	<-a.told
	if len(a.lead) > 0 {
		db.settleTogether(a.lead)
		q.mu.Lock()
		for _, other := range a.lead[1:] {
			close(other.told)
		}
		q.leading--
		q.appoint(db.dialect.lanes, least)
		q.mu.Unlock()
	}
	if a.err == nil || errors.Is(a.err, errUnchanged) {
		return nil
	}
	if errors.Is(a.err, errLeftOut) || errors.Is(a.err, errUnsure) {
		return a.err
	}
	return db.fail(ctx, what, a.err)
}

// appoint lets the first that waits commit for as many as one transaction
// takes: at once when nobody does, and beside others only for enough.
func (q *asks) appoint(lanes, least int) {
	n := min(len(q.waiting), togetherMost)
	if n == 0 || q.leading > 0 && (q.leading >= lanes || n < least) {
		return
	}
	q.leading++
	first := q.waiting[0]
	first.lead = q.waiting[:n:n]
	q.waiting = q.waiting[n:]
	close(first.told)
}

// settleTogether writes a batch and leaves each one's error.
func (db *DB) settleTogether(batch []*ask) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(batch[0].ctx), togetherLimit)
	defer cancel()
	if batch[0].stride != nil {
		db.settleStrides(ctx, batch)
		return
	}
	apart := false
	if !batch[0].held {
		batch, apart = db.volley(ctx, batch)
	}
	if len(batch) > 0 {
		db.settleLong(ctx, batch, apart)
	}
}

// settleLong writes a batch in a transaction that waits for each answer. It
// first goes without savepoints, which cost as much as a write each, unless it
// is known that one will be refused.
func (db *DB) settleLong(ctx context.Context, batch []*ask, apart bool) {
	apart = apart && len(batch) > 1
	err := db.writeTogether(ctx, batch, apart)
	if errors.Is(err, errApart) {
		err = db.writeTogether(ctx, batch, true)
	}
	for _, a := range batch {
		switch {
		case err != nil && !errors.Is(err, errUnchanged):
			a.err = err
		case a.err != nil && db.again(a.err, false, 1):
			// Others were in its way: alone it has its own tries.
			a.err = db.writeTogether(a.ctx, []*ask{a}, false)
		}
	}
}

// errApart ends a transaction in which one of several was refused.
var errApart = errors.New("one of several writes was refused")

func (db *DB) writeTogether(ctx context.Context, batch []*ask, apart bool) error {
	held := batch[0].held
	return db.changeQuietly(ctx, held, func(tx *sql.Tx) error {
		changed := false
		var told []notice
		for n, a := range batch {
			if a.err = a.ctx.Err(); a.err != nil {
				continue // nobody waits for it
			}
			var events []notice
			if apart {
				a.err = savepoint(ctx, tx, n, func() (err error) { events, err = a.safely(ctx, tx); return err })
			} else {
				events, a.err = a.safely(ctx, tx)
			}
			switch {
			case a.err == nil:
				changed, told = true, append(told, events...)
			case errors.Is(a.err, errUnchanged):
			case !apart && len(batch) > 1:
				return errApart
			case len(batch) == 1 || errors.Is(a.err, errBroken) || ctx.Err() != nil:
				return a.err
			}
		}
		if !changed {
			return errUnchanged
		}
		return emit(ctx, tx, told...)
	})
}

// errBroken is the failure of a savepoint itself, after which nothing of the
// transaction can be relied on.
var errBroken = errors.New("savepoint")

// savepoint runs fn so that its failure undoes what it wrote and no more.
func savepoint(ctx context.Context, tx *sql.Tx, n int, fn func() error) error {
	if err := exec(ctx, tx, "SAVEPOINT one"); err != nil {
		return fmt.Errorf("%w %d: %w", errBroken, n, err)
	}
	err := fn()
	if err != nil {
		if broken := exec(ctx, tx, "ROLLBACK TO SAVEPOINT one"); broken != nil {
			return fmt.Errorf("%w %d: %w", errBroken, n, errors.Join(err, broken))
		}
	}
	if broken := exec(ctx, tx, "RELEASE SAVEPOINT one"); broken != nil {
		return fmt.Errorf("%w %d: %w", errBroken, n, broken)
	}
	return err
}

// changeQuietly runs fn in a writing transaction and wakes those who wait for a
// write. Unless forget is set it leaves what memo remembers. It gives errors as they came.
func (db *DB) changeQuietly(ctx context.Context, forget bool, fn func(*sql.Tx) error) error {
	err := db.transact(ctx, db.write, db.dialect.writing, func(tx *sql.Tx) error {
		if err := fn(tx); err != nil {
			return err
		}
		return db.announce(ctx, tx)
	})
	if forget {
		db.memo.writes.Add(1) // even after an error, which may have come with the commit
	}
	if err == nil {
		db.wake()
	}
	return err
}
