package mapper

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"seedbed"
)

// entry is the record of one mapping. It is only an intent until Device is set.
type entry struct {
	Version int    `json:"version"`
	Token   string `json:"token"`
	Boot    string `json:"boot"` // ID of the boot in which it was made; no mapping survives a reboot
	Method  string `json:"way"`
	Device  string `json:"device,omitempty"`
	Volume
}

const (
	entryVersion = 1
	entryLimit   = 64 << 10
	entrySuffix  = ".json"
)

// save writes the record atomically.
func (h *Host) save(e *entry) error {
	e.Version = entryVersion
	b, err := json.Marshal(e)
	if err != nil {
		return err
	}
	path := filepath.Join(h.dir, e.Token+entrySuffix)
	temp, err := os.OpenFile(path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = temp.Write(b)
	if err := errors.Join(err, temp.Sync(), temp.Close()); err != nil {
		return errors.Join(err, os.Remove(path+".new"))
	}
	return os.Rename(path+".new", path)
}

// forget removes the record and the files of the mapping.
func (h *Host) forget(e *entry) error {
	own := h.own(e)
	for _, path := range []string{filepath.Join(own, diskFile), filepath.Join(own, keyFile), own, filepath.Join(h.dir, e.Token+entrySuffix)} {
		// One by one and not with os.RemoveAll: nothing below a mount that is still there may be
		// removed.
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

// own returns the directory of the mapping's own files.
func (h *Host) own(e *entry) string { return filepath.Join(h.dir, e.Token) }

// load reads all records. An incomplete record is ignored: its mapping was never begun.
func (h *Host) load() error {
	files, err := os.ReadDir(h.dir)
	if err != nil {
		return err
	}
	for _, f := range files {
		path := filepath.Join(h.dir, f.Name())
		if strings.HasSuffix(f.Name(), entrySuffix+".new") {
			if err := os.Remove(path); err != nil {
				return err
			}
			continue
		}
		token, ok := strings.CutSuffix(f.Name(), entrySuffix)
		if !ok || !f.Type().IsRegular() {
			continue
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		e, err := parseEntry(token, b)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		h.all[e.key()] = e
	}
	return nil
}

// parseEntry reads the record of that token.
func parseEntry(token string, b []byte) (*entry, error) {
	e := new(entry)
	if len(b) > entryLimit {
		return nil, seedbed.Errorf(seedbed.ErrInvalid, "is not the record of a mapping: it has %d bytes", len(b))
	}
	if err := json.Unmarshal(b, e); err != nil {
		return nil, fmt.Errorf("the record of a mapping is not readable: %w", err)
	}
	switch {
	case e.Version != entryVersion:
		return nil, seedbed.Errorf(seedbed.ErrVersion,
			"the record of a mapping has version %d, this release knows %d: end the mapping manually and remove the file", e.Version, entryVersion)
	case e.Token != token || !isToken(token):
		return nil, seedbed.Errorf(seedbed.ErrInvalid, "the record of a mapping has the token %q, and its file another", e.Token)
	case e.RBD == nil && e.File == "":
		return nil, seedbed.Errorf(seedbed.ErrInvalid, "the record of a mapping names no volume")
	}
	return e, nil
}

// isToken reports whether s could be a result of crypto/rand.Text in lower case.
func isToken(s string) bool {
	return len(s) >= 26 && len(s) <= 40 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz234567") == ""
}
