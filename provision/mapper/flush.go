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
	"seedbed/internal/sleep"
)

const (
	// glanceTime is how long a process may have a device open that only looks at it, as udev does
	// after each program that wrote to it.
	glanceTime = 3 * time.Second
	glanceTick = 50 * time.Millisecond
)

// flush has the kernel write its cache of the device. It returns ErrInUse if the device is mounted
// or open, and succeeds if it is absent.
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
		if !sleep.For(ctx, glanceTick) {
			return ctx.Err()
		}
	}
}

// busy returns the error for a device that is mounted, or is part of another one.
func busy(device string) error {
	where := ""
	if all, err := mountsOf(device); err == nil && len(all) > 0 {
		where = " at " + strings.Join(all, ", ")
	}
	return seedbed.Errorf(seedbed.ErrInUse, "%s is mounted%s or otherwise in use: unmount it first", device, where)
}

// opener returns a process that has the device open, as "123 (name)", or "". It ignores this
// process and the one that serves the device.
func opener(device string) string {
	var want, have unix.Stat_t
	if unix.Stat(device, &want) != nil {
		return ""
	}
	own, server := strconv.Itoa(os.Getpid()), networkServer("/sys/block", device)
	links, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, link := range links {
		// Only links to devices are followed: a file on a dead file system would not answer.
		if target, err := os.Readlink(link); err != nil || !strings.Contains(target, "/dev/") {
			continue
		}
		if unix.Stat(link, &have) == nil && have.Mode&unix.S_IFMT == unix.S_IFBLK && have.Rdev == want.Rdev {
			dir := filepath.Dir(filepath.Dir(link))
			// This process has it open only for a moment, and its server permanently.
			if pid := filepath.Base(dir); pid == own || server != "" && exists(filepath.Join(dir, "task", server)) {
				continue
			}
			name, _ := os.ReadFile(filepath.Join(dir, "comm"))
			return fmt.Sprintf("%s (%s)", filepath.Base(dir), strings.TrimSpace(string(name)))
		}
	}
	return ""
}

// networkServer returns the name of the thread that serves a network block device, or "" for
// another device.
func networkServer(sys, device string) string {
	thread, err := os.ReadFile(filepath.Join(sys, filepath.Base(device), "pid"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(thread))
}
