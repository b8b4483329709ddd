package lab

import (
	"os"

	"golang.org/x/sys/unix"
)

// Settle waits until no process has the file open for writing. A program that another test starts
// has the file open, until it is executed, if this process had it open when it was forked.
func Settle(t T, path string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	Await(t, Patience, path+" is open for writing nowhere", func() bool {
		if _, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_RDLCK); err != nil {
			return false
		}
		_, _ = unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_UNLCK)
		return true
	})
}
