package backup

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"seedbed"
)

// Verify names what is damaged or missing, in every backup that has it. The next backup writes a damaged chunk again.
func TestVerifyFindsDamage(t *testing.T) {
	t.Parallel()
	c := at(t, nil)
	p := open(t, c)
	d, other := testDisk(), &disk{data: make([]byte, 4*mib)}
	other.fill(0, 4*mib, 50)
	id := seedbed.NewInstanceID()
	one, two, sound := newKeyOf(id), newKeyOf(id), newKeyOf(seedbed.NewInstanceID())
	for k, d := range map[seedbed.BackupKey]*disk{one: d, two: d, sound: other} {
		backUp(t, p, k, d, nil)
	}
	bent, lost := chunkPath(t, p, c, one, 3), chunkPath(t, p, c, one, 5)
	data, err := os.ReadFile(bent)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 1
	if err := errors.Join(os.WriteFile(bent, data, 0o600), os.Remove(lost)); err != nil {
		t.Fatal(err)
	}
	check, err := p.Verify(t.Context(), Selection{}, nil)
	if err != nil || len(check.Problems) != 4 {
		t.Fatalf("%v, problems %+v", err, check.Problems)
	}
	for _, k := range []seedbed.BackupKey{one, two} {
		for chunk, path := range map[string]string{"chunk 3 of disk 0": bent, "chunk 5 of disk 0": lost} {
			found := false
			for _, x := range check.Problems {
				found = found || x.BackupKey == k && strings.Contains(x.Problem, chunk) && strings.Contains(x.Problem, filepath.Base(path))
			}
			if !found {
				t.Errorf("no problem with %s of %s in %+v", chunk, k, check.Problems)
			}
		}
	}
	if _, err := restored(t, p, one); !errors.Is(err, seedbed.ErrNotFound) && !errors.Is(err, seedbed.ErrConflict) {
		t.Errorf("restored a damaged backup: %v", err)
	}
	if made := backUp(t, p, newKeyOf(id), d, nil); made.New != 2 {
		t.Errorf("the next backup: %+v", made)
	}
	if check, err := p.Verify(t.Context(), Selection{}, nil); err != nil || check.Problems != nil {
		t.Errorf("after that: %+v, %v", check, err)
	}
	wantRestored(t, p, one, d.data)
	for _, s := range []Selection{{Instance: id}, {Keys: []seedbed.BackupKey{sound}}} {
		if check, err := p.Verify(t.Context(), s, nil); err != nil || check.Backups != map[bool]int{true: 3, false: 1}[s.Instance == id] {
			t.Errorf("%+v: %+v, %v", s, check, err)
		}
	}
}

// A damaged chunk is not restored, even if it is damaged so that it can be unpacked.
func TestRestoreChecksDigests(t *testing.T) {
	t.Parallel()
	c := at(t, nil)
	p := open(t, c)
	d := testDisk()
	k := newKeyOf(seedbed.NewInstanceID())
	made := backUp(t, p, k, d, nil)
	text, err := os.ReadFile(chunkPath(t, p, c, k, 5))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(chunkPath(t, p, c, k, 3), text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := p.Restore(t.Context(), first(k), made.Index, make(memory, len(d.data)), nil); !isDamaged(err) {
		t.Errorf("a chunk that is another: %v", err)
	}
	if err := p.Restore(t.Context(), first(k), seedbed.Digest{1}, make(memory, len(d.data)), nil); !isDamaged(err) {
		t.Errorf("another index: %v", err)
	}
}

// A manifest that cannot be read is named, and hides no other backup.
func TestDamagedManifest(t *testing.T) {
	t.Parallel()
	c := at(t, nil)
	p := open(t, c)
	id := seedbed.NewInstanceID()
	good := newKeyOf(id)
	backUp(t, p, good, testDisk(), nil)
	for what, bend := range map[string]func(string) string{
		"cut":       func(s string) string { return s[:len(s)/2] },
		"no JSON":   func(string) string { return "" },
		"changed":   func(s string) string { return strings.Replace(s, `"node":"hv1"`, `"node":"hv2"`, 1) },
		"another's": func(s string) string { return strings.ReplaceAll(s, string(id), string(seedbed.NewInstanceID())) },
		"newer":     func(s string) string { return strings.Replace(s, `"format":1`, `"format":2`, 1) },
	} {
		k := newKeyOf(id)
		backUp(t, p, k, testDisk(), nil)
		path := filepath.Join(c.Path, manifestName(k))
		data, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path, []byte(bend(string(data))), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		list, err := p.List(t.Context(), Selection{})
		if err != nil || len(list.Backups) != 1 || len(list.Damaged) != 1 || list.Damaged[0].BackupKey != k ||
			!strings.Contains(list.Damaged[0].Problem, manifestName(k)) {
			t.Errorf("%s: %v, list %+v", what, err, list)
		}
		check, err := p.Verify(t.Context(), Selection{}, nil)
		if err != nil || len(check.Problems) != 1 || check.Problems[0].BackupKey != k {
			t.Errorf("%s: %v, verified %+v", what, err, check)
		}
		if _, err := p.ReadManifest(t.Context(), k); err == nil {
			t.Errorf("%s: it was read", what)
		}
		if _, err := p.Remove(t.Context(), k); err != nil {
			t.Error(err)
		}
	}
}

// A manifest is only written if the disks that it names are there.
func TestManifestNeedsDisks(t *testing.T) {
	t.Parallel()
	p := open(t, at(t, nil))
	k := newKeyOf(seedbed.NewInstanceID())
	made, err := p.Write(t.Context(), first(k), testDisk(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	second := made
	second.Disk = 1
	if err := p.WriteManifest(t.Context(), manifestOf(k, made, second)); !errors.Is(err, seedbed.ErrNotFound) {
		t.Errorf("without a disk: %v", err)
	}
	bent := made
	bent.Index[0] ^= 1
	if err := p.WriteManifest(t.Context(), manifestOf(k, bent)); !errors.Is(err, seedbed.ErrConflict) {
		t.Errorf("with another index: %v", err)
	}
	if list, err := p.List(t.Context(), Selection{}); err != nil || len(list.Backups)+len(list.Damaged) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
}

// What is described wrongly, or opened with the wrong key, is refused with what would be right.
func TestRefused(t *testing.T) {
	t.Parallel()
	mine, others := newIdentity(t), newIdentity(t)
	sealed, plain := at(t, mine), at(t, nil)
	k := newKeyOf(seedbed.NewInstanceID())
	backUp(t, open(t, sealed), k, testDisk(), nil)
	change := func(c seedbed.BackupPlace, f func(*seedbed.BackupPlace)) seedbed.BackupPlace {
		f(&c)
		return c
	}
	for what, tt := range map[string]struct {
		place seedbed.BackupPlace
		want  error
		text  string
	}{
		"kind":     {change(plain, func(c *seedbed.BackupPlace) { c.Kind = "tape" }), seedbed.ErrInvalid, "dir"},
		"relative": {change(plain, func(c *seedbed.BackupPlace) { c.Path = "backups" }), seedbed.ErrInvalid, "absolute"},
		"absent":   {change(plain, func(c *seedbed.BackupPlace) { c.Path += "/x" }), seedbed.ErrNotFound, "mount"},
		"file":     {change(plain, func(c *seedbed.BackupPlace) { c.Path += "/" + targetName }), seedbed.ErrInvalid, "not a directory"},
		"not encrypted": {change(plain, func(c *seedbed.BackupPlace) { c.Recipient = mine.Recipient().String() }), seedbed.ErrConflict,
			"not encrypted"},
		"recipient": {change(sealed, func(c *seedbed.BackupPlace) { c.Recipient = "age1x" }), seedbed.ErrInvalid, "age-keygen"},
		"for another": {change(sealed, func(c *seedbed.BackupPlace) { c.Recipient, c.Identity = others.Recipient().String(), "" }),
			seedbed.ErrConflict, mine.Recipient().String()},
		"wrong secret": {change(sealed, func(c *seedbed.BackupPlace) { c.Identity = seedbed.Secret(others.String()) }), seedbed.ErrInvalid,
			mine.Recipient().String()},
		"no secret": {change(sealed, func(c *seedbed.BackupPlace) { c.Identity, c.NameKey = "", "" }), seedbed.ErrInvalid, "secret key"},
		"no key":    {change(sealed, func(c *seedbed.BackupPlace) { c.NameKey = "x" }), seedbed.ErrInvalid, "base64"},
		"wrong key": {change(sealed, func(c *seedbed.BackupPlace) { c.NameKey = formatKey(newKey()) }), seedbed.ErrInvalid,
			"not that of this place"},
	} {
		_, err := Check(t.Context(), tt.place)
		if !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.text) || strings.Contains(err.Error(), "AGE-SECRET") {
			t.Errorf("%s: %v", what, err)
		}
	}

	// Without the secret key, backups are written, listed and removed, but not read.
	blind := open(t, change(sealed, func(c *seedbed.BackupPlace) { c.Identity = "" }))
	d := testDisk()
	mineToo := newKeyOf(k.Instance)
	if made := backUp(t, blind, mineToo, d, nil); made.New != 0 {
		t.Errorf("written without the secret key: %+v", made)
	}
	if list, err := blind.List(t.Context(), Selection{}); err != nil || len(list.Backups) != 2 || list.Backups[0].Name != "web" {
		t.Errorf("list %+v, %v", list, err)
	}
	_, read := blind.ReadManifest(t.Context(), k)
	_, verified := blind.Verify(t.Context(), Selection{}, nil)
	x, err := blind.index(t.Context(), first(k), seedbed.Digest{})
	if err != nil {
		t.Fatal(err)
	}
	_, _, chunk := blind.chunk(t.Context(), x.chunks[0], -1, nil)
	for what, err := range map[string]error{"manifest": read, "verify": verified, "chunk": chunk} {
		if !errors.Is(err, seedbed.ErrInvalid) || !strings.Contains(err.Error(), "secret key") {
			t.Errorf("%s without the secret key: %v", what, err)
		}
	}
	if _, err := blind.Sweep(t.Context(), time.Hour, nil); err != nil {
		t.Error(err)
	}
	wantRestored(t, open(t, sealed), mineToo, d.data)

	// Another installation learns the key of names with the secret key.
	info, err := Check(t.Context(), change(sealed, func(c *seedbed.BackupPlace) { c.NameKey = "" }))
	if err != nil || info.Made || info.NameKey != sealed.NameKey || info.Recipient != sealed.Recipient {
		t.Errorf("%+v, %v", info, err)
	}
	if err := os.Remove(filepath.Join(plain.Path, targetName)); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), plain); !errors.Is(err, seedbed.ErrNotFound) {
		t.Errorf("open what is not a place: %v", err)
	}
}

// Of two calls that make a place at the same time, both get the one that is there.
func TestMadeTogether(t *testing.T) {
	t.Parallel()
	id := newIdentity(t)
	c := seedbed.BackupPlace{Kind: seedbed.BackupDir, Path: t.TempDir(), Recipient: id.Recipient().String()}
	c.Identity = seedbed.Secret(id.String())
	type answer struct {
		info seedbed.BackupPlaceInfo
		err  error
	}
	answers := make(chan answer)
	const calls = 8
	for range calls {
		go func() {
			info, err := Check(t.Context(), c)
			answers <- answer{info, err}
		}()
	}
	made, keys := 0, map[seedbed.Secret]bool{}
	for range calls {
		a := <-answers
		if a.err != nil {
			t.Error(a.err)
		}
		if a.info.Made {
			made++
		}
		keys[a.info.NameKey] = true
	}
	if made != 1 || len(keys) != 1 {
		t.Errorf("made %d times, with %d keys", made, len(keys))
	}
}

// misread is a store that once returns other content than is there.
type misread struct {
	store
	done atomic.Bool
}

func (m *misread) get(ctx context.Context, name string, limit int64) ([]byte, error) {
	data, err := m.store.get(ctx, name, limit)
	if err == nil && strings.HasPrefix(name, chunksDir) && m.done.CompareAndSwap(false, true) {
		data[len(data)/2] ^= 1
	}
	return data, err
}

// A verification does not set a chunk aside that is whole when it is read again.
func TestVerifyMisreads(t *testing.T) {
	t.Parallel()
	p := open(t, at(t, nil))
	d, k := testDisk(), newKeyOf(seedbed.NewInstanceID())
	backUp(t, p, k, d, nil)
	p.store = &misread{store: p.store}
	if check, err := p.Verify(t.Context(), Selection{}, nil); err != nil || len(check.Problems) != 1 {
		t.Errorf("misread once: %+v, %v", check, err)
	}
	wantRestored(t, p, k, d.data)
}
