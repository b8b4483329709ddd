package backup

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/google/go-cmp/cmp"

	"seedbed"
)

// disk is a disk in memory that is backed up.
type disk struct {
	data             []byte
	written, changed []Extent
	reads            atomic.Int64
}

func (d *disk) Read(_ context.Context, b []byte, off int64) error {
	d.reads.Add(1)
	_, err := bytes.NewReader(d.data).ReadAt(b, off)
	return err
}
func (d *disk) Close() error              { return nil }
func (d *disk) Size() seedbed.Bytes       { return seedbed.Bytes(len(d.data)) }
func (d *disk) Written() ([]Extent, bool) { return d.written, d.written != nil }
func (d *disk) Changed() ([]Extent, bool) { return d.changed, d.changed != nil }
func (d *disk) clone() *disk              { return &disk{data: bytes.Clone(d.data)} }
func (d *disk) fill(from, to int, seed byte) { // with what does not compress
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(d.data[from:to])
}

const mib = 1 << 20

// testDisk is a disk of 7 chunks: two that are the same, two of zeros, and a short last one.
func testDisk() *disk {
	d := &disk{data: make([]byte, 25*mib+512)}
	d.fill(0, 4*mib, 1)
	d.fill(4*mib, 8*mib, 1)
	d.fill(13*mib, 14*mib, 2)
	copy(d.data[20*mib:], bytes.Repeat([]byte("text "), 100_000))
	d.fill(25*mib, 25*mib+512, 3)
	return d
}

// memory is a disk that is restored.
type memory []byte

func (m memory) Write(_ context.Context, b []byte, off int64) error {
	copy(m[off:], b)
	return nil
}

// at is a place in a new directory, which Check has made. With identity it is encrypted.
func at(t testing.TB, identity *age.X25519Identity) seedbed.BackupPlace {
	t.Helper()
	c := seedbed.BackupPlace{Kind: seedbed.BackupDir, Path: t.TempDir()}
	if identity != nil {
		c.Recipient, c.Identity = identity.Recipient().String(), seedbed.Secret(identity.String())
	}
	info, err := Check(t.Context(), c)
	if err != nil || !info.Made {
		t.Fatalf("make the place: %+v, %v", info, err)
	}
	c.NameKey = info.NameKey
	return c
}

func newIdentity(t testing.TB) *age.X25519Identity {
	t.Helper()
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func open(t testing.TB, c seedbed.BackupPlace) *Place {
	t.Helper()
	p, err := Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

func newKeyOf(id seedbed.InstanceID) seedbed.BackupKey {
	return seedbed.BackupKey{Instance: id, Backup: seedbed.NewBackupID()}
}

func first(k seedbed.BackupKey) seedbed.BackupDiskKey { return seedbed.BackupDiskKey{BackupKey: k} }

func manifestOf(k seedbed.BackupKey, disks ...seedbed.BackupDisk) seedbed.BackupManifest {
	m := seedbed.BackupManifest{
		BackupHead:   seedbed.BackupHead{BackupKey: k, Time: time.Unix(1_800_000_000, 0).UTC(), Name: "web", Project: "acme"},
		Installation: "here", Node: "hv1", Config: json.RawMessage(`{"user_data":"#!/bin/sh\necho <a> & b"}`), Disks: disks,
	}
	for _, d := range disks {
		m.Size += d.Size
		m.Stored += d.Stored
	}
	return m
}

// backUp makes a whole backup of one disk.
func backUp(t testing.TB, p *Place, k seedbed.BackupKey, d Source, base *seedbed.BackupDiskKey) seedbed.BackupDisk {
	t.Helper()
	written, err := p.Write(t.Context(), first(k), d, base, nil)
	if err == nil {
		err = p.WriteManifest(t.Context(), manifestOf(k, written))
	}
	if err != nil {
		t.Fatal(err)
	}
	return written
}

// restored returns the content of the first disk of a backup.
func restored(t testing.TB, p *Place, k seedbed.BackupKey) ([]byte, error) {
	t.Helper()
	m, err := p.ReadManifest(t.Context(), k)
	if err != nil {
		return nil, err
	}
	size, err := p.DiskSize(t.Context(), first(k), m.Disks[0].Index)
	if err != nil {
		return nil, err
	}
	to := make(memory, size)
	return to, p.Restore(t.Context(), first(k), m.Disks[0].Index, to, nil)
}

func wantRestored(t testing.TB, p *Place, k seedbed.BackupKey, want []byte) {
	t.Helper()
	if got, err := restored(t, p, k); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("backup %s: %d bytes, equal %v, %v", k, len(got), bytes.Equal(got, want), err)
	}
}

// files returns the files of a place below a directory.
func files(t testing.TB, c seedbed.BackupPlace, below string) (all []string) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(c.Path, below), func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			all = append(all, path)
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return all
}

// A backup has the bytes of its disk. What is there already is not written again. Only root can read it.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	for _, sealed := range []bool{false, true} {
		var id *age.X25519Identity
		if sealed {
			id = newIdentity(t)
		}
		c := at(t, id)
		p := open(t, c)
		d := testDisk()
		k, again := newKeyOf(seedbed.NewInstanceID()), newKeyOf(seedbed.NewInstanceID())
		var last seedbed.Progress
		made, err := p.Write(t.Context(), first(k), d, nil, func(x seedbed.Progress) { last = x })
		if err != nil {
			t.Fatal(err)
		}
		if made.Chunks != 5 || made.New != 4 || made.Read != d.Size() || made.Stored < 5*seedbed.MiB || made.Stored > 6*seedbed.MiB {
			t.Errorf("sealed %v: written %+v", sealed, made)
		}
		if last.Done != d.Size() || last.Total != d.Size() {
			t.Errorf("sealed %v: progress ends with %+v", sealed, last)
		}
		want := manifestOf(k, made)
		if err := p.WriteManifest(t.Context(), want); err != nil {
			t.Fatal(err)
		}
		want.Encrypted = sealed
		got, err := p.ReadManifest(t.Context(), k)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("manifest: %v (-want +got):\n%s", err, diff)
		}
		wantRestored(t, p, k, d.data)
		if second := backUp(t, p, again, d, nil); second.New != 0 || second.Stored != 0 {
			t.Errorf("sealed %v: the second backup has written %+v", sealed, second)
		}
		if check, err := p.Verify(t.Context(), Selection{}, nil); err != nil || check.Backups != 2 || check.Chunks != 4 || check.Problems != nil {
			t.Errorf("sealed %v: verified %+v, %v", sealed, check, err)
		}
		list, err := p.List(t.Context(), Selection{Instance: k.Instance})
		if diff := cmp.Diff(seedbed.BackupList{Backups: []seedbed.BackupHead{want.BackupHead}}, list); err != nil || diff != "" {
			t.Errorf("list: %v (-want +got):\n%s", err, diff)
		}
		for _, path := range files(t, c, "") {
			data, err := os.ReadFile(path)
			if err != nil || sealed && (bytes.Contains(data, []byte("echo")) || bytes.Contains(data, []byte("text text"))) {
				t.Errorf("%s: %v, or not encrypted", path, err)
			}
		}
		modes(t, c)
	}
}

func modes(t *testing.T, c seedbed.BackupPlace) {
	t.Helper()
	err := filepath.WalkDir(c.Path, func(path string, e fs.DirEntry, err error) error {
		if err != nil || path == c.Path {
			return err
		}
		st, err := e.Info()
		if err != nil {
			return err
		}
		if want := map[bool]fs.FileMode{false: 0o600, true: 0o700 | fs.ModeDir}[e.IsDir()]; st.Mode() != want {
			t.Errorf("%s has mode %v", path, st.Mode())
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// An incremental backup reads only what has changed. Its base may be gone, or chunks of it.
func TestIncremental(t *testing.T) {
	t.Parallel()
	c := at(t, nil)
	p := open(t, c)
	d := testDisk()
	id := seedbed.NewInstanceID()
	base := newKeyOf(id)
	backUp(t, p, base, d, nil)
	before := first(base)

	next := d.clone()
	next.data = append(next.data, make([]byte, 7*mib)...) // it has grown, so the last chunk is another one
	next.fill(9*mib, 9*mib+10, 9)
	next.changed = []Extent{{9 * mib, 10}}
	next.fill(30*mib, 31*mib, 10)
	next.written = []Extent{{0, 10 * mib}, {13 * mib, 1 * mib}, {20 * mib, 12 * mib}}
	next.changed = append(next.changed, Extent{30 * mib, 1 * mib})
	second := newKeyOf(id)
	made := backUp(t, p, second, next, &before)
	if made.Read != 12*seedbed.MiB || next.reads.Load() != 3 { // chunks 2, 6 and 7
		t.Errorf("read %s in %d calls: %+v", made.Read, next.reads.Load(), made)
	}
	wantRestored(t, p, second, next.data)

	lost := chunkPath(t, p, c, base, 0)
	if err := os.Remove(lost); err != nil {
		t.Fatal(err)
	}
	same := next.clone()
	same.changed = []Extent{}
	third, of := newKeyOf(id), first(second)
	if made := backUp(t, p, third, same, &of); made.Read > 8*seedbed.MiB || made.New != 1 { // one or both that had the lost one
		t.Errorf("with a chunk lost: %+v", made)
	}
	for _, k := range []seedbed.BackupKey{base, second, third} {
		if _, err := restored(t, p, k); err != nil {
			t.Errorf("after the chunk is written again: %v", err)
		}
	}

	absent := first(newKeyOf(id))
	if made := backUp(t, p, newKeyOf(id), same, &absent); made.Read != same.Size() {
		t.Errorf("with an absent base: %+v", made)
	}
}

// chunkPath returns the file with a chunk of the first disk of a backup.
func chunkPath(t testing.TB, p *Place, c seedbed.BackupPlace, k seedbed.BackupKey, i int) string {
	t.Helper()
	x, err := p.index(t.Context(), first(k), seedbed.Digest{})
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(c.Path, chunkName(x.chunks[i]))
}

// broken is a store of which every call fails after some.
type broken struct {
	store
	left atomic.Int64
}

var errCut = errors.New("cut off")

func (b *broken) call() error {
	if b.left.Add(-1) < 0 {
		return errCut
	}
	return nil
}

func (b *broken) put(ctx context.Context, name string, data []byte) error {
	if err := b.call(); err != nil {
		return err
	}
	return b.store.put(ctx, name, data)
}

func (b *broken) sync(ctx context.Context) error {
	if err := b.call(); err != nil {
		return err
	}
	return b.store.sync(ctx)
}

// A backup that is cut off at any point is not listed, and hurts no other. A repeat succeeds, and finds what is there already.
func TestCutOff(t *testing.T) {
	t.Parallel()
	c := at(t, nil)
	whole := open(t, c)
	old := newKeyOf(seedbed.NewInstanceID())
	backUp(t, whole, old, testDisk(), nil)
	want, err := whole.List(t.Context(), Selection{})
	if err != nil {
		t.Fatal(err)
	}
	check := func(what string, d *disk, k seedbed.BackupKey) {
		t.Helper()
		if got, err := whole.List(t.Context(), Selection{}); err != nil || !cmp.Equal(want, got) {
			t.Errorf("%s: %v, list %+v", what, err, got)
		}
		if check, err := whole.Verify(t.Context(), Selection{}, nil); err != nil || check.Problems != nil {
			t.Errorf("%s: verified %+v, %v", what, check, err)
		}
		if _, err := whole.Sweep(t.Context(), time.Hour, nil); err != nil {
			t.Errorf("%s: sweep: %v", what, err)
		}
		backUp(t, whole, k, d, nil)
		wantRestored(t, whole, k, d.data)
		if _, err := whole.Remove(t.Context(), k); err != nil {
			t.Error(err)
		}
	}
	for tenth := range 10 {
		d := &disk{data: make([]byte, 40*mib)}
		d.fill(0, len(d.data), byte(100+tenth))
		k := newKeyOf(old.Instance)
		ctx, cancel := context.WithCancel(t.Context())
		_, err := whole.Write(ctx, first(k), d, nil, func(x seedbed.Progress) {
			if x.Percent() >= tenth*10 {
				cancel()
			}
		})
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("cut off at %d %%: %v", tenth*10, err)
		}
		check("cancelled", d, k)
	}
	for calls := range int64(8) { // 4 chunks, sync, index, sync; manifest, sync
		d := &disk{data: make([]byte, 16*mib)}
		d.fill(0, len(d.data), byte(200+calls))
		k := newKeyOf(old.Instance)
		b := &broken{store: whole.store}
		b.left.Store(calls)
		cut := &Place{store: b, seal: whole.seal, codec: whole.codec}
		made, err := cut.Write(t.Context(), first(k), d, nil, nil)
		if err == nil {
			err = cut.WriteManifest(t.Context(), manifestOf(k, made))
		}
		if !errors.Is(err, errCut) {
			t.Fatalf("cut off after %d calls: %v", calls, err)
		}
		check("cut off", d, k)
	}
}
