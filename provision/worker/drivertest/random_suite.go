package drivertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"seedbed"
	"seedbed/internal/sample"
	"seedbed/provision/backup"
	"seedbed/provision/worker"
)

// How many volumes there are at the same time, how many snapshots of one, and how large one becomes.
const (
	maxVolumes   = 4
	maxSnapshots = 3
	maxGrown     = 20 * mib
	mib          = 1 << 20
)

// modelVolume is what a volume has to contain.
type modelVolume struct {
	seedbed.VolumeSpec
	data  []byte
	snaps map[string][]byte
	flat  bool // it was made independent of its image, so earlier snapshots may not be restored
	made  int  // how many snapshots it has had
	// base is the snapshot of the last backup, and key that backup.
	base string
	key  *seedbed.BackupDiskKey
}

// model is a pool, and what its volumes have to contain.
type model struct {
	t     *testing.T
	d     PoolDriver
	p     worker.Pool
	at    *backup.Place
	rng   *rand.Rand
	base  []byte // what the image has
	all   []*modelVolume
	trace []string
}

// testRandom does to volumes and snapshots what a source of random numbers says, and compares their bytes with a model.
func testRandom(t *testing.T, d PoolDriver, p worker.Pool) {
	path, _ := BootableFile(t)
	disk, err := os.ReadFile(path)
	ok(t, "read the image", err)
	image := imported(t, p)
	m := &model{t: t, d: d, p: p, at: place(t), rng: sample.Rand(t), base: disk}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("after %q", m.trace)
		}
	})
	steps := 24
	if sample.Long() {
		steps = 200
	}
	for range steps {
		m.step()
	}
	for len(m.all) > 0 {
		v := m.all[0]
		m.compare(v)
		for _, name := range slices.Sorted(maps.Keys(v.snaps)) {
			m.restore(v, name)
			m.compare(v)
		}
		m.remove(v)
	}
	volumes(t, p)
	ok(t, "remove the image", p.RemoveImage(t.Context(), image, "base"))
}

// step is one operation.
func (m *model) step() {
	m.t.Helper()
	if len(m.all) == 0 || len(m.all) < maxVolumes && m.rng.IntN(8) == 0 {
		m.add()
		return
	}
	v := m.all[m.rng.IntN(len(m.all))]
	names := slices.Sorted(maps.Keys(v.snaps))
	some := func() string { return names[m.rng.IntN(len(names))] }
	switch n := m.rng.IntN(20); {
	case n < 7:
		m.write(v)
	case n < 10 && len(names) < maxSnapshots:
		m.snapshot(v)
	case n < 12 && len(names) > 0:
		m.restore(v, some())
	case n < 13 && len(names) > 0:
		m.forget(v, some())
	case n < 14 && len(m.all) < maxVolumes:
		at := ""
		if len(names) > 0 && m.rng.IntN(2) == 0 {
			at = some()
		}
		m.copyOf(v, at)
	case n < 16 && len(names) > 0 && len(m.all) < maxVolumes:
		m.backUp(v, some())
	case n < 17:
		m.resize(v)
	case n < 18:
		m.flatten(v)
	case n < 19 && len(m.all) > 1:
		m.remove(v)
	default:
		m.compare(v)
	}
}

func (m *model) did(format string, args ...any) {
	m.trace = append(m.trace, fmt.Sprintf(format, args...))
}

// short is how the trace names a volume.
func (v *modelVolume) short() string { return v.Name[len(v.Name)-6:] }

// add makes a volume, of the image or blank.
func (m *model) add() {
	m.t.Helper()
	v := &modelVolume{VolumeSpec: clone(8 * mib), data: make([]byte, 8*mib), snaps: map[string][]byte{}}
	copy(v.data, m.base)
	if m.rng.IntN(3) == 0 {
		v.Image = ""
		clear(v.data)
	}
	m.did("add %s of %q", v.short(), v.Image)
	_, err := m.p.CloneVolume(m.t.Context(), seedbed.NewJobID(), v.VolumeSpec)
	ok(m.t, "make a volume", err)
	m.all = append(m.all, v)
}

// write writes random bytes, or zeros, to a few places, as a guest would.
func (m *model) write(v *modelVolume) {
	m.t.Helper()
	m.did("write %s", v.short())
	mappedFor(m.t, m.d, m.p, v.VolumeSpec, func(f *os.File, size int64) error {
		if int(size) != len(v.data) {
			m.t.Fatalf("volume %s has %d bytes: want %d (%q)", v.Name, size, len(v.data), m.trace)
		}
		for range 3 {
			at := m.rng.IntN(len(v.data)/512) * 512
			part := v.data[at:min(len(v.data), at+(1+m.rng.IntN(512))*512)]
			clear(part)
			if m.rng.IntN(4) > 0 {
				for n := range part {
					part[n] = byte(m.rng.Uint32())
				}
			}
			if _, err := f.WriteAt(part, int64(at)); err != nil {
				return err
			}
		}
		return nil
	})
}

// compare reads a whole volume.
func (m *model) compare(v *modelVolume) {
	m.t.Helper()
	mappedFor(m.t, m.d, m.p, v.VolumeSpec, func(f *os.File, size int64) error {
		have := make([]byte, size)
		if _, err := f.ReadAt(have, 0); err != nil {
			return err
		}
		if !bytes.Equal(have, v.data) {
			at := 0
			for at < min(len(have), len(v.data)) && have[at] == v.data[at] {
				at++
			}
			m.t.Fatalf("volume %s of %d bytes, want %d, differs at %d", v.short(), len(have), len(v.data), at)
		}
		return nil
	})
}

func (m *model) snapshot(v *modelVolume) {
	m.t.Helper()
	v.made++
	name := fmt.Sprintf("s%03d", v.made)
	m.did("snapshot %s %s", v.short(), name)
	take(m.t, m.p, v.VolumeSpec, name)
	v.snaps[name] = bytes.Clone(v.data)
}

func (m *model) restore(v *modelVolume, name string) {
	m.t.Helper()
	m.did("restore %s %s", v.short(), name)
	err := m.p.RestoreSnapshot(m.t.Context(), snapshotOf(v.VolumeSpec, name))
	if v.flat && errors.Is(err, seedbed.ErrConflict) { // it is as it was
		return
	}
	ok(m.t, "restore "+name, err)
	clear(v.data[copy(v.data, v.snaps[name]):])
}

// forget removes a snapshot.
func (m *model) forget(v *modelVolume, name string) {
	m.t.Helper()
	m.did("remove snapshot %s %s", v.short(), name)
	ok(m.t, "remove snapshot "+name, m.p.RemoveSnapshot(m.t.Context(), snapshotOf(v.VolumeSpec, name), ""))
	delete(v.snaps, name)
}

// copyOf makes a volume of what another one has, or had at a snapshot.
func (m *model) copyOf(v *modelVolume, at string) {
	m.t.Helper()
	data := v.data
	spec := copyOf(v.VolumeSpec, seedbed.Bytes(len(v.data)+m.rng.IntN(2)*2*mib))
	if at != "" {
		data, spec.At, spec.Snapshot = v.snaps[at], at, ""
	}
	made := &modelVolume{VolumeSpec: spec.VolumeSpec, data: make([]byte, spec.Size), snaps: map[string][]byte{}}
	copy(made.data, data)
	m.did("copy %s of %s at %q", made.short(), v.short(), at)
	_, err := m.p.CopyVolume(m.t.Context(), seedbed.NewJobID(), spec, nil)
	ok(m.t, "copy", err)
	m.all = append(m.all, made)
}

// backUp backs up what a volume had at a snapshot, by what has changed since the last backup of it if that is known, and makes a volume of
// the backup.
func (m *model) backUp(v *modelVolume, name string) {
	m.t.Helper()
	base, before := v.base, v.key
	if _, there := v.snaps[base]; !there {
		base, before = "", nil
	}
	if base > name { // what has changed is asked for since an earlier snapshot
		base, before = "", nil
	}
	data := v.snaps[name]
	key, disk := backUp(m.t, m.p, m.at, v.VolumeSpec, name, base, before)
	v.base, v.key = name, &key
	made := &modelVolume{VolumeSpec: clone(seedbed.Bytes(len(data))), data: bytes.Clone(data), snaps: map[string][]byte{}}
	made.Image = ""
	m.did("back up %s at %s since %q to %s", v.short(), name, base, made.short())
	_, err := m.p.FillVolume(m.t.Context(), seedbed.NewJobID(), made.VolumeSpec, "backup:"+key.String(), func(
		ctx context.Context, to backup.Sink,
	) error {
		return m.at.Restore(ctx, key, disk.Index, to, nil)
	})
	ok(m.t, "make a volume of a backup", err)
	m.all = append(m.all, made)
	m.compare(made)
}

func (m *model) resize(v *modelVolume) {
	m.t.Helper()
	size := max(len(v.data), min(maxGrown, len(v.data)+(1+m.rng.IntN(4))*mib))
	m.did("resize %s to %d", v.short(), size)
	_, err := m.p.ResizeVolume(m.t.Context(), v.Name, v.Instance, seedbed.Bytes(size))
	ok(m.t, "resize", err)
	v.data = append(v.data, make([]byte, size-len(v.data))...)
}

func (m *model) flatten(v *modelVolume) {
	m.t.Helper()
	m.did("flatten %s", v.short())
	_, err := m.p.FlattenVolume(m.t.Context(), v.Name, v.Instance, nil)
	if len(v.snaps) > 0 && errors.Is(err, seedbed.ErrInUse) {
		return
	}
	ok(m.t, "flatten", err)
	v.flat = true
}

func (m *model) remove(v *modelVolume) {
	m.t.Helper()
	m.did("remove %s", v.short())
	ok(m.t, "remove", m.p.RemoveVolume(m.t.Context(), v.Name, v.Instance))
	m.all = slices.DeleteFunc(m.all, func(o *modelVolume) bool { return o == v })
}
