// Package feed keeps what nodes serve to guests: each node's records with their revisions, the
// documents, the peers of nodes, what the nodes have applied, maintenance events, and what guests did. It
// is the only writer of the tables feed, feed_node, peer, peer_head, blob, maintenance, guest_event and lease. It also writes
// to table instance what guests report, live user-data, and changes that need no job.
package feed

import (
	"context"
	"sync"

	"seedbed"
	"seedbed/store/groupcommit"
	"seedbed/store/sqldb"
)

// Store reads and writes the tables of this package. Its methods are safe for concurrent use.
type Store struct {
	db          *sqldb.DB
	writes      *groupcommit.Writer
	readdressed func(ctx context.Context, tx *sqldb.Tx, i seedbed.Instance, has, wants int) error
	// Limits bounds what would otherwise grow without end.
	Limits Limits

	// applied wakes when a node reports what it has applied.
	applied sqldb.Notifier
	// published wakes when a job changes what nodes serve.
	published sqldb.Notifier

	mu sync.Mutex
	// SinceCut counts each instance's events since they were last cut.
	SinceCut map[seedbed.InstanceID]int
}

// New returns the store in a database, whose shared transactions writes commits. readdressed is called before an instance
// has another number of addresses. It must return ErrForbidden if they exceed a quota.
func New(
	db *sqldb.DB, writes *groupcommit.Writer, readdressed func(ctx context.Context, tx *sqldb.Tx, i seedbed.Instance, has, wants int) error,
) *Store {
	return &Store{
		db: db, writes: writes, readdressed: readdressed,
		Limits:   Limits{Tombstones: 1000, Page: 1000, GuestEvents: 10000, GuestMargin: 1000, Guests: 10000},
		SinceCut: map[seedbed.InstanceID]int{},
	}
}
