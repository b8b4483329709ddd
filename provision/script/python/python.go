// Package python holds what a provisioning script runs in: the runner that a
// sandbox starts, and the library that scripts import, both in Python 3.9 or
// later, and the check of a script that runs nothing of it.
//
// The runner speaks JSON, a line an object, over its file descriptor 3;
// lib/seedbed/_session.py has the messages.
package python

import (
	"embed"
	"io/fs"
	"path"
)

// Dir is where the sandbox shows Files.
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
		panic(err) // what is embedded can be read
	}
	return files
}

// Argv is the command that runs the runner in the sandbox, by an interpreter:
// isolated from the environment and from what users have installed, and with
// what it prints unbuffered.
func Argv(interpreter string) []string {
	return []string{interpreter, "-I", "-B", "-u", "-X", "utf8", path.Join(Dir, "runner.py")}
}

// Env is the environment of a script.
func Env() []string {
	return []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME=/tmp", "LANG=C.UTF-8", "LC_ALL=C.UTF-8", "DEBIAN_FRONTEND=noninteractive", "TMPDIR=/tmp",
		"LIBMOUNT_FORCE_MOUNT2=always", // mount(8) by the system call that the worker answers
	}
}
