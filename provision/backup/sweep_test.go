package backup

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"seedbed"
)

// makeOlder makes all files of a place that much older.
func makeOlder(t testing.TB, c seedbed.BackupPlace, by time.Duration) {
	t.Helper()
	for _, path := range files(t, c, "") {
		st, err := os.Stat(path)
		if err == nil {
			err = os.Chtimes(path, time.Time{}, st.ModTime().Add(-by))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// A sweep removes what no backup names, once it is old.
func TestSweep(t *testing.T) {
	t.Parallel()
	c := at(t, nil)
	p := open(t, c)
	sweep := func(want seedbed.BackupSwept) {
		t.Helper()
		got, err := p.Sweep(t.Context(), 25*time.Hour, nil)
		got.Freed = 0
		if err != nil || got != want {
			t.Fatalf("swept %+v, %v; want %+v", got, err, want)
		}
	}
	kept, gone, unfinished := newKeyOf(seedbed.NewInstanceID()), newKeyOf(seedbed.NewInstanceID()), newKeyOf(seedbed.NewInstanceID())
	d := testDisk()
	backUp(t, p, kept, d, nil)
	other := d.clone()
	other.fill(8*mib, 20*mib, 7) // 3 chunks
	backUp(t, p, gone, other, nil)
	third := &disk{data: make([]byte, 4*mib)}
	third.fill(0, 4*mib, 8)
	if _, err := p.Write(t.Context(), first(unfinished), third, nil, nil); err != nil {
		t.Fatal(err)
	}
	for range 2 { // an absent backup counts as removed
		if refusal, err := p.Remove(t.Context(), gone); err != nil || refusal != "" {
			t.Fatal(refusal, err)
		}
	}
	temp := filepath.Join(filepath.Dir(chunkPath(t, p, c, kept, 0)), strayFile)
	if err := os.WriteFile(temp, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	sweep(seedbed.BackupSwept{Kept: 5, Young: 3})
	if _, err := os.Stat(temp); err != nil {
		t.Errorf("a young unfinished file: %v", err)
	}
	makeOlder(t, c, 26*time.Hour)

	// A backup that finds an old chunk keeps it, although it has no index yet.
	again := &disk{data: slices.Clone(other.data[8*mib : 12*mib])}
	running := newKeyOf(gone.Instance)
	made, err := p.Write(t.Context(), first(running), again, nil, nil)
	if err != nil || made.New != 0 {
		t.Fatalf("%+v, %v", made, err)
	}
	if err := os.Remove(filepath.Join(c.Path, diskName(first(running)))); err != nil {
		t.Fatal(err)
	}
	sweep(seedbed.BackupSwept{Kept: 5, Removed: 2, Young: 1})
	if _, err := os.Stat(temp); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an old unfinished file: %v", err)
	}
	wantRestored(t, p, kept, d.data)

	// What was never finished goes after a week.
	makeOlder(t, c, 8*24*time.Hour)
	sweep(seedbed.BackupSwept{Kept: 4, Removed: 2})
	if left := files(t, c, backupsDir+string(unfinished.Instance)); left != nil {
		t.Errorf("left %v", left)
	}
	wantRestored(t, p, kept, d.data)
}

const strayFile = unfinished + "x"

// A sweep removes nothing if it does not know what is needed.
func TestSweepStopsAtDamagedIndex(t *testing.T) {
	t.Parallel()
	c := at(t, nil)
	p := open(t, c)
	bent, gone := newKeyOf(seedbed.NewInstanceID()), newKeyOf(seedbed.NewInstanceID())
	backUp(t, p, bent, testDisk(), nil)
	other := &disk{data: make([]byte, 4*mib)}
	other.fill(0, 4*mib, 5)
	backUp(t, p, gone, other, nil)
	if _, err := p.Remove(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(c.Path, diskName(first(bent))), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	makeOlder(t, c, 26*time.Hour)
	before := files(t, c, chunksDir)
	if _, err := p.Sweep(t.Context(), 25*time.Hour, nil); !isDamaged(err) || !errors.Is(err, seedbed.ErrConflict) {
		t.Errorf("error %v", err)
	}
	if after := files(t, c, chunksDir); !slices.Equal(before, after) {
		t.Errorf("swept %d of %d", len(before)-len(after), len(before))
	}
	if _, err := p.Remove(t.Context(), bent); err != nil {
		t.Fatal(err)
	}
	if swept, err := p.Sweep(t.Context(), 25*time.Hour, nil); err != nil || swept.Removed != 5 {
		t.Errorf("after its removal: %+v, %v", swept, err)
	}
}

// locked is a store that lets no object go.
type locked struct{ store }

func (locked) remove(context.Context, string, time.Time) (bool, error) {
	return false, seedbed.Errorf(seedbed.ErrForbidden, "it is locked until tomorrow")
}

// What the place does not let go is reported, and the sweep goes on.
func TestLockedObjects(t *testing.T) {
	t.Parallel()
	c := at(t, nil)
	p := open(t, c)
	k := newKeyOf(seedbed.NewInstanceID())
	d := testDisk()
	made := backUp(t, p, k, d, nil)
	p = &Place{store: locked{p.store}, seal: p.seal, codec: p.codec}
	refusal, err := p.Remove(t.Context(), k)
	if err != nil || !strings.Contains(refusal, "manifest.json") || !strings.Contains(refusal, "locked until tomorrow") {
		t.Errorf("removed: %q, %v", refusal, err)
	}
	wantRestored(t, p, k, d.data)
	if err := os.Remove(filepath.Join(c.Path, manifestName(k))); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(c.Path, diskName(first(k)))); err != nil {
		t.Fatal(err)
	}
	makeOlder(t, c, 26*time.Hour)
	swept, err := p.Sweep(t.Context(), 25*time.Hour, nil)
	if err != nil || swept.Refused != made.New || swept.Removed != 0 || !strings.Contains(swept.Refusal, "locked until tomorrow") {
		t.Errorf("swept %+v, %v", swept, err)
	}
}

// A file is not removed if it was renewed after it was looked at. One whose removal was interrupted comes back.
func TestRemoveOnlyOld(t *testing.T) {
	t.Parallel()
	c := at(t, nil)
	s, err := openDir(c.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	name := chunkName(seedbed.Digest{1})
	if err := s.put(t.Context(), name, []byte("x")); err != nil {
		t.Fatal(err)
	}
	makeOlder(t, c, time.Hour)
	before := time.Now().Add(-time.Minute)
	if there, err := s.renew(t.Context(), name); !there || err != nil {
		t.Fatal(there, err)
	}
	if removed, err := s.remove(t.Context(), name, before); removed || err != nil {
		t.Errorf("removed %v, %v", removed, err)
	}
	path := filepath.Join(c.Path, name)
	if err := os.Rename(path, filepath.Join(filepath.Dir(path), leaving+filepath.Base(path))); err != nil {
		t.Fatal(err)
	}
	if there, err := s.renew(t.Context(), name); there || err != nil {
		t.Errorf("renewed while it is removed: %v, %v", there, err)
	}
	if err := s.tidy(t.Context(), before); err != nil {
		t.Fatal(err)
	}
	if data, err := s.get(t.Context(), name, 10); string(data) != "x" || err != nil {
		t.Errorf("%q, %v", data, err)
	}
	if removed, err := s.remove(t.Context(), name, time.Now().Add(time.Minute)); !removed || err != nil {
		t.Errorf("removed %v, %v", removed, err)
	}
}

// Whatever is written, backed up, removed and swept, in whatever order: each backup has the bytes of its time.
func TestBackupsKeepBytes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "")
		if err != nil {
			rt.Fatal(err)
		}
		defer os.RemoveAll(dir)
		c := seedbed.BackupPlace{Kind: seedbed.BackupDir, Path: dir}
		if rapid.Bool().Draw(rt, "sealed") {
			id := newIdentity(t)
			c.Recipient, c.Identity = id.Recipient().String(), seedbed.Secret(id.String())
		}
		if _, err := Check(t.Context(), c); err != nil {
			rt.Fatal(err)
		}
		p := open(t, c)
		id := seedbed.NewInstanceID()
		now := &disk{data: make([]byte, rapid.IntRange(1, 6*mib/512).Draw(rt, "sectors")*512), changed: []Extent{}}
		had := map[seedbed.BackupKey][]byte{}
		var last *seedbed.BackupDiskKey
		keys := func() []seedbed.BackupKey {
			return slices.SortedFunc(maps.Keys(had), func(a, b seedbed.BackupKey) int { return bytes.Compare([]byte(a.Backup), []byte(b.Backup)) })
		}
		rt.Repeat(map[string]func(*rapid.T){
			"write": func(rt *rapid.T) {
				off := rapid.IntRange(0, len(now.data)-1).Draw(rt, "offset")
				end := min(len(now.data), off+rapid.IntRange(1, 3*mib).Draw(rt, "length"))
				seed := rapid.Byte().Draw(rt, "seed")
				if seed%4 == 0 {
					clear(now.data[off:end])
				} else {
					_, _ = rand.NewChaCha8([32]byte{seed % 8}).Read(now.data[off:end])
				}
				now.changed = append(now.changed, Extent{int64(off), int64(end - off)})
			},
			"grow": func(*rapid.T) {
				if len(now.data) < 9*mib {
					now.data = append(now.data, make([]byte, 3*mib/2)...)
				}
			},
			"back up": func(rt *rapid.T) {
				k := newKeyOf(id)
				src := now.clone()
				src.changed = slices.Clip(now.changed)
				base := last
				if rapid.Bool().Draw(rt, "full") {
					base = nil
				}
				backUp(t, p, k, src, base)
				had[k] = src.data
				this := first(k)
				last, now.changed = &this, []Extent{}
			},
			"remove": func(rt *rapid.T) {
				if len(had) == 0 {
					rt.Skip()
				}
				k := rapid.SampledFrom(keys()).Draw(rt, "backup")
				if _, err := p.Remove(t.Context(), k); err != nil {
					rt.Fatal(err)
				}
				delete(had, k)
			},
			"sweep": func(rt *rapid.T) {
				makeOlder(t, c, 26*time.Hour)
				if _, err := p.Sweep(t.Context(), 25*time.Hour, nil); err != nil {
					rt.Fatal(err)
				}
			},
			"restore": func(rt *rapid.T) {
				if len(had) == 0 {
					rt.Skip()
				}
				k := rapid.SampledFrom(keys()).Draw(rt, "backup")
				if got, err := restored(t, p, k); err != nil || !bytes.Equal(got, had[k]) {
					rt.Fatalf("backup %s: equal %v, %v", k, bytes.Equal(got, had[k]), err)
				}
			},
			"": func(rt *rapid.T) {
				if list, err := p.List(t.Context(), Selection{}); err != nil || len(list.Backups) != len(had) || list.Damaged != nil {
					rt.Fatalf("%d backups, list %+v, %v", len(had), list, err)
				}
			},
		})
		for k, want := range had {
			if got, err := restored(t, p, k); err != nil || !bytes.Equal(got, want) {
				rt.Fatalf("at the end, backup %s: equal %v, %v", k, bytes.Equal(got, want), err)
			}
		}
	})
}

// A sweep keeps the chunks of a backup whose key this release does not know.
func TestSweepKeepsUnknown(t *testing.T) {
	t.Parallel()
	c := at(t, nil)
	p := open(t, c)
	k := newKeyOf(seedbed.NewInstanceID())
	backUp(t, p, k, testDisk(), nil)
	below := filepath.Join(c.Path, backupsDir)
	if err := os.Rename(filepath.Join(below, string(k.Instance)), filepath.Join(below, "of another form")); err != nil {
		t.Fatal(err)
	}
	makeOlder(t, c, 30*24*time.Hour)
	if swept, err := p.Sweep(t.Context(), 25*time.Hour, nil); err != nil || swept.Removed != 0 || swept.Kept == 0 {
		t.Errorf("swept %+v, %v", swept, err)
	}
	if left := files(t, c, backupsDir); len(left) != 2 {
		t.Errorf("left %q", left)
	}
}
