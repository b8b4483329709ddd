// Package jobs keeps jobs with their leases, history and output, and what undone jobs left behind.
// It is the only writer of the tables job_event, event_order and job_output. It shares the tables
// job, job_stage and orphan with package store, which writes what a job's end or a stage changes in
// several places, in one transaction.
package jobs

import (
	"sync"

	"seedbed/store/groupcommit"
	"seedbed/store/sqldb"
)

// Store reads and writes the tables of this package. Its methods are safe for concurrent use.
type Store struct {
	db     *sqldb.DB
	writes *groupcommit.Writer
	// placing is locked while events are given their places.
	placing sync.Mutex
}

// New returns the store in a database, whose shared transactions writes commits.
func New(db *sqldb.DB, writes *groupcommit.Writer) *Store { return &Store{db: db, writes: writes} }
