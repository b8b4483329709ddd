// Package catalogue keeps what instances are made from: profiles, templates, user-data documents,
// scripts, images and OVA images, and takes over a bundle of them. It is the only writer of their
// tables, and of claim, which reserves the names of images.
package catalogue

import (
	"context"

	"seedbed/store/sqldb"
)

// Store reads and writes the tables of this package. Its methods are safe for concurrent use.
type Store struct {
	db sqldb.Session
	// together runs a write that may share its transaction with others.
	together Together
	// revised wakes when a source of user-data changes.
	revised *sqldb.Notifier
}

// Together runs a write, which what names for errors and the audit log. The write may share its
// transaction with others, and may run more than once.
type Together func(ctx context.Context, what string, write func(context.Context, *sqldb.Tx) error) error

// New returns the store in a database.
func New(db *sqldb.DB, together Together) *Store {
	return &Store{db: db.Session(), together: together, revised: new(sqldb.Notifier)}
}

// in returns a store that reads and writes in a transaction that exists. A method that fails undoes
// only its own writes. Its changes wake no one, since they are not committed.
func (s *Store) in(tx *sqldb.Tx) *Store {
	db := s.db.In(tx)
	together := func(ctx context.Context, what string, write func(context.Context, *sqldb.Tx) error) error {
		return db.Update(ctx, what, func(tx *sqldb.Tx) error { return write(ctx, tx) })
	}
	return &Store{db: db, together: together, revised: new(sqldb.Notifier)}
}
