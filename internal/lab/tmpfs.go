package lab

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Tmpfs mounts a file system of so many bytes on a directory until the end of the test. It needs root.
func Tmpfs(t T, dir string, size int64) {
	t.Helper()
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NODEV|unix.MS_NOSUID, fmt.Sprintf("size=%d", size)); err != nil {
		t.Fatalf("mount a small tmpfs (want root): %v", err)
	}
	t.Cleanup(func() {
		// A process that another test is just starting has this one's files open until it executes.
		poll := time.NewTicker(10 * time.Millisecond)
		defer poll.Stop()
		err := unix.Unmount(dir, 0)
		for end := time.Now().Add(Patience); errors.Is(err, unix.EBUSY) && time.Now().Before(end); err = unix.Unmount(dir, 0) {
			<-poll.C
		}
		if err != nil {
			t.Fatalf("unmount %s: %v", dir, err)
		}
	})
}
