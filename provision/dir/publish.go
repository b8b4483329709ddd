package dir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"seedbed"
)

// unfinished matches the names in building/ that are ours.
var unfinished = regexp.MustCompile(`^seedbed-[0-9A-Za-z]+\.(qcow2|part|json)$`)

// temp creates an empty file in building/ that only root can read.
func (p *Pool) temp(suffix string) (*os.File, error) {
	return os.CreateTemp(p.building, "seedbed-*"+suffix)
}

// tempPath is like temp for a file that a tool writes.
func (p *Pool) tempPath() (string, error) {
	f, err := p.temp(suffix)
	if err != nil {
		return "", p.room(err)
	}
	return f.Name(), f.Close()
}

// discard removes an unfinished file. It succeeds if the file is absent.
func (p *Pool) discard(path string) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		p.log.Warn("unfinished file not removed until the pool is opened again", "path", path, "err", err)
	}
}

// publish gives the finished file at path its mode, its tag and its name, in an order in which a
// crash leaves at most a tag without a file. The caller must have the pool's turn, and the name
// must be free.
func (p *Pool) publish(path, kind string, mode fs.FileMode, t tag) error {
	if err := os.Chmod(path, mode); err != nil {
		return err
	}
	if err := syncPath(path); err != nil {
		return p.room(err)
	}
	final := p.file(kind, t.Name)
	if err := p.writeTag(final+tagSuffix, t); err != nil {
		return p.room(err)
	}
	if err := os.Link(path, final); err != nil {
		_ = os.Remove(final + tagSuffix)
		if errors.Is(err, fs.ErrExist) {
			return seedbed.Errorf(seedbed.ErrConflict, "%s was taken by another program in the meantime", final)
		}
		return p.room(err)
	}
	p.discard(path)
	return syncPath(filepath.Dir(final))
}

func (p *Pool) writeTag(path string, t tag) error {
	text, err := t.Marshal()
	if err != nil {
		return err
	}
	f, err := p.temp(tagSuffix)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text + "\n")
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		p.discard(f.Name())
		return err
	}
	return syncPath(filepath.Dir(path))
}

// withdraw removes a file of ours and then its tag.
func (p *Pool) withdraw(kind, name string) error {
	path := p.file(kind, name)
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := syncPath(filepath.Dir(path)); err != nil {
		return err
	}
	return os.Remove(path + tagSuffix)
}

// sweep removes what crashes leave: unfinished files, tags without files, and the second names of
// files that were being moved.
func (p *Pool) sweep() error {
	dir := p.building
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Type().IsRegular() && unfinished.MatchString(e.Name()) {
			p.log.Info("removed unfinished file", "pool", p.name, "file", e.Name())
			if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return errors.Join(p.sweepTags(images), p.sweepTags(volumes), p.sweepTags(trash), p.sweepMoves())
}

func (p *Pool) sweepTags(kind string) error {
	dir := filepath.Join(p.path, kind)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		data, ok := strings.CutSuffix(path, tagSuffix)
		if !ok || !strings.HasSuffix(data, suffix) {
			continue
		}
		if _, err := os.Lstat(data); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if t, err := readTag(path); err != nil || t == nil {
			continue // not ours, or from a newer release
		}
		p.log.Info("removed tag without a file", "pool", p.name, "file", e.Name())
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	return nil
}

// syncPath makes a file's data or a directory's names durable.
func syncPath(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// room translates an error that means a full file system to ErrFull.
func (p *Pool) room(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return seedbed.Errorf(seedbed.ErrFull, "pool %s at %s is full: %v", p.name, p.path, err)
	}
	if errors.Is(err, seedbed.ErrFull) {
		return fmt.Errorf("pool %s at %s is full: %w", p.name, p.path, err)
	}
	return err
}
