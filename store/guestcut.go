package store

import (
	"context"

	"seedbed"
	"seedbed/store/sqldb"
)

// Finding the oldest event to keep reads all kept events of an instance. So an instance is not cut
// at every call, but once in guestMargin events, and at its first events since the program started,
// when the count of earlier ones is unknown.

// overdue returns the instances whose events must be cut after added.
func (db *DB) overdue(added map[seedbed.InstanceID]int) (cut []seedbed.InstanceID) {
	db.mu.Lock()
	defer db.mu.Unlock()
	for id, n := range added {
		if since, known := db.sinceCut[id]; !known || since+n >= db.limits.guestMargin {
			cut = append(cut, id)
		}
	}
	return cut
}

// countGuestEvents counts the events that were committed. It remembers a bounded number of
// instances; one that it forgets is cut early the next time.
func (db *DB) countGuestEvents(added map[seedbed.InstanceID]int, cut []seedbed.InstanceID) {
	db.mu.Lock()
	defer db.mu.Unlock()
	if len(db.sinceCut)+len(added) > db.limits.guests {
		clear(db.sinceCut)
	}
	for id, n := range added {
		if since, known := db.sinceCut[id]; known {
			db.sinceCut[id] = since + n
		}
	}
	for _, id := range cut {
		if len(db.sinceCut) < db.limits.guests {
			db.sinceCut[id] = 0
		}
	}
}

// cutGuestEvents deletes all but the newest keep events of each instance.
func cutGuestEvents(ctx context.Context, tx *sqldb.Tx, ids []seedbed.InstanceID, keep int) error {
	for _, id := range ids {
		err := sqldb.Exec(ctx, tx, `
			DELETE FROM guest_event WHERE instance = $1
				AND id <= (SELECT id FROM guest_event WHERE instance = $1 ORDER BY id DESC LIMIT 1 OFFSET $2)`, id, keep)
		if err != nil {
			return err
		}
	}
	return nil
}
