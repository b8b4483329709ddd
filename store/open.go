// Package store keeps all durable state of Seedbed in one SQL database: the catalogue, instances
// and their claims, jobs with their journal and history, the feed of the guest plane, and what
// guests did. Each method is one transaction. A consumer declares the methods that it needs as an
// interface of its own, which [DB] implements.
//
// Errors wrap a sentinel of package seedbed and have a text for the reader: ErrNotFound, ErrExists
// (a name or claim is taken), ErrInvalid, ErrInUse, ErrConflict, ErrStale (the caller no longer
// owns the job), ErrFull (a network has no free address), ErrVersion, and ErrUnavailable if the
// database cannot work now (disk full, busy, closed, unreachable). If a method returns an error,
// nothing was changed, with one exception: if the connection to PostgreSQL breaks during a commit,
// the outcome is unknown, and the error is ErrUnavailable. So every write here may safely be
// repeated.
//
// Leases are measured by one clock. In SQLite it is the clock of the process, which has the
// database for itself. In PostgreSQL it is the database's clock, whatever the clocks of its clients
// are.
package store

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"seedbed"
	"seedbed/store/groupcommit"
)

// Config names the database to open: an SQLite file or a PostgreSQL database.
type Config struct {
	// Path is the SQLite file. It is created with mode 0600, and its directory with 0750. The files
	// Path-wal, Path-shm and Path.lock are beside it. It must be on a local file system.
	Path string
	// DSN is a PostgreSQL connection string, as a URL or as keys and values. If it is not empty,
	// Path is not used. It may hold a password, and is never logged. Settings that it leaves out
	// come from libpq's environment variables (PGUSER…).
	DSN string
	// Log receives what the store does in the background; nil means slog.Default.
	Log *slog.Logger
}

// DB is an open database. Its methods are safe for concurrent use.
type DB struct {
	dialect dialect
	// name identifies this open database to other processes; it is random.
	name  string
	place string  // the database's location, for messages
	write *sql.DB // SQLite: one connection; PostgreSQL: the same as read
	read  *sql.DB
	lock  *os.File // SQLite
	// listening stops listening for other processes' writes, and waits for the end.
	listening func()
	// untold holds an element while a write is to be announced.
	untold chan struct{}
	log    *slog.Logger
	closed atomic.Bool
	// opened is the wall clock at Open with its monotonic reading. Leases are measured from it, so
	// that a jump of the wall clock does not move them.
	opened time.Time
	limits limits

	cache cache
	next  nextAddr
	// shared queues the writes of requests, and steps those of jobs by their owners.
	shared, steps *groupcommit.Queue[write]
	// placing is locked while events are given their places.
	placing sync.Mutex

	hint notifier // wakes after each write

	mu sync.Mutex // guards sinceCut
	// revised wakes when a source of user-data changes.
	revised notifier
	// applied wakes when a node reports what it has applied.
	applied notifier
	// published wakes when a job changes what nodes serve.
	published notifier
	// sinceCut counts each instance's events since they were last cut.
	sinceCut map[seedbed.InstanceID]int
}

// readers is the largest number of connections that read.
const readers = 4

// Open opens the database.
//
// An SQLite file is created if it does not exist, locked for this process, and migrated. Open
// returns ErrInUse if another process has the file open, ErrVersion if a newer program changed it
// (it then stays unchanged), and ErrInvalid if the file is something else.
//
// A PostgreSQL database may be open in any number of processes, and is migrated only by [Migrate].
// Open returns ErrVersion if its schema is older than this program's or requires a newer program,
// ErrInvalid if the database belongs to another program, and ErrUnavailable if it cannot be
// reached.
func Open(ctx context.Context, c Config) (*DB, error) {
	db := newDB(c.Log)
	start := db.openPostgres
	if c.DSN == "" {
		start = db.openSQLite
	}
	if err := start(ctx, c); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

func newDB(log *slog.Logger) *DB {
	if log == nil {
		log = slog.Default()
	}
	db := &DB{
		name:     rand.Text(),
		log:      log,
		opened:   time.Now(),
		limits:   limits{tombstones: 1000, page: 1000, guestEvents: 10000, guestMargin: 1000, guests: 10000},
		untold:   make(chan struct{}, 1),
		sinceCut: map[seedbed.InstanceID]int{},
	}
	db.shared = groupcommit.New(sharedMost, sharedLimit, db.commitShared(false))
	db.steps = groupcommit.New(sharedMost, sharedLimit, db.commitShared(true))
	return db
}

func (db *DB) openSQLite(ctx context.Context, c Config) error {
	db.dialect = sqlite
	if c.Path == "" {
		return seedbed.Errorf(seedbed.ErrInvalid, "the database has no path: set store.path")
	}
	path, err := filepath.Abs(c.Path)
	if err != nil {
		return fmt.Errorf("open database %s: %w", c.Path, err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return fmt.Errorf("make the database's directory: %w", err)
	}
	db.place = path
	if db.lock, err = takeLock(path); err != nil {
		return err
	}
	return db.start(ctx, path)
}

func (db *DB) start(ctx context.Context, path string) error {
	if err := checkFile(ctx, path); err != nil {
		return err
	}
	// SQLite creates its side files with the mode of the database file.
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("open database: %w", err)
	}
	err = errors.Join(f.Chmod(0o600), f.Close())
	if err != nil {
		return fmt.Errorf("open database: %w", err)
	}
	if db.write, err = openSQLite(path, writer); err != nil {
		return err
	}
	db.write.SetMaxOpenConns(1)
	if db.read, err = openSQLite(path, reader); err != nil {
		return err
	}
	db.read.SetMaxOpenConns(readers)
	db.read.SetMaxIdleConns(readers)
	if err := db.migrate(ctx); err != nil {
		return db.fail(ctx, "migrate "+path, err)
	}
	if err := db.seed(ctx); err != nil {
		return err
	}
	return db.expireLeases(ctx)
}

// Close closes the database and lets another process open it. A method that is called afterwards
// returns ErrUnavailable.
func (db *DB) Close() error {
	if db.closed.Swap(true) {
		return nil
	}
	var errs []error
	if db.listening != nil {
		db.listening()
	}
	if db.read != nil {
		errs = append(errs, db.read.Close())
	}
	if db.write != nil {
		errs = append(errs, db.write.Close())
	}
	if db.lock != nil {
		errs = append(errs, db.lock.Close())
	}
	return errors.Join(errs...)
}

// Hint returns a channel that is closed at the next write that this process commits or that another
// process announces. It is only a hint: get the channel, then read the database, then wait on the
// channel with a timeout.
func (db *DB) Hint() <-chan struct{} { return db.hint.Next() }

// wake wakes the waiters of Hint.
func (db *DB) wake() { db.hint.Wake() }
