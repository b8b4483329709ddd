package image

import (
	"fmt"

	"golang.org/x/sys/unix"

	"seedbed"
)

// Room returns a check whether that many bytes would leave the reserve free on dir's file system;
// it returns ErrFull if not.
func Room(dir string, reserve seedbed.Bytes) func(seedbed.Bytes) error {
	return func(need seedbed.Bytes) error {
		var st unix.Statfs_t
		if err := unix.Statfs(dir, &st); err != nil {
			return fmt.Errorf("room in %s: %w", dir, err)
		}
		free := seedbed.Bytes(st.Bavail) * seedbed.Bytes(st.Frsize)
		if free-need < reserve {
			return seedbed.Errorf(seedbed.ErrFull, "%d MiB are needed in %s, which has %d MiB free and keeps %d MiB", need/seedbed.MiB, dir,
				free/seedbed.MiB, reserve/seedbed.MiB)
		}
		return nil
	}
}
