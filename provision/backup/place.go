package backup

import (
	"bytes"
	"context"
	"crypto/hmac"
	"encoding/json"
	"errors"
	"fmt"

	"seedbed"
)

// format is the version of what this release writes, and the only one that it reads.
const format = 1

// targetName is the object that makes a store a place.
const targetName = "seedbed-target.json"

// maxSmall limits manifests and descriptions of places, in bytes.
const maxSmall = 8 << 20

// Place is an open place. Its methods may be called at the same time.
type Place struct {
	store store
	seal  *seal
	codec *codec
}

// target is the stored description of a place.
type target struct {
	Format    int   `json:"format"`
	ChunkSize int64 `json:"chunk_size"`
	// Recipient is whom the content is encrypted for; empty if it is not. Key is then the key of names, encrypted, and Proof how it is
	// recognized.
	Recipient string `json:"recipient,omitempty"`
	Key       []byte `json:"key,omitempty"`
	Proof     []byte `json:"proof,omitempty"`

	plainKey []byte // of a place that was just made
}

// openStore opens the store of a place.
func openStore(c seedbed.BackupPlace) (store, error) {
	switch c.Kind {
	case seedbed.BackupDir:
		return openDir(c.Path)
	case seedbed.BackupS3:
		return openS3(c)
	}
	return nil, seedbed.Errorf(seedbed.ErrInvalid, "kind %q of a place of backups: expected %s or %s", seedbed.Clip(c.Kind), seedbed.BackupDir,
		seedbed.BackupS3)
}

// readTarget returns the description of a place; ErrNotFound without one.
func readTarget(ctx context.Context, s store) (target, error) {
	t := target{}
	data, err := s.get(ctx, targetName, maxSmall)
	if err != nil {
		return t, err
	}
	if err := json.Unmarshal(data, &t); err != nil {
		return t, fmt.Errorf("%s: %w", targetName, damaged("%v", err))
	}
	if t.Format != format || t.ChunkSize != chunkSize {
		return t, seedbed.Errorf(seedbed.ErrVersion, "%s has format %d and chunks of %d bytes: this release knows format %d with %d", targetName,
			t.Format, t.ChunkSize, format, chunkSize)
	}
	return t, nil
}

// open checks the keys of c against a place.
func (t target) open(c seedbed.BackupPlace) (*seal, error) {
	s := &seal{}
	if c.Recipient != "" && c.Recipient != t.Recipient {
		have := "not encrypted"
		if t.Recipient != "" {
			have = "encrypted for " + t.Recipient
		}
		return nil, seedbed.Errorf(seedbed.ErrConflict, "the place of backups is %s, and is to be encrypted for %s: use another place", have,
			seedbed.Clip(c.Recipient))
	}
	if t.Recipient == "" {
		return s, nil
	}
	var err error
	if s.recipient, err = parseRecipient(t.Recipient); err != nil {
		return nil, err
	}
	if s.identity, err = parseIdentity(c.Identity, t.Recipient); err != nil {
		return nil, err
	}
	if s.key, err = parseKey(c.NameKey); err != nil {
		return nil, err
	}
	if s.key == nil && s.identity != nil {
		if s.key, err = s.open(t.Key); err != nil {
			return nil, fmt.Errorf("the key of names in %s: %w", targetName, err)
		}
	}
	if s.key != nil && !hmac.Equal(proof(s.key), t.Proof) {
		return nil, seedbed.Errorf(seedbed.ErrInvalid, "the key of the names of chunks is not that of this place")
	}
	return s, nil
}

// Open opens a place that Check has made. The caller closes it. Errors: ErrNotFound for a store that is not a place, and those of Check.
func Open(ctx context.Context, c seedbed.BackupPlace) (*Place, error) {
	s, err := openStore(c)
	if err != nil {
		return nil, err
	}
	p, err := openIn(ctx, c, s)
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return p, nil
}

func openIn(ctx context.Context, c seedbed.BackupPlace, s store) (*Place, error) {
	t, err := readTarget(ctx, s)
	if err != nil {
		return nil, err
	}
	sealed, err := t.open(c)
	if err != nil {
		return nil, err
	}
	codec, err := newCodec(sealed)
	return &Place{store: s, seal: sealed, codec: codec}, err
}

// Close ends the use of the place.
func (p *Place) Close() error {
	p.codec.close()
	return p.store.close()
}

// Check reports whether a place can be reached and written to. It makes an empty place ready for backups, unless it is Known. Errors:
// ErrInvalid for a place that is described wrongly, or for which Identity is missing or wrong, ErrConflict for one that is encrypted for
// another recipient, ErrNotFound, ErrForbidden, ErrUnavailable, ErrFull.
func Check(ctx context.Context, c seedbed.BackupPlace) (info seedbed.BackupPlaceInfo, err error) {
	recipient, err := parseRecipient(c.Recipient)
	if err != nil {
		return info, err
	}
	if _, err := parseIdentity(c.Identity, c.Recipient); err != nil {
		return info, err
	}
	s, err := openStore(c)
	if err != nil {
		return info, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if _, err := s.now(ctx); err != nil {
		return info, err
	}
	t, err := readTarget(ctx, s)
	if errors.Is(err, seedbed.ErrNotFound) && c.Known {
		return info, seedbed.Errorf(seedbed.ErrNotFound, "%s is not in the place of backups any more: mount it, or bring its content back",
			targetName)
	}
	if errors.Is(err, seedbed.ErrNotFound) {
		if t, info.Made, err = makePlace(ctx, s, &seal{recipient: recipient}); err == nil && info.Made {
			c.Identity, c.NameKey = "", formatKey(t.plainKey)
		}
	}
	if err != nil {
		return info, err
	}
	opened, err := t.open(c)
	if err != nil {
		return info, err
	}
	if opened.sealed() && opened.key == nil {
		return info, seedbed.Errorf(seedbed.ErrInvalid, "the place is encrypted for %s by another installation: its secret key is needed once",
			t.Recipient)
	}
	info.ChunkSize, info.Recipient, info.NameKey = seedbed.Bytes(chunkSize), t.Recipient, formatKey(opened.key)
	return info, nil
}

// makePlace makes an empty store a place. If another call is faster, it returns what that has made.
func makePlace(ctx context.Context, s store, with *seal) (t target, made bool, err error) {
	for _, prefix := range []string{backupsDir, chunksDir} {
		err := s.list(ctx, prefix, func(o object) error {
			return seedbed.Errorf(seedbed.ErrConflict, "there is %s, but no %s: the place is not empty, and not complete either", o.name, targetName)
		})
		if err != nil {
			return t, false, err
		}
	}
	t = target{Format: format, ChunkSize: chunkSize}
	if with.sealed() {
		t.Recipient, t.plainKey = with.recipient.String(), newKey()
		t.Proof = proof(t.plainKey)
		if t.Key, err = with.close(t.plainKey); err != nil {
			return t, false, err
		}
	}
	data, err := json.MarshalIndent(t, "", "  ")
	if err != nil {
		return t, false, err
	}
	err = s.create(ctx, targetName, append(data, '\n'))
	if err == nil {
		err = s.sync(ctx)
	}
	taken := errors.Is(err, seedbed.ErrExists)
	if err != nil && !taken {
		return t, false, err
	}
	have, err := readTarget(ctx, s) // not every S3 server refuses to replace an object
	if err != nil || taken || !bytes.Equal(have.Proof, t.Proof) {
		return have, false, err
	}
	return t, true, nil
}
