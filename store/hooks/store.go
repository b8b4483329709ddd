// Package hooks keeps the webhook receivers, with their keys and profiles, and the deliveries that
// they received or rejected. It is the only writer of the tables hook, hook_key, hook_profile,
// delivery, delivery_other and delivery_rejected.
package hooks

import (
	"strings"

	"seedbed"
	"seedbed/store/groupcommit"
	"seedbed/store/sqldb"
)

// Store reads and writes the tables of this package. Its methods are safe for concurrent use.
type Store struct {
	db     *sqldb.DB
	writes *groupcommit.Writer
}

// New returns the store in a database, whose shared transactions writes commits.
func New(db *sqldb.DB, writes *groupcommit.Writer) *Store { return &Store{db, writes} }

// ofProject selects the rows of the hooks of a project, by their qualified names. An empty project selects
// all.
func ofProject(w *sqldb.Where, project string) {
	switch project {
	case "":
	case seedbed.DefaultProject:
		w.And("hook NOT LIKE '%%/%%'") // And formats it
	default:
		first := seedbed.Qualified(project, "")
		w.And("hook >= %s AND hook < %s", first, strings.TrimSuffix(first, "/")+"0") // '0' follows '/'
	}
}
