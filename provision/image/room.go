package image

import (
	"fmt"

	"golang.org/x/sys/unix"

	"seedbed"
)

// Room makes the check that so many bytes leave the reserve free on the file system of dir; ErrFull says that they do not.
func Room(dir string, reserve seedbed.Bytes) func(seedbed.Bytes) error {
	return func(need seedbed.Bytes) error {
		var st unix.Statfs_t
		if err := unix.Statfs(dir, &st); err != nil {
			return fmt.Errorf("room in %s: %w", dir, err)
		}
		free := seedbed.Bytes(st.Bavail) * seedbed.Bytes(st.Frsize)
		if free-need < reserve {
			return seedbed.Errorf(seedbed.ErrFull, "%d MiB are needed in %s, which has %d MiB free and keeps %d MiB", need/seedbed.MiB, dir, free/seedbed.MiB, reserve/seedbed.MiB)
		}
		return nil
	}
}
