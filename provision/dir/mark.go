package dir

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"seedbed"
	"seedbed/internal/durable"
)

// markFile holds the pool's mark: a text that no other pool has, made once with the pool.
const markFile = ".pool"

// remembered is what Config.Known records.
type remembered struct {
	Path string `json:"path"`
	Mark string `json:"mark"`
}

// recognize returns ErrUnavailable if the pool was opened at its path before, and what is there now
// is not that pool: its file system is not mounted, or another one is. It writes nothing.
func (p *Pool) recognize() error {
	was, err := p.recall()
	if err != nil || was.Path != p.path {
		return err // opened for the first time, or moved on purpose
	}
	now, err := p.mark()
	found := "another pool"
	switch {
	case err != nil:
		found = fmt.Sprintf("no pool that can be read (%v)", err)
	case now == was.Mark:
		return nil
	case now == "":
		found = "no pool"
	}
	return seedbed.Errorf(seedbed.ErrUnavailable, "pool %s is away: there is %s at %s. Mount its file system. If it was replaced on "+
		"purpose, remove %s first", p.name, found, p.path, p.known)
}

// remember gives the pool its mark if it has none, and records it. The pool must be locked.
func (p *Pool) remember() error {
	mark, err := p.mark()
	if err == nil && mark == "" {
		mark, err = p.makeMark()
	}
	if err != nil || p.known == "" {
		return err
	}
	was, err := p.recall()
	now := remembered{Path: p.path, Mark: mark}
	if err != nil || was == now {
		return err
	}
	text, err := json.Marshal(now)
	if err != nil {
		return err
	}
	if err := makeDir(filepath.Dir(p.known), 0o700); err != nil {
		return err
	}
	return durable.WriteFile(p.known, append(text, '\n'), 0o600)
}

// makeMark makes the mark. Of the nodes of a shared pool one makes it, and the others take it over.
func (p *Pool) makeMark() (string, error) {
	f, err := p.temp(tagSuffix)
	if err != nil {
		return "", err
	}
	defer p.discard(f.Name())
	_, err = f.WriteString(rand.Text() + "\n")
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return "", err
	}
	if err := os.Link(f.Name(), filepath.Join(p.path, markFile)); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	if err := durable.SyncDir(p.path); err != nil {
		return "", err
	}
	return p.mark()
}

// mark returns the mark of what is at the pool's path; empty for none.
func (p *Pool) mark() (string, error) {
	text, err := readSmall(filepath.Join(p.path, markFile))
	return strings.TrimSpace(string(text)), err
}

// recall returns what is recorded of the pool; the zero value if nothing is.
func (p *Pool) recall() (was remembered, err error) {
	if p.known == "" {
		return was, nil
	}
	text, err := readSmall(p.known)
	if err != nil || text == nil {
		return was, err
	}
	if err := json.Unmarshal(text, &was); err != nil {
		return was, seedbed.Errorf(seedbed.ErrInvalid, "%s, which names the mark of pool %s, cannot be read (%v): mount the pool's "+
			"file system, and remove the file", p.known, p.name, err)
	}
	return was, nil
}

// readSmall reads a regular file of ours; nil if it does not exist.
func readSmall(path string) ([]byte, error) {
	st, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil && (!st.Mode().IsRegular() || st.Size() > tagLimit) {
		err = fmt.Errorf("%s is not a file of seedbed-worker", path)
	}
	if err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}
