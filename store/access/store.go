// Package access keeps who may do what, and who did what: the API tokens, and the log of requested
// changes. It is the only writer of the tables token and audit.
package access

import "seedbed/store/sqldb"

// Store reads and writes the tables of this package. Its methods are safe for concurrent use.
type Store struct{ db *sqldb.DB }

// New returns the store in a database.
func New(db *sqldb.DB) *Store { return &Store{db} }
