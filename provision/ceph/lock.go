//go:build ceph

package ceph

import (
	"fmt"
	"slices"
)

// exclusiveLock is librbd's lock on an image's header (RBD_LOCK_NAME).
const exclusiveLock = "rbd_lock"

// dropLock removes our own connection's lock from an RBD image that no client has open, and reports
// whether there was a lock. An abandoned operation may still acquire it. librbd breaks the locks of
// clients that are gone, but not those of its own client, so that without this the image could not
// be changed or removed until the connection ends. The caller must hold the image's key, so that
// none of our calls has it open.
func (s *session) dropLock(id string) (dropped bool, err error) {
	held, err := s.io.ListLockers(headerObject+id, exclusiveLock)
	if err != nil {
		return false, ignore(err, enoent)
	}
	at := slices.Index(held.Clients, fmt.Sprintf("client.%d", s.conn.GetInstanceID()))
	if at < 0 {
		return false, nil
	}
	if user, err := s.watcherOf(id); err != nil || user.Addr != "" {
		return false, ignore(err, enoent)
	}
	_, err = s.io.Unlock(headerObject+id, exclusiveLock, held.Cookies[at])
	return err == nil, err
}
