// Package instances keeps instances with their NICs, volumes and addresses, and the networks that
// they are in, security groups, and the volumes of projects. It writes the tables instance, nic, volume,
// project_volume, network and security_group. What a job such as a rebuild
// or a resize changes of an instance is written by package store, in the transaction of that job.
// What guests report of an instance, live user-data, and changes without a job are written by
// package feed, which publishes them in the same transaction.
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
