package command

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"seedbed"
)

// Replace makes this process the program with that name in PATH, with its arguments, and this one's environment and open files. It
// only returns if that fails: with ErrNotFound if there is no such program. Nothing that was deferred runs.
func Replace(name string, args ...string) error {
	path, err := exec.LookPath(name)
	if err != nil {
		return seedbed.Errorf(seedbed.ErrNotFound, "no program %s on this host: install it", name)
	}
	return fmt.Errorf("start %s: %w", path, syscall.Exec(path, append([]string{name}, args...), os.Environ()))
}
