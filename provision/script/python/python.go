// Package python holds what provisioning scripts run in: the runner that a sandbox starts, and the
// library that scripts import, both for Python 3.9 or later. It also checks scripts without running
// them.
//
// The runner exchanges JSON objects, one per line, over its file descriptor 3;
// lib/seedbed/_session.py has the messages.
package python

import (
	"embed"
	"io/fs"
	"path"
)

// Dir is the directory in the sandbox that contains Files.
const Dir = "/run/seedbed"

//go:embed runner.py lib/seedbed/*.py
var tree embed.FS

// Files are the runner and the library by their paths below Dir.
func Files() map[string][]byte {
	files := map[string][]byte{}
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files[name], err = tree.ReadFile(name)
		return err
	})
	if err != nil {
		panic(err) // embedded files can always be read
	}
	return files
}

// Argv returns the command that runs the runner in the sandbox with an interpreter. The interpreter
// is isolated from the environment and from packages of users, and its output is unbuffered.
func Argv(interpreter string) []string {
	return []string{interpreter, "-I", "-B", "-u", "-X", "utf8", path.Join(Dir, "runner.py")}
}

// Env returns the environment of a script.
func Env() []string {
	return []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME=/tmp", "LANG=C.UTF-8", "LC_ALL=C.UTF-8", "DEBIAN_FRONTEND=noninteractive", "TMPDIR=/tmp",
		"LIBMOUNT_FORCE_MOUNT2=always", // mount(8) by the system call that the worker answers
	}
}
