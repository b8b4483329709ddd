package mapper

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"seedbed"
	"seedbed/internal/command"
)

// server is a process that serves a mapping.
type server struct {
	pid  int
	args []string
}

// servers are the programs that serve mappings.
var servers = []string{storageDaemon, "qemu-nbd"}

// serving finds the processes that serve the token's mapping: root's or nobody's, of our programs,
// with the token in their arguments. A reader comes after the process that it serves, which writes to
// it when it ends. It searches all processes, so that it also finds the process of a mapping that a
// crash interrupted at any point.
func serving(token string) ([]server, error) {
	dirs, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var all []server
	for _, d := range dirs {
		pid, err := strconv.Atoi(d.Name())
		if err != nil {
			continue
		}
		if args, ok := serves(pid, token); ok {
			all = append(all, server{pid, args})
		}
	}
	slices.SortStableFunc(all, func(a, b server) int {
		switch {
		case a.reads() == b.reads():
			return 0
		case b.reads():
			return -1
		}
		return 1
	})
	return all, nil
}

// serves reports whether a process serves the token's mapping, and returns its arguments.
func serves(pid int, token string) ([]string, bool) {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
	if err != nil || !strings.Contains(string(line), token) {
		return nil, false
	}
	args := strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")
	st, err := os.Stat(dir)
	if err != nil {
		return nil, false
	}
	if user := st.Sys().(*syscall.Stat_t).Uid; user != 0 && user != command.Nobody {
		return nil, false
	}
	program, err := os.Readlink(filepath.Join(dir, "exe"))
	// An upgrade removes the file of a running process.
	program = filepath.Base(strings.TrimSuffix(program, " (deleted)"))
	return args, err == nil && slices.Contains(servers, program)
}

// endServing ends the processes that serve the token's mapping: they write their caches and exit.
// With force they are killed if they still run after half of the remaining time. It returns
// ErrUnavailable if one does not end.
func endServing(ctx context.Context, token string, force bool) error {
	all, err := serving(token)
	if err != nil {
		return err
	}
	for _, p := range all {
		if err := end(ctx, p.pid, token, force); err != nil {
			return err
		}
	}
	return nil
}

// end ends one process. It is addressed by a descriptor, so that the signal never reaches another
// process that got its number (pidfd_open(2)).
func end(ctx context.Context, pid int, token string, force bool) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if _, ok := serves(pid, token); !ok {
		return nil
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGTERM, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return err
	}
	limit, cancel := context.WithTimeout(ctx, endTime)
	defer cancel()
	if ended(limit, fd) {
		return nil
	}
	if force && ctx.Err() == nil {
		if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
			return err
		}
		limit, cancel := context.WithTimeout(ctx, endTime)
		defer cancel()
		if ended(limit, fd) {
			return nil
		}
	}
	return seedbed.Errorf(seedbed.ErrUnavailable,
		"process %d, which serves the mapping, has not ended within %s: it may still be writing: check the health of its storage (ceph -s)", pid,
		endTime)
}

// ended waits until the process or the context has ended.
func ended(ctx context.Context, pidfd int) bool {
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, pollMillis)
		if n > 0 && err == nil {
			return true
		}
		if ctx.Err() != nil || err != nil && !errors.Is(err, unix.EINTR) {
			return false
		}
	}
}
