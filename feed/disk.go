package feed

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"seedbed"
)

const snapshotMagic = "seedbed-feed 1 "

// disk keeps a picture in a directory: feed.snapshot, whose first line has a
// version and the SHA-256 of the JSON that follows, and blobs/{sha256}.
type disk struct {
	dir string
	log *slog.Logger
}

// saved is the content of feed.snapshot. It has secrets (report tokens, token key).
type saved struct {
	Node       string            `json:"node"`
	Generation string            `json:"generation"`
	Revision   int64             `json:"revision"`
	Networks   []seedbed.Network `json:"networks"`
	TokenKey   []byte            `json:"token_key"`
	Guests     []seedbed.Guest   `json:"guests"`
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

// load reads what was kept of node. A file that cannot be used is set aside with
// a warning; the picture is empty then, as on a first start. Documents that are
// missing or damaged are left out.
func (d disk) load(node string) (*picture, error) {
	s, err := d.read()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return newPicture(), nil
	case err == nil && s.Node != node:
		err = fmt.Errorf("it is of node %q, this is %q", s.Node, node)
	}
	if err != nil {
		aside := d.snapshotPath() + ".unusable"
		d.log.Warn("the feed on disk is unusable and was set aside", "file", aside, "err", err)
		if err := os.Rename(d.snapshotPath(), aside); err != nil {
			return nil, fmt.Errorf("set unusable feed aside: %w", err)
		}
		return newPicture(), nil
	}
	p := &picture{generation: s.Generation, revision: s.Revision, networks: s.Networks, tokenKey: s.TokenKey,
		guests: make(map[seedbed.InstanceID]seedbed.Guest, len(s.Guests)), blobs: map[string][]byte{}}
	for _, g := range s.Guests {
		p.guests[g.ID] = g
		if g.UserData == nil {
			continue
		}
		data, err := os.ReadFile(d.blobPath(g.UserData.SHA256))
		if err == nil {
			err = checkBlob(*g.UserData, data)
		}
		if err != nil {
			d.log.Warn("a document on disk is unusable", "instance", string(g.ID), "err", err)
			continue
		}
		p.blobs[g.UserData.SHA256] = data
	}
	return p, nil
}

func (d disk) read() (saved, error) {
	var s saved
	b, err := os.ReadFile(d.snapshotPath())
	if err != nil {
		return s, err
	}
	head, body, _ := bytes.Cut(b, []byte("\n"))
	sum := sha256.Sum256(body)
	if string(head) != snapshotMagic+hex.EncodeToString(sum[:]) {
		return s, errors.New("its digest is wrong, or another release wrote it")
	}
	if err := json.Unmarshal(body, &s); err != nil {
		return s, err
	}
	return s, nil
}

// store keeps the picture: its fresh documents first, then the snapshot that
// names them. The other documents were stored before.
func (d disk) store(node string, p *picture, fresh []seedbed.Blob) error {
	for _, b := range fresh {
		if err := writeFile(d.blobPath(b.SHA256), p.blobs[b.SHA256]); err != nil {
			return fmt.Errorf("keep document %s: %w", b.SHA256, err)
		}
	}
	s := saved{Node: node, Generation: p.generation, Revision: p.revision, Networks: p.networks, TokenKey: p.tokenKey,
		Guests: make([]seedbed.Guest, 0, len(p.guests))}
	for _, g := range p.guests {
		s.Guests = append(s.Guests, g)
	}
	body, err := json.Marshal(s)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(body)
	if err := writeFile(d.snapshotPath(), []byte(snapshotMagic+hex.EncodeToString(sum[:])+"\n"), body); err != nil {
		return fmt.Errorf("keep the feed: %w", err)
	}
	return nil
}

// sweep removes the documents that the picture does not name.
func (d disk) sweep(p *picture) error {
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

// checkBlob compares a document with its name.
func checkBlob(b seedbed.Blob, data []byte) error {
	sum := sha256.Sum256(data)
	if got := hex.EncodeToString(sum[:]); got != b.SHA256 {
		return fmt.Errorf("document %s has the digest %s", b.SHA256, got)
	}
	if int64(len(data)) != b.Size {
		return fmt.Errorf("document %s has %d bytes, want %d", b.SHA256, len(data), b.Size)
	}
	return nil
}
