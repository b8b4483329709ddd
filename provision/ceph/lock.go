//go:build ceph

package ceph

import (
	"fmt"
	"slices"
)

// exclusiveLock is librbd's lock on an image's header (RBD_LOCK_NAME).
const exclusiveLock = "rbd_lock"

// dropLock takes our own connection's lock off an RBD image that nobody has open, and
// tells whether there was one. An operation that was given up may get it all the same, and
// librbd breaks the locks of clients that have gone, but not its own client's: the image
// could not be changed or removed until the connection has ended. The caller's call has
// the image's key, so that no other of ours has it open.
func (s *session) dropLock(id string) (dropped bool, err error) {
	held, err := s.io.ListLockers(headerObject+id, exclusiveLock)
	if err != nil {
		return false, ignore(err, enoent)
	}
	at := slices.Index(held.Clients, fmt.Sprintf("client.%d", s.conn.GetInstanceID()))
	if at < 0 {
		return false, nil
	}
	if user, err := s.watcherOf(id); err != nil || user != "" {
		return false, ignore(err, enoent)
	}
	_, err = s.io.Unlock(headerObject+id, exclusiveLock, held.Cookies[at])
	return err == nil, err
}
