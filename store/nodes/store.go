// Package nodes keeps the nodes with what is known of them, the control hosts, and the strays that
// were found on nodes. It is the only writer of the tables node and stray.
package nodes

import "seedbed/store/sqldb"

// Store reads and writes the tables of this package. Its methods are safe for concurrent use.
type Store struct{ db *sqldb.DB }

// New returns the store in a database.
func New(db *sqldb.DB) *Store { return &Store{db} }
