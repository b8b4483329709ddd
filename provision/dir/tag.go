package dir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"seedbed"
	"seedbed/provision/pooltag"
)

// tag is stored as a file beside the file that it describes.
type tag = pooltag.Tag

// called reports whether a tag belongs to what has that name, or to the file of that name.
func called(t *tag, kind, name string) bool {
	if kind == trash {
		return t.Trash != nil && t.Trash.ID == name
	}
	return pooltag.FileName(t.Name) == pooltag.FileName(name)
}

const (
	tagLimit  = 64 << 10
	suffix    = ".qcow2"
	tagSuffix = ".json"
)

// file is where a volume or image of that name is.
func (p *Pool) file(kind, name string) string {
	return filepath.Join(p.path, kind, pooltag.FileName(name)+suffix)
}

// look finds the tag of a name. It returns nil if the name is free, ErrConflict if the file is not
// ours, and ErrUnavailable if the pool is away. A tag without its file is left by a crash and counts
// as nothing.
func (p *Pool) look(kind, name string) (*tag, error) {
	path := p.file(kind, name)
	st, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, p.here()
	}
	if err != nil {
		return nil, err
	}
	if st.Mode().IsRegular() {
		if t, err := readTag(path + tagSuffix); err != nil || t != nil && called(t, kind, name) {
			return t, err
		}
	}
	return nil, seedbed.Errorf(seedbed.ErrConflict, "%s exists and does not carry seedbed's tag (%s): it is not changed", path,
		filepath.Base(path)+tagSuffix)
}

// readTag reads a tag. It returns nil if there is none, or the file is not a tag.
func readTag(path string) (*tag, error) {
	st, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() || st.Size() > tagLimit {
		return nil, nil
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return pooltag.Parse("tag "+path, string(b))
}

// tags returns the tags of all files of a kind that have one, ordered by name.
func (p *Pool) tags(kind string) ([]*tag, error) {
	dir := filepath.Join(p.path, kind)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var all []*tag
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), suffix)
		if !ok || !e.Type().IsRegular() {
			continue
		}
		t, err := readTag(filepath.Join(dir, e.Name()+tagSuffix))
		if err != nil {
			return nil, err
		}
		if t != nil && called(t, kind, name) {
			all = append(all, t)
		}
	}
	return all, nil
}
