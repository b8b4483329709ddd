// Package store keeps all durable state of Seedbed in one SQL database: the catalogue, instances
// and their claims, jobs with their journal and history, the feed of the guest plane, and what
// guests did. Each method is one transaction. A consumer declares the methods that it needs as an
// interface of its own, which [DB] implements.
//
// Most tables are written by one of the packages below this one, over a database of package sqldb.
// DB embeds them. This package has what changes several of them in one transaction: it accepts
// requests, and ends jobs and their stages.
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
	"errors"

	"seedbed"
	"seedbed/store/access"
	"seedbed/store/backups"
	"seedbed/store/catalogue"
	"seedbed/store/feed"
	"seedbed/store/groupcommit"
	"seedbed/store/hooks"
	"seedbed/store/instances"
	"seedbed/store/jobs"
	"seedbed/store/nodes"
	"seedbed/store/outbox"
	"seedbed/store/sqldb"
)

// Config names the database to open: an SQLite file or a PostgreSQL database.
type Config = sqldb.Config

// DB is an open database. Its methods are safe for concurrent use.
type DB struct {
	sql *sqldb.DB
	*outboxStore
	*accessStore
	*hookStore
	*catalogueStore
	*jobStore
	*instanceStore
	*nodeStore
	*feedStore
	*backupStore

	writes *groupcommit.Writer
}

// The packages of single aggregates, under the names of their fields in DB.
type (
	outboxStore    = outbox.Store
	accessStore    = access.Store
	hookStore      = hooks.Store
	catalogueStore = catalogue.Store
	jobStore       = jobs.Store
	instanceStore  = instances.Store
	nodeStore      = nodes.Store
	feedStore      = feed.Store
	backupStore    = backups.Store
)

// Open opens the database; see [sqldb.Open] for its errors. It ends the leases of an SQLite file's
// former process.
func Open(ctx context.Context, c Config) (*DB, error) {
	one, err := sqldb.Open(ctx, c, record)
	if err != nil {
		return nil, err
	}
	db := &DB{
		sql:         one,
		outboxStore: outbox.New(one),
		accessStore: access.New(one),
		backupStore: backups.New(one),
	}
	db.writes = groupcommit.NewWriter(one, prepare)
	db.instanceStore = instances.New(one, feed.TouchNodes)
	db.hookStore = hooks.New(one, db.writes)
	db.feedStore = feed.New(one, db.writes, db.readdressed)
	db.nodeStore = nodes.New(one, feed.TouchForOverlays, feed.Cordon)
	db.jobStore = jobs.New(one, db.writes)
	db.catalogueStore = catalogue.New(one, db.updateTogether)
	err = db.seed(ctx)
	if err == nil && !one.Dialect.Server {
		err = db.expireLeases(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// record records in the transaction of a change who asked for it and, if that was a hook, the delivery.
func record(tx *sqldb.Tx, c *seedbed.Change, what string) {
	access.Record(tx, c, what)
	hooks.AddDone(tx, c)
}

// Migrate migrates the schema of a PostgreSQL database; see [sqldb.Migrate].
func Migrate(ctx context.Context, c Config) error { return sqldb.Migrate(ctx, c) }

// Close closes the database and lets another process open it. A method that is called afterwards
// returns ErrUnavailable.
func (db *DB) Close() error { return db.sql.Close() }

// Hint returns a channel that is closed at the next write that this process commits or that another
// process announces; see [sqldb.DB.Hint].
func (db *DB) Hint() <-chan struct{} { return db.sql.Hint() }

// SettingOnce returns the value stored under key, or stores the result of fresh; see
// [sqldb.DB.SettingOnce].
func (db *DB) SettingOnce(ctx context.Context, key string, fresh func() []byte) ([]byte, error) {
	return db.sql.SettingOnce(ctx, key, fresh)
}

// Check reports the state of the database, for the doctor command.
func (db *DB) Check(ctx context.Context) []seedbed.Check { return db.sql.Check(ctx) }

// expireLeases ends the leases of an earlier process. The file's lock proves that none of their
// owners is alive, and that process may have had a different clock.
func (db *DB) expireLeases(ctx context.Context) error {
	return db.sql.Update(ctx, "expire leases", func(tx *sqldb.Tx) error {
		clock, err := db.sql.LeaseClock(ctx, tx)
		if err != nil {
			return err
		}
		if err := outbox.ExpireLeases(ctx, tx); err != nil {
			return err
		}
		return jobs.ExpireLeases(ctx, tx, clock)
	})
}

// updateTogether is [sqldb.DB.Update] for a write that may share its transaction with others and
// causes no event.
func (db *DB) updateTogether(ctx context.Context, what string, fn func(context.Context, *sqldb.Tx) error) error {
	asker := seedbed.ChangeOf(ctx)
	return db.writes.Together(ctx, what, groupcommit.Change{Do: func(ctx context.Context, b *groupcommit.Batch) ([]outbox.Event, error) {
		err := fn(ctx, b.Tx)
		if err == nil {
			access.Record(b.Tx, asker, what)
		}
		return nil, err
	}})
}

// prepare locks what the writes of a shared transaction are about: the jobs, the networks, the security
// groups, and what has quotas, each kind in one order.
func prepare(ctx context.Context, b *groupcommit.Batch, writes []groupcommit.Change) error {
	if err := jobs.Prepare(ctx, b, writes); err != nil {
		return err
	}
	var networks, groups, hooked, tokens, projects []string
	for _, w := range writes {
		networks, groups, hooked = append(networks, w.Networks...), append(groups, w.Groups...), append(hooked, w.Hook)
		tokens, projects = append(tokens, w.Token), append(projects, w.Project)
	}
	if err := instances.LockNetworks(ctx, b, networks); err != nil {
		return err
	}
	if err := instances.LockSecurityGroups(ctx, b, groups); err != nil {
		return err
	}
	if err := sqldb.InOrder(hooked, func(hook string) error { return hooks.LockQuota(ctx, b, hook) }); err != nil {
		return err
	}
	err := sqldb.InOrder(tokens, func(token string) error {
		_, err := lockToken(ctx, b, token)
		return err
	})
	if err != nil {
		return err
	}
	return lockProjects(ctx, b, projects)
}

// seed creates the store's own settings.
func (db *DB) seed(ctx context.Context) error {
	for key, size := range map[string]int{feed.SettingGeneration: 16, feed.SettingTokenKey: 32} {
		_, err := db.sql.SettingOnce(ctx, key, func() []byte {
			b := make([]byte, size)
			rand.Read(b) // never fails (crypto/rand)
			return b
		})
		if err != nil {
			return err
		}
	}
	return db.Always(ctx)
}
