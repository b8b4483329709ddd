package sqldb

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"seedbed"
)

// takeLock opens the database at path, which it creates if it does not exist, and locks it for this
// process. The lock is flock(2)'s on the file itself, so the file has one owner by any name. SQLite
// uses other locks (fcntl(2)), which last only as long as a transaction, and do not conflict with
// this one. But they end when the process closes any descriptor of the file: call releaseLock after
// SQLite has closed its own. The kernel releases the lock when the process dies.
func takeLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = seedbed.Errorf(seedbed.ErrInUse, "the database %s is in use by %s: stop it first, or give this one another store.path",
			path, holder(f))
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// releaseLock ends the lock of takeLock. To close the file is not enough: a process that is being
// started has it open too for a moment.
func releaseLock(f *os.File) error {
	return errors.Join(unix.Flock(int(f.Fd()), unix.LOCK_UN), f.Close())
}

// holder says which process has locked a file (proc_locks(5)), as far as the kernel tells.
func holder(f *os.File) string {
	const other = "another process"
	var st unix.Stat_t
	if unix.Fstat(int(f.Fd()), &st) != nil {
		return other
	}
	locks, err := os.ReadFile("/proc/locks")
	if err != nil {
		return other
	}
	place := fmt.Sprintf("%02x:%02x:%d", unix.Major(st.Dev), unix.Minor(st.Dev), st.Ino)
	for line := range strings.Lines(string(locks)) { // 1: FLOCK  ADVISORY  WRITE 4711 fe:00:1234 0 EOF
		if l := strings.Fields(line); len(l) == 8 && l[1] == "FLOCK" && l[5] == place {
			return other + " (pid " + l[4] + ")"
		}
	}
	return other
}
