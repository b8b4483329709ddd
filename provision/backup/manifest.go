package backup

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"seedbed"
)

// manifestFile is the name of a manifest below that of its backup.
const manifestFile = "/manifest.json"

// manifest is the stored form of a manifest.
type manifest struct {
	Format int `json:"format"`
	// Head can be read without a key.
	Head seedbed.BackupHead `json:"head"`
	// Manifest is a seedbed.BackupManifest, with its SHA-256 digest; or it is in Sealed, encrypted.
	Manifest json.RawMessage `json:"manifest,omitempty"`
	SHA256   seedbed.Digest  `json:"sha256,omitzero"`
	Sealed   []byte          `json:"sealed,omitempty"`
}

func manifestName(k seedbed.BackupKey) string { return backupsDir + k.String() + manifestFile }

// WriteManifest ends a backup. A manifest that exists is replaced. Errors: ErrNotFound if the index of one of its disks is missing,
// ErrConflict if one is not that of the manifest.
func (p *Place) WriteManifest(ctx context.Context, m seedbed.BackupManifest) error {
	if err := m.Check(); err != nil {
		return err
	}
	m.Encrypted = p.seal.sealed()
	for _, d := range m.Disks {
		if _, err := p.index(ctx, seedbed.BackupDiskKey{BackupKey: m.BackupKey, Disk: d.Disk}, d.Index); err != nil {
			return fmt.Errorf("a disk of backup %s: %w", m.BackupKey, err)
		}
	}
	body, err := marshal(m)
	if err != nil {
		return err
	}
	out := manifest{Format: format, Head: m.BackupHead}
	if p.seal.sealed() {
		if out.Sealed, err = p.seal.close(body); err != nil {
			return err
		}
	} else {
		out.Manifest, out.SHA256 = body, sha256.Sum256(body)
	}
	data, err := marshal(out)
	if err != nil {
		return err
	}
	if len(data) > maxSmall {
		return seedbed.Errorf(seedbed.ErrInvalid, "the manifest of backup %s has %d bytes: expected at most %d", m.BackupKey, len(data), maxSmall)
	}
	if err := p.store.put(ctx, manifestName(m.BackupKey), data); err != nil {
		return err
	}
	return p.store.sync(ctx)
}

// marshal is json.Marshal, but leaves <, > and & as they are in texts.
func marshal(v any) ([]byte, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(out.Bytes(), []byte{'\n'}), err
}

// stored reads a manifest without opening it.
func (p *Place) stored(ctx context.Context, key seedbed.BackupKey) (m manifest, err error) {
	data, err := p.store.get(ctx, manifestName(key), maxSmall)
	if errors.Is(err, seedbed.ErrNotFound) {
		return m, seedbed.Errorf(seedbed.ErrNotFound, "backup %s is not in the place", key)
	}
	if err != nil {
		return m, err
	}
	err = json.Unmarshal(data, &m)
	switch {
	case err != nil:
		err = damaged("%v", err)
	case m.Format != format:
		err = seedbed.Errorf(seedbed.ErrVersion, "has format %d: this release knows format %d", m.Format, format)
	case m.Head.BackupKey != key:
		err = damaged("it is that of backup %s", m.Head.BackupKey)
	case m.Head.Encrypted != (m.Sealed != nil):
		err = damaged("it is not complete")
	case m.Sealed == nil:
		var body bytes.Buffer
		if err = json.Compact(&body, m.Manifest); err != nil || sha256.Sum256(body.Bytes()) != m.SHA256 {
			err = damaged("its content does not have its digest")
		}
	}
	if err != nil {
		return m, fmt.Errorf("%s: %w", manifestName(key), err)
	}
	return m, nil
}

// ReadManifest returns a backup's manifest. Errors: ErrNotFound without it, ErrInvalid if it is encrypted and Identity is missing,
// ErrConflict if it is damaged.
func (p *Place) ReadManifest(ctx context.Context, key seedbed.BackupKey) (m seedbed.BackupManifest, err error) {
	if err := key.Check(); err != nil {
		return m, err
	}
	in, err := p.stored(ctx, key)
	if err != nil {
		return m, err
	}
	body := []byte(in.Manifest)
	if in.Sealed != nil {
		body, err = p.seal.open(in.Sealed)
	}
	if err == nil {
		if e := json.Unmarshal(body, &m); e != nil || m.BackupKey != key {
			err = damaged("its content is not that of this backup")
		}
	}
	if err != nil {
		return m, fmt.Errorf("%s: %w", manifestName(key), err)
	}
	return m, nil
}

// Selection names backups of a place: those of Keys, or else all of Instance, or else all.
type Selection struct {
	Instance seedbed.InstanceID
	Keys     []seedbed.BackupKey
}

// keys returns the keys of the selected backups, whether or not they exist if they are named.
func (p *Place) keys(ctx context.Context, s Selection) ([]seedbed.BackupKey, error) {
	if len(s.Keys) > 0 {
		for _, k := range s.Keys {
			if err := k.Check(); err != nil {
				return nil, err
			}
		}
		return s.Keys, nil
	}
	prefix := backupsDir
	if s.Instance != "" {
		if _, err := seedbed.ParseInstanceID(string(s.Instance)); err != nil {
			return nil, err
		}
		prefix += string(s.Instance) + "/"
	}
	var all []seedbed.BackupKey
	err := p.store.list(ctx, prefix, func(o object) error {
		if key, file := split(o.name); "/"+file == manifestFile {
			all = append(all, key)
		}
		return nil
	})
	return all, err
}

// split returns what backup an object belongs to, and its name there. The name is empty for what belongs to none.
func split(name string) (key seedbed.BackupKey, file string) {
	parts := strings.Split(strings.TrimPrefix(name, backupsDir), "/")
	if len(parts) != 3 {
		return key, ""
	}
	key = seedbed.BackupKey{Instance: seedbed.InstanceID(parts[0]), Backup: seedbed.BackupID(parts[1])}
	if key.Check() != nil {
		return key, ""
	}
	return key, parts[2]
}

// List lists the selected backups that have a manifest.
func (p *Place) List(ctx context.Context, s Selection) (seedbed.BackupList, error) {
	l := seedbed.BackupList{Backups: []seedbed.BackupHead{}}
	keys, err := p.keys(ctx, s)
	if err != nil {
		return l, err
	}
	var mu sync.Mutex
	err = each(ctx, len(keys), func(ctx context.Context, _, i int) error {
		m, err := p.stored(ctx, keys[i])
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err == nil:
			l.Backups = append(l.Backups, m.Head)
		case errors.Is(err, seedbed.ErrNotFound): // removed in the meantime
		case isDamaged(err), errors.Is(err, seedbed.ErrVersion), errors.Is(err, seedbed.ErrConflict):
			l.Damaged = append(l.Damaged, seedbed.BackupProblem{BackupKey: keys[i], Problem: err.Error()})
		default:
			return err
		}
		return nil
	})
	slices.SortFunc(l.Backups, func(a, b seedbed.BackupHead) int {
		return cmp.Or(cmp.Compare(a.Instance, b.Instance), a.Time.Compare(b.Time), cmp.Compare(a.Backup, b.Backup))
	})
	slices.SortFunc(l.Damaged, byKey)
	return l, err
}

func byKey(a, b seedbed.BackupProblem) int {
	return cmp.Or(cmp.Compare(a.Instance, b.Instance), cmp.Compare(a.Backup, b.Backup), cmp.Compare(a.Problem, b.Problem))
}

// Remove removes a backup, or what an unfinished one has left, but not its chunks. If the place does not let it go, refusal is why, and the
// backup stays.
func (p *Place) Remove(ctx context.Context, key seedbed.BackupKey) (refusal string, err error) {
	if err := key.Check(); err != nil {
		return "", err
	}
	var rest []string
	if err := p.store.list(ctx, backupsDir+key.String()+"/", func(o object) error {
		if o.name != manifestName(key) {
			rest = append(rest, o.name)
		}
		return nil
	}); err != nil {
		return "", err
	}
	// From then on it does not exist.
	for _, name := range slices.Insert(rest, 0, manifestName(key)) {
		if _, err := p.store.remove(ctx, name, time.Time{}); errors.Is(err, seedbed.ErrForbidden) {
			return fmt.Sprintf("%s is not removed: %v", path.Base(name), err), nil
		} else if err != nil {
			return "", err
		}
	}
	return "", p.store.sync(ctx)
}
