package feed

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"seedbed"
	"seedbed/internal/durable"
)

// disk keeps a state in a directory: feed.snapshot and blobs/{sha256}.
type disk struct {
	dir string
	log *slog.Logger
}

func (d disk) snapshotPath() string       { return filepath.Join(d.dir, "feed.snapshot") }
func (d disk) blobPath(sum string) string { return filepath.Join(d.dir, "blobs", sum) }
func (d disk) prepare() error {
	for _, dir := range []string{d.dir, filepath.Join(d.dir, "blobs")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		if err := sweepTemp(dir); err != nil {
			return err
		}
	}
	return nil
}

// load reads the stored state of node. A file that cannot be used is set aside with a warning, and
// the state is then empty, as at a first start. Missing or damaged documents are left out.
func (d disk) load(node string) (*state, error) {
	p, of, err := d.read()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return newState(), nil
	case err == nil && of != node:
		err = fmt.Errorf("it is of node %q, this is %q", of, node)
	}
	if err != nil {
		aside := d.snapshotPath() + ".unusable"
		d.log.Warn("the feed on disk is unusable and was set aside", "file", aside, "err", err)
		if err := os.Rename(d.snapshotPath(), aside); err != nil {
			return nil, fmt.Errorf("set unusable feed aside: %w", err)
		}
		return newState(), nil
	}
	for _, b := range p.missing() {
		data, err := os.ReadFile(d.blobPath(b.SHA256))
		if err == nil {
			err = checkBlob(b, data)
		}
		if err != nil {
			d.log.Warn("a document on disk is unusable", "sha256", b.SHA256, "err", err)
			continue
		}
		p.blobs[b.SHA256] = data
	}
	return p, nil
}

// read reads feed.snapshot of this or an earlier release, and returns its node.
func (d disk) read() (p *state, node string, err error) {
	f, err := os.Open(d.snapshotPath())
	if err != nil {
		return nil, "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, "", err
	}
	// The records stay parts of this one string.
	var b strings.Builder
	b.Grow(int(info.Size()))
	if _, err := io.Copy(&b, f); err != nil {
		return nil, "", err
	}
	if body, ok := strings.CutPrefix(b.String(), snapshotMagic); ok {
		return readSnapshot(body)
	}
	return readFirstForm(b.String())
}

// store writes the state to disk: first its fresh documents, then the snapshot that names them.
// The other documents were stored before.
func (d disk) store(node string, p *state, fresh []seedbed.Blob) error {
	for _, b := range fresh {
		data := p.blobs[b.SHA256]
		err := durable.Write(d.blobPath(b.SHA256), 0o600, func(w io.Writer) error {
			_, err := w.Write(data)
			return err
		})
		if err != nil {
			return fmt.Errorf("keep document %s: %w", b.SHA256, err)
		}
	}
	if err := durable.Write(d.snapshotPath(), 0o600, func(w io.Writer) error { return writeSnapshot(w, node, p) }); err != nil {
		return fmt.Errorf("keep the feed: %w", err)
	}
	return nil
}

// sweep removes documents that the state does not name.
func (d disk) sweep(p *state) error {
	files, err := os.ReadDir(filepath.Join(d.dir, "blobs"))
	if err != nil {
		return err
	}
	for _, f := range files {
		if _, ok := p.blobs[f.Name()]; !ok {
			if err := os.Remove(d.blobPath(f.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkBlob returns an error unless data has the size and digest of b.
func checkBlob(b seedbed.Blob, data []byte) error {
	sum := sha256.Sum256(data)
	if got := hex.EncodeToString(sum[:]); got != b.SHA256 {
		return fmt.Errorf("document %s has the digest %s", b.SHA256, got)
	}
	if int64(len(data)) != b.Size {
		return fmt.Errorf("document %s has %d bytes, expected %d", b.SHA256, len(data), b.Size)
	}
	return nil
}
