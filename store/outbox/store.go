// Package outbox keeps the endpoints that events are sent to, with their keys, and the events that
// wait to be sent or were sent. It is the only writer of the tables endpoint, endpoint_key and
// outbox.
//
// The transaction of a change calls [Emit] with the events of the change, so that an event is sent
// if and only if its change was committed.
package outbox

import "seedbed/store/sqldb"

// Store reads and writes the tables of this package. Its methods are safe for concurrent use.
type Store struct{ db *sqldb.DB }

// New returns the store in a database.
func New(db *sqldb.DB) *Store { return &Store{db} }
