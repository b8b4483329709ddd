package pooltag

import (
	"time"

	"seedbed"
)

// TrashMark says when a volume was removed, and when it is purged.
type TrashMark struct {
	ID      string    `json:"id,omitempty"` // of the file in a directory's trash; RBD's trash has its own
	Removed time.Time `json:"removed"`
	Expires time.Time `json:"expires"`
}

// Trashed returns the tag of the volume once it is in the trash, where it is kept that long.
func (t Tag) Trashed(id string, keep time.Duration) Tag {
	now := time.Now().UTC().Truncate(time.Second)
	t.Trash = &TrashMark{ID: id, Removed: now, Expires: now.Add(keep)}
	return t
}

// TrashItem describes the volume in the trash, where it has that ID.
func (t *Tag) TrashItem(pool, id string) seedbed.TrashItem {
	return seedbed.TrashItem{
		Pool: pool, ID: id, Name: t.Name, State: seedbed.Trashed, Instance: t.Instance, Project: t.Project,
		Size: seedbed.Bytes(t.Size), Removed: t.Trash.Removed, Expires: t.Trash.Expires,
	}
}

// CheckExpired returns ErrInUse if the volume in the trash, where it has that ID, is to be kept.
func (t *Tag) CheckExpired(pool, id string) error {
	if !time.Now().Before(t.Trash.Expires) {
		return nil
	}
	return seedbed.Errorf(seedbed.ErrInUse, "%s in the trash of pool %s is kept until %s", id, pool, t.Trash.Expires.Format(time.RFC3339))
}
