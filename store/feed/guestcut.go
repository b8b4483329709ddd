package feed

import (
	"context"

	"seedbed"
	"seedbed/store/sqldb"
)

// Finding the oldest event to keep reads all kept events of an instance. So an instance is not cut
// at every call, but once in guestMargin events, and at its first events since the program started,
// when the count of earlier ones is unknown.

// overdue returns the instances whose events must be cut after added.
func (s *Store) overdue(added map[seedbed.InstanceID]int) (cut []seedbed.InstanceID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, n := range added {
		if since, known := s.SinceCut[id]; !known || since+n >= s.Limits.GuestMargin {
			cut = append(cut, id)
		}
	}
	return cut
}

// countGuestEvents counts the events that were committed. It remembers a bounded number of
// instances; one that it forgets is cut early the next time.
func (s *Store) countGuestEvents(added map[seedbed.InstanceID]int, cut []seedbed.InstanceID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.SinceCut)+len(added) > s.Limits.Guests {
		clear(s.SinceCut)
	}
	for id, n := range added {
		if since, known := s.SinceCut[id]; known {
			s.SinceCut[id] = since + n
		}
	}
	for _, id := range cut {
		if len(s.SinceCut) < s.Limits.Guests {
			s.SinceCut[id] = 0
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
