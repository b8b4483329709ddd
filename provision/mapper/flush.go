package mapper

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"seedbed"
)

const (
	// glanceTime is how long a device may be open in a process that only looks at it: udev
	// does whenever one that wrote to it has closed it.
	glanceTime = 3 * time.Second
	glanceTick = 50 * time.Millisecond
)

// flush has the kernel write what it holds of the device, and refuses with
// ErrInUse one that is mounted or open. One that is absent is flushed already.
func flush(ctx context.Context, device string) error {
	fd, err := unix.Open(device, unix.O_RDWR|unix.O_EXCL|unix.O_CLOEXEC, 0)
	switch err {
	case nil:
	case unix.ENOENT, unix.ENXIO, unix.ENODEV:
		return nil
	case unix.EBUSY:
		return busy(device)
	default:
		return &os.PathError{Op: "open", Path: device, Err: err}
	}
	err = unix.Fsync(fd)
	if err := unix.Close(fd); err != nil {
		return err
	}
	if err != nil {
		return &os.PathError{Op: "fsync", Path: device, Err: err}
	}
	for end := time.Now().Add(glanceTime); ; {
		user := opener(device)
		if user == "" {
			return nil
		}
		if time.Now().After(end) {
			return seedbed.Errorf(seedbed.ErrInUse, "%s is open in process %s: end it first", device, user)
		}
		select {
		case <-time.After(glanceTick):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// busy is the error for a device that is mounted, or is part of something.
func busy(device string) error {
	where := ""
	if all, err := mountsOf(device); err == nil && len(all) > 0 {
		where = " at " + strings.Join(all, ", ")
	}
	return seedbed.Errorf(seedbed.ErrInUse, "%s is mounted%s, or in use otherwise: unmount it first", device, where)
}

// opener is a process that has the device open, as "123 (name)", besides this one and the
// one that serves it; empty when none is seen.
func opener(device string) string {
	var want, have unix.Stat_t
	if unix.Stat(device, &want) != nil {
		return ""
	}
	own, server := strconv.Itoa(os.Getpid()), networkServer("/sys/block", device)
	links, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, link := range links {
		// Only what is called a device is looked at: a file of a dead file system would not answer.
		if target, err := os.Readlink(link); err != nil || !strings.Contains(target, "/dev/") {
			continue
		}
		if unix.Stat(link, &have) == nil && have.Mode&unix.S_IFMT == unix.S_IFBLK && have.Rdev == want.Rdev {
			dir := filepath.Dir(filepath.Dir(link))
			// This process only looks at it, for a moment, and its server has it open for good.
			if pid := filepath.Base(dir); pid == own || server != "" && exists(filepath.Join(dir, "task", server)) {
				continue
			}
			name, _ := os.ReadFile(filepath.Join(dir, "comm"))
			return fmt.Sprintf("%s (%s)", filepath.Base(dir), strings.TrimSpace(string(name)))
		}
	}
	return ""
}

// networkServer is the thread that serves a network block device, by its number; empty for another device.
func networkServer(sys, device string) string {
	thread, err := os.ReadFile(filepath.Join(sys, filepath.Base(device), "pid"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(thread))
}
