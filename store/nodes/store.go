// Package nodes keeps the nodes with what is known of them, the control hosts, and the strays that
// were found on nodes. It is the only writer of the tables node and stray.
package nodes

import (
	"context"
	"sync/atomic"

	"seedbed/store/sqldb"
)

// Store reads and writes the tables of this package. Its methods are safe for concurrent use.
type Store struct {
	db      *sqldb.DB
	changes atomic.Int64
	// touch notifies every node, in a transaction, that the address of one changed.
	touch func(context.Context, *sqldb.Tx) error
	// cordon tells the guests of a node, in a transaction, that it was cordoned or no longer is.
	cordon func(ctx context.Context, tx *sqldb.Tx, node string, cordoned bool) error
}

// New returns the store in a database. touch notifies every node, in a transaction, that the address of one changed. cordon tells the
// guests of a node that it was cordoned or no longer is.
func New(
	db *sqldb.DB, touch func(context.Context, *sqldb.Tx) error,
	cordon func(ctx context.Context, tx *sqldb.Tx, node string, cordoned bool) error,
) *Store {
	return &Store{db: db, touch: touch, cordon: cordon}
}

// NodeChanges returns a number that grows with each change of the nodes that this process made, once
// it is committed: nodes added, changed and removed, and those that answer again or no longer.
func (s *Store) NodeChanges() int64 { return s.changes.Load() }

// Changed notes that this process may have changed the nodes.
func (s *Store) Changed() { s.changes.Add(1) }
