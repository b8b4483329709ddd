package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"seedbed"
	"seedbed/internal/durable"
)

// ReadArg reads a file, or standard input for "-".
func (a *App) ReadArg(path string, limit seedbed.Bytes) ([]byte, error) {
	if path == "-" {
		return ReadLimited(a.In, "standard input", limit)
	}
	return ReadBounded(path, limit)
}

// ReadBounded reads a file that must not be larger than limit.
func ReadBounded(path string, limit seedbed.Bytes) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return ReadLimited(f, path, limit)
}

// ReadLimited reads r to its end. name is used in the error if r is larger than limit.
func ReadLimited(r io.Reader, name string, limit seedbed.Bytes) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, int64(limit)+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(text) > int(limit) {
		return nil, seedbed.Errorf(seedbed.ErrInvalid, "%s is larger than %s", name, limit)
	}
	return text, nil
}

// ReplaceFile atomically writes a file that only the user may read.
func ReplaceFile(path string, text []byte) error {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return durable.WriteFile(path, text, 0o600)
}

// Target is a file that a user has named, to be written.
type Target struct {
	path string
	mode fs.FileMode
	as   bool // it is not a regular file, and is written as it is
}

// NewTarget finds out what is to be written before it is there: the file at path, or base in the directory there.
func NewTarget(path, base string) (Target, error) {
	st, err := os.Stat(path)
	if err == nil && st.IsDir() {
		if base == "" || base == "." || base == ".." {
			return Target{}, Usagef("%s is a directory: name a file", path)
		}
		path = filepath.Join(path, base)
		st, err = os.Stat(path)
	}
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(path); err == nil {
			return Target{}, Usagef("%s is a link to what does not exist: name a file", path)
		}
		if _, err := os.Stat(filepath.Dir(path)); err != nil {
			return Target{}, err
		}
		return Target{path: path, mode: 0o600}, nil
	}
	if err == nil && st.IsDir() {
		err = Usagef("%s is a directory: name a file", path)
	}
	if err != nil {
		return Target{}, err
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return Target{}, err
	}
	return Target{path: path, mode: st.Mode().Perm(), as: !st.Mode().IsRegular()}, nil
}

// Path is the file that is written. Links were followed.
func (t Target) Path() string { return t.path }

// Write replaces the file when write has written all, and keeps its mode; a new one is the user's alone. What is not a regular
// file, such as a pipe or /dev/null, is written as it is.
func (t Target) Write(write func(io.Writer) error) error {
	if !t.as {
		return durable.Write(t.path, t.mode, write)
	}
	f, err := os.OpenFile(t.path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

// GivenSecret reads the secret in a file. It returns an empty string if file is empty.
func GivenSecret(file string) (string, error) {
	if file == "" {
		return "", nil
	}
	text, err := ReadBounded(file, 4*seedbed.KiB)
	return strings.TrimSpace(string(text)), err
}

// SaveSecret writes a secret unless it is empty. An existing file, such as that of another
// installation's hook with the same name, is kept with the suffix ".old".
func SaveSecret(file, secret string) error {
	if file == "" || secret == "" {
		return nil
	}
	if err := os.Rename(file, file+".old"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return durable.WriteFile(file, []byte(secret+"\n"), 0o600)
}
