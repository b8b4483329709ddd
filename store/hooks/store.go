// Package hooks keeps the webhook receivers, with their keys and profiles. It is the only writer of
// the tables hook, hook_key and hook_profile.
package hooks

import "seedbed/store/sqldb"

// Store reads and writes the tables of this package. Its methods are safe for concurrent use.
type Store struct{ db *sqldb.DB }

// New returns the store in a database.
func New(db *sqldb.DB) *Store { return &Store{db} }
