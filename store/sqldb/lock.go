package sqldb

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"seedbed"
)

// takeLock locks the database at path for this process, with flock(2) on a separate file that is
// never removed. SQLite's own locks last only as long as a transaction. The kernel releases the
// lock when the file is closed or the process dies.
func takeLock(path string) (*os.File, error) {
	name := path + ".lock"
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the database's lock: %w", err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = heldBy(f, path)
	} else if err == nil {
		err = writePID(f)
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

func heldBy(f *os.File, path string) error {
	pid, err := io.ReadAll(io.LimitReader(f, 20))
	who := "another process"
	if pid = bytes.TrimSpace(pid); err == nil && len(pid) > 0 {
		who += fmt.Sprintf(" (pid %q)", pid)
	}
	return seedbed.Errorf(seedbed.ErrInUse,
		"the database %s is in use by %s, which holds %s: stop it first, or give this one another store.path", path, who, f.Name())
}

// writePID writes the process ID, for the error message of a process that finds the lock taken.
func writePID(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return fmt.Errorf("write the database's lock: %w", err)
	}
	if _, err := fmt.Fprintf(f, "%d\n", os.Getpid()); err != nil {
		return fmt.Errorf("write the database's lock: %w", err)
	}
	return nil
}
