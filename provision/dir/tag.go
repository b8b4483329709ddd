package dir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"seedbed"
)

// tag says to whom a file belongs. Its Seedbed field distinguishes it from other JSON files.
type tag struct {
	Seedbed  int                `json:"seedbed"` // tagVersion
	Name     string             `json:"name"`
	Job      seedbed.JobID      `json:"job"`
	Instance seedbed.InstanceID `json:"instance,omitempty"` // owner of a volume
	Image    string             `json:"image,omitempty"`    // of which the volume is a clone
	Size     int64              `json:"size"`               // virtual, in bytes
	Format   string             `json:"format,omitempty"`   // of the file from which an image was imported
	SHA256   string             `json:"sha256,omitempty"`   // of that file
	Firmware seedbed.Firmware   `json:"firmware,omitempty"` // according to the image's OVA

	// Made is the size at which a volume was made, once it has grown.
	Made int64 `json:"made,omitempty"`

	Flat      bool       `json:"flat,omitempty"`      // a volume that no longer shares data with its image
	Snapshots []snapshot `json:"snapshots,omitempty"` // inside a volume's file
	// Trash is set for a volume in the trash, and remains when it is restored.
	Trash *trashMark `json:"trash,omitempty"`
}

// clone reports whether the volume reads blocks that it has not written from that image.
func (t *tag) clone(image string) bool { return t.Image == image && image != "" && !t.Flat }

// called reports whether the tag belongs to the file of that name.
func (t *tag) called(kind, name string) bool {
	if kind == trash {
		return t.Trash != nil && t.Trash.ID == name
	}
	return t.Name == name
}

const (
	tagVersion = 1
	tagLimit   = 64 << 10
	suffix     = ".qcow2"
	tagSuffix  = ".json"
)

// file is where a volume or image of that name is.
func (p *Pool) file(kind, name string) string {
	return filepath.Join(p.path, kind, name+suffix)
}

// look finds the tag of a name. It returns nil if the name is free, and ErrConflict if the file is
// not ours. A tag without its file is left by a crash and counts as nothing.
func (p *Pool) look(kind, name string) (*tag, error) {
	path := p.file(kind, name)
	st, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if st.Mode().IsRegular() {
		if t, err := readTag(path + tagSuffix); err != nil || t != nil && t.called(kind, name) {
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
	return parseTag(path, b)
}

func parseTag(path string, b []byte) (*tag, error) {
	t := new(tag)
	if err := json.Unmarshal(b, t); err != nil {
		if typ := (*json.UnmarshalTypeError)(nil); errors.As(err, &typ) {
			return nil, nil // JSON of another form
		}
		return nil, fmt.Errorf("tag %s is not readable: %w", path, err)
	}
	switch {
	case t.Seedbed == 0:
		return nil, nil
	case t.Seedbed != tagVersion:
		return nil, seedbed.Errorf(seedbed.ErrVersion, "tag %s was written by a newer release (version %d, this one knows %d)", path, t.Seedbed,
			tagVersion)
	}
	return t, nil
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
		if t != nil && t.called(kind, name) {
			all = append(all, t)
		}
	}
	return all, nil
}
