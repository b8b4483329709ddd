// Package sqldb is one SQL database, SQLite or PostgreSQL: its connections, transactions, retries,
// migrations, cached rows, and the announcement of writes. Its only tables are those of migrations
// and the table setting. The packages beside it each write their own tables with it.
//
// A public method of those packages is one transaction, [DB.Update] or [DB.View]. Queries are
// written once for both databases, with $1 for the first argument; [Dialect] holds what differs. The
// functions [One], [List], [Value], [Exec] and [Affect] run them.
//
// Errors of [DB.Update] and [DB.View] wrap a sentinel of package seedbed. See package store.
package sqldb

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"seedbed"
)

// Config names the database to open: an SQLite file or a PostgreSQL database.
type Config struct {
	// Path is the SQLite file. It is created with mode 0600, and its directory with 0750. The files
	// Path-wal and Path-shm are beside it. It must be on a local file system.
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
	Dialect Dialect
	// Write and Read are the connections of the two kinds of transaction. SQLite has one that
	// writes; with PostgreSQL both are the same.
	Write, Read *sql.DB

	// name identifies this open database to other processes; it is random.
	name  string
	place string   // the database's location, for messages
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
	audit  Audit
	cache  cache
	hint   Notifier // wakes after each write
}

// Audit records in a transaction who asked for what; c is nil if no request did.
type Audit func(tx *Tx, c *seedbed.Change, what string)

// readers is the largest number of connections that read.
const readers = 4

// Open opens the database. audit is called at the end of each transaction of [DB.Update].
//
// An SQLite file is created if it does not exist, locked for this process, and migrated. Open
// returns ErrInUse if another process has the file open, ErrVersion if a newer program changed it
// (it then stays unchanged), and ErrInvalid if the file is something else.
//
// A PostgreSQL database may be open in any number of processes, and is migrated only by [Migrate].
// Open returns ErrVersion if its schema is older than this program's or requires a newer program,
// ErrInvalid if the database belongs to another program, and ErrUnavailable if it cannot be
// reached.
func Open(ctx context.Context, c Config, audit Audit) (*DB, error) {
	db := newDB(c.Log)
	db.audit = audit
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
	return &DB{name: rand.Text(), log: log, opened: time.Now(), untold: make(chan struct{}, 1)}
}

func (db *DB) openSQLite(ctx context.Context, c Config) error {
	db.Dialect = SQLite
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
	err := db.lock.Chmod(0o600)
	if err != nil {
		return fmt.Errorf("open database: %w", err)
	}
	if db.Write, err = OpenFile(path, Writer); err != nil {
		return err
	}
	db.Write.SetMaxOpenConns(1)
	if db.Read, err = OpenFile(path, reader); err != nil {
		return err
	}
	db.Read.SetMaxOpenConns(readers)
	db.Read.SetMaxIdleConns(readers)
	if err := db.migrate(ctx); err != nil {
		return db.Fail(ctx, "migrate "+path, err)
	}
	return nil
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
	if db.Read != nil {
		errs = append(errs, db.Read.Close())
	}
	if db.Write != nil {
		errs = append(errs, db.Write.Close())
	}
	if db.lock != nil {
		errs = append(errs, releaseLock(db.lock))
	}
	return errors.Join(errs...)
}

// Hint returns a channel that is closed at the next write that this process commits or that another
// process announces. It is only a hint: get the channel, then read the database, then wait on the
// channel with a timeout.
func (db *DB) Hint() <-chan struct{} { return db.hint.Next() }

// Wake wakes the waiters of Hint.
func (db *DB) Wake() { db.hint.Wake() }
