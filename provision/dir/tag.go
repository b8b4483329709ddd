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

// tag says whose a file is. Its Seedbed field tells it from any other JSON file.
type tag struct {
	Seedbed  int                `json:"seedbed"` // tagVersion
	Name     string             `json:"name"`
	Job      seedbed.JobID      `json:"job"`
	Instance seedbed.InstanceID `json:"instance,omitempty"` // of a volume
	Image    string             `json:"image,omitempty"`    // that a volume is a clone of
	Size     int64              `json:"size"`               // virtual, in bytes
	Format   string             `json:"format,omitempty"`   // of the file that an image was imported from
	SHA256   string             `json:"sha256,omitempty"`   // of that file
	Firmware seedbed.Firmware   `json:"firmware,omitempty"` // by the OVA that an image is from

	// Made is the size that a volume was made with, once it has grown.
	Made int64 `json:"made,omitempty"`

	Flat      bool       `json:"flat,omitempty"`      // a volume that shares nothing with its image any more
	Snapshots []snapshot `json:"snapshots,omitempty"` // inside a volume's file
	// Trash is set for a volume in the trash, and stays when it comes back.
	Trash *trashMark `json:"trash,omitempty"`
}

// clone tells whether the volume reads what it has not written from that image.
func (t *tag) clone(image string) bool { return t.Image == image && image != "" && !t.Flat }

// called tells whether the tag is that of the file of that name.
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

// look finds what has a name: nil when nothing has, ErrConflict when it is a
// stranger's. A tag without its file is what a crash left, and nothing.
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
	return nil, seedbed.Errorf(seedbed.ErrConflict, "%s exists and does not carry seedbed's tag (%s): it is left alone", path, filepath.Base(path)+tagSuffix)
}

// readTag reads a tag; nil when there is none, or the file is somebody else's.
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
			return nil, nil // JSON of another shape
		}
		return nil, fmt.Errorf("tag %s is not readable: %w", path, err)
	}
	switch {
	case t.Seedbed == 0:
		return nil, nil
	case t.Seedbed != tagVersion:
		return nil, seedbed.Errorf(seedbed.ErrVersion, "tag %s was written by a newer release (version %d, this one knows %d)", path, t.Seedbed, tagVersion)
	}
	return t, nil
}

// tags are those of all files of a kind that have one, by name.
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
