// Package instances keeps instances with their NICs, volumes and addresses, and the networks that
// they are in. It writes the tables instance, nic, volume and network. What a rebuild, a resize or
// live user-data changes of an instance is written by package store, in the same transaction.
package instances

import (
	"context"

	"seedbed/store/sqldb"
)

// Store reads and writes the tables of this package. Its methods are safe for concurrent use.
type Store struct {
	db   *sqldb.DB
	next nextAddr
	// touch notifies every node, in a transaction, that a network changed.
	touch func(context.Context, *sqldb.Tx) error
}

// New returns the store in a database. touch notifies every node, in a transaction, that a network
// changed.
func New(db *sqldb.DB, touch func(context.Context, *sqldb.Tx) error) *Store {
	return &Store{db: db, touch: touch}
}
