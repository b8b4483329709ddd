// Package access keeps who may do what, and who did what: the projects, the roles, the API tokens, the log of
// requested changes, the answers to requests with an idempotency key, and the sessions of people. It is
// the only writer of the tables project, project_removed, role, token, audit, keyed_request, session and
// sign_in.
package access

import "seedbed/store/sqldb"

// Store reads and writes the tables of this package. Its methods are safe for concurrent use.
type Store struct{ db *sqldb.DB }

// New returns the store in a database.
func New(db *sqldb.DB) *Store { return &Store{db} }
