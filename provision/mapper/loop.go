package mapper

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"seedbed"
	"seedbed/internal/sleep"
)

const (
	loopControl = "/dev/loop-control"
	// loopTries is how often another free loop device is requested if another program takes it
	// first.
	loopTries = 32
	// loopPatience is how long a detached device may stay: udev opens devices for a moment.
	loopPatience = 3 * time.Second
)

// attachLoop attaches a loop device to the file at path, named by the token (linux/loop.h). It does
// not scan for partitions. Writes go through the page cache: a file of QEMU's FUSE export claims to
// support direct I/O (LO_FLAGS_DIRECT_IO), and then loses data (a new ext4 has wrong checksums;
// QEMU 7.2, Linux 6.18).
func attachLoop(path, token string) (device string, err error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return "", err
	}
	defer file.Close()
	control, err := os.OpenFile(loopControl, os.O_RDWR, 0)
	if err != nil {
		return "", err
	}
	defer control.Close()
	config := unix.LoopConfig{Fd: uint32(file.Fd())}
	copy(config.Info.File_name[:len(config.Info.File_name)-1], token)
	for range loopTries {
		n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return "", fmt.Errorf("find a free loop device: %w", err)
		}
		device = fmt.Sprintf("/dev/loop%d", n)
		err = onDevice(device, func(fd int) error { return unix.IoctlLoopConfigure(fd, &config) })
		if err == nil || !errors.Is(err, unix.EBUSY) {
			return device, err
		}
	}
	return "", seedbed.Errorf(seedbed.ErrUnavailable, "other programs took each of %d free loop devices first: try again", loopTries)
}

func onDevice(device string, fn func(fd int) error) error {
	fd, err := unix.Open(device, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: device, Err: err}
	}
	defer unix.Close(fd)
	if err := fn(fd); err != nil {
		return &os.PathError{Op: "ioctl", Path: device, Err: err}
	}
	return nil
}

// loopOf returns the loop device that the token names, or "".
func loopOf(token string) (string, error) {
	all, err := filepath.Glob(backingFile("loop*")) // only those that are attached
	if err != nil {
		return "", err
	}
	for _, name := range all {
		// Inspecting a device opens it, so only devices that may be ours are inspected. A file
		// whose own mount is gone has the path "/".
		file, err := os.ReadFile(name)
		if path := strings.TrimSpace(string(file)); err != nil || path != "/" && !strings.Contains(path, token) {
			continue
		}
		device := "/dev/" + filepath.Base(filepath.Dir(filepath.Dir(name)))
		if bound(device, token) {
			return device, nil
		}
	}
	return "", nil
}

// bound reports whether the loop device is attached and named by the token.
func bound(device, token string) bool {
	var info *unix.LoopInfo64
	err := onDevice(device, func(fd int) (err error) {
		info, err = unix.IoctlLoopGetStatus64(fd)
		return err
	})
	switch err {
	case nil:
		return unix.ByteSliceToString(info.File_name[:]) == token
	case unix.ENXIO: // it is not attached
		return false
	}
	// The kernel asks the file's server for its attributes, and gives no name if that has died. The
	// path has the token as well.
	file, err := os.ReadFile(backingFile(device))
	return err == nil && strings.Contains(string(file), token)
}

// backingFile returns where the kernel says which file an attached loop device is on.
func backingFile(device string) string {
	return filepath.Join("/sys/block", filepath.Base(device), "loop/backing_file")
}

// detachLoop detaches a loop device if it still belongs to the token. If a process has it open, the
// kernel would only mark it and detach it after its last user. In that case the mark is removed and
// the error is ErrInUse.
func detachLoop(ctx context.Context, device, token string) error {
	if !bound(device, token) {
		return nil
	}
	err := onDevice(device, func(fd int) error { return unix.IoctlSetInt(fd, unix.LOOP_CLR_FD, 0) })
	if err != nil && !errors.Is(err, unix.ENXIO) {
		if errors.Is(err, unix.EBUSY) {
			return busy(device)
		}
		return err
	}
	for end := time.Now().Add(loopPatience); bound(device, token); {
		if !sleep.For(ctx, 10*time.Millisecond) {
			return ctx.Err()
		}
		if time.Now().After(end) {
			err := onDevice(device, func(fd int) error {
				info, err := unix.IoctlLoopGetStatus64(fd)
				if err != nil {
					return err
				}
				info.Flags &^= unix.LO_FLAGS_AUTOCLEAR
				return unix.IoctlLoopSetStatus64(fd, info)
			})
			if errors.Is(err, unix.ENXIO) { // its user has just closed it
				return nil
			}
			return errors.Join(busy(device), err)
		}
	}
	return nil
}
