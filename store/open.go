// Package store keeps everything that Seedbed must not forget in one SQL
// database: the catalogue, instances and their claims, jobs with their journal
// and history, the feed of the guest plane, and what guests did. Each method is
// one transaction. A consumer declares the methods that it needs as an
// interface of its own; [DB] satisfies it by shape.
//
// Errors carry a sentinel of package seedbed and a text for the person who
// reads it: ErrNotFound, ErrExists (a name or claim is taken), ErrInvalid,
// ErrInUse, ErrConflict, ErrStale (the caller no longer holds the job),
// ErrFull (a network has no free address), ErrVersion, and ErrUnavailable when
// the database cannot work now (disk full, busy, closed, out of reach). Whatever
// the error, nothing was changed, with one exception: when the connection to
// PostgreSQL breaks during a commit nobody knows, and the error is
// ErrUnavailable. What is written here may therefore be written again.
//
// Leases are measured by one clock: in SQLite by that of the process, which has
// the database alone, and in PostgreSQL by the database's, whatever the clocks
// of those who use it say.
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

// Config says which database to open: an SQLite file or a PostgreSQL database.
type Config struct {
	// Path is the SQLite file. It is made with mode 0600, its directory with
	// 0750. The files Path-wal, Path-shm and Path.lock stand beside it. It must
	// be on a local file system.
	Path string
	// DSN is a PostgreSQL connection string, as a URL or as keys and values; when
	// it is not empty, Path is not used. It may hold a password, and is never
	// logged. What it leaves out comes from the variables that libpq has (PGUSER…).
	DSN string
	// Log takes what the store does by itself; nil means slog.Default.
	Log *slog.Logger
}

// DB is an open database. Its methods may be called by any number of goroutines.
type DB struct {
	dialect dialect
	// name is this open database among those that others have open: random.
	name  string
	place string  // where it is, for messages
	write *sql.DB // SQLite: one connection; PostgreSQL: the same as read
	read  *sql.DB
	lock  *os.File // SQLite
	// listening ends what follows other processes' writes, and waits for its end.
	listening func()
	// untold has something in it while a write is to be announced.
	untold chan struct{}
	log    *slog.Logger
	closed atomic.Bool
	// opened is the wall clock at Open with its monotonic reading: leases are
	// measured from it, so that a jump of the wall clock moves none.
	opened time.Time
	limits limits

	memo memo
	next nextAddr
	// shared has the writes of requests, steps those of the holders of jobs.
	shared, steps *groupcommit.Queue[write]
	// placing is held by who gives events their place.
	placing sync.Mutex

	mu   sync.Mutex
	hint chan struct{}
	// revised is rung for what user-data is made from.
	revised bell
	// applied is rung for what a node has applied.
	applied bell
	// published is rung for what nodes are to serve.
	published bell
	// sinceCut counts each instance's events since they were last cut.
	sinceCut map[seedbed.InstanceID]int
}

// limits bounds what grows by itself.
type limits struct {
	tombstones  int // that each node keeps for those who resume
	page        int // changes of a feed page that is no snapshot
	guestEvents int // that are kept of one instance, the newest
	guestMargin int // by how many more they may be before they are cut
	guests      int // instances whose events are counted at a time
}

// readers bounds the connections that read.
const readers = 4

// Open opens the database.
//
// An SQLite file is made if there is none, taken for this process alone, and
// its schema brought up to date. It gives ErrInUse when another process has it,
// ErrVersion when it was changed by a newer program, which is then left as it
// was, and ErrInvalid when the file is something else.
//
// A PostgreSQL database may be open in any number of processes, and keeps its
// schema until [Migrate]: ErrVersion when that is older than this program's, or
// asks for a newer one, ErrInvalid when the database is another program's, and
// ErrUnavailable when it cannot be reached.
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
		hint:     make(chan struct{}),
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
	// SQLite gives its side files the mode of the database file.
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

// Close ends the use of the database and lets another process have it. A
// method that is called afterwards gives ErrUnavailable.
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

// Hint is closed at the next write that this process commits, or that another
// one announces. It is only a hint: take it before looking, look, then wait on it with a timeout.
func (db *DB) Hint() <-chan struct{} {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.hint
}

func (db *DB) wake() {
	db.mu.Lock()
	defer db.mu.Unlock()
	close(db.hint)
	db.hint = make(chan struct{})
}
