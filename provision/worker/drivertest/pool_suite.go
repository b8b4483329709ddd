package drivertest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"seedbed"
	"seedbed/provision/worker"
)

// PoolDriver describes the driver under test to TestPool.
type PoolDriver struct {
	// Open makes and opens an empty pool, and closes and deletes it at the end of t.
	Open func(t *testing.T) worker.Pool
	// Keep is like Open, for a pool that keeps removed volumes in its trash for that long.
	Keep func(t *testing.T, d time.Duration) worker.Pool
	// Foreign puts a volume that does not carry Seedbed's tag into the pool. untouched reports
	// whether the volume still exists, unchanged.
	Foreign func(t *testing.T, p worker.Pool, name string) (untouched func() bool)
	// Leftovers counts unfinished things in the pool; nil if the driver cannot have any.
	Leftovers func(t *testing.T, p worker.Pool) int
	// Devices is set if the pool keeps real disks, of images in every format, and mapped volumes
	// are real block devices that can be read and written.
	Devices bool
	// Changes is set if the pool knows what has changed since a snapshot.
	Changes bool
}

// poolCase is one case of TestPool, with an empty pool without a trash.
type poolCase struct {
	name string
	test func(*testing.T, PoolDriver, worker.Pool)
}

// BootableSize is the size of the disk that BootableFile writes.
const BootableSize = 4 * seedbed.MiB

// BootableFile writes a raw disk image of BootableSize with a boot signature into a temporary
// directory of t, and returns its path and its SHA-256 digest.
func BootableFile(t testing.TB) (path, sum string) {
	t.Helper()
	disk := make([]byte, BootableSize)
	copy(disk[510:], []byte{0x55, 0xaa})
	copy(disk[1<<20:], bytes.Repeat([]byte("seedbed "), 1<<15))
	digest := sha256.Sum256(disk)
	return file(t, "disk.img", disk), hex.EncodeToString(digest[:])
}

// ISOFile makes a small ISO image, and returns its path.
func ISOFile(t testing.TB) string {
	t.Helper()
	disk := make([]byte, BootableSize)
	copy(disk[510:], []byte{0x55, 0xaa})
	copy(disk[32769:], "CD001") // ECMA-119 8.1: the first volume descriptor
	return file(t, "disc.iso", disk)
}

func file(t testing.TB, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestPool is the contract of worker.Pool: every driver and the in-memory fake pass it.
func TestPool(t *testing.T, d PoolDriver) {
	cases := slices.Concat([]poolCase{
		{"import", testImport},
		{"import again", testImportAgain},
		{"import what is no image", testImportRefused},
		{"import cancelled", testImportCancelled},
		{"remove image", testRemoveImage},
		{"images of projects", testImagesOfProjects},
		{"clone", testClone},
		{"clone again", testCloneAgain},
		{"clone refused", testCloneRefused},
		{"clone at the same time", testCloneTogether},
		{"blank volume", testBlank},
		{"remove volume", testRemoveVolume},
		{"volume without the tag", testForeignVolume},
		{"ended context", testEndedPool},
		{"room", testInfo},
	}, volumeCases, mapCases, uploadCases, backupCases)
	if d.Devices {
		cases = slices.Concat(cases, formatCases)
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p := d.Open(t)
			c.test(t, d, p)
			if d.Leftovers != nil && !t.Failed() {
				if n := d.Leftovers(t, p); n != 0 {
					t.Errorf("%d unfinished things are left in the pool", n)
				}
			}
		})
	}
}

// imported imports the image "base" into a pool, and returns the job that imported it.
func imported(t *testing.T, p worker.Pool) seedbed.JobID {
	t.Helper()
	job := seedbed.NewJobID()
	path, _ := BootableFile(t)
	_, err := p.ImportImage(t.Context(), job, seedbed.ImageSpec{Name: "base", Path: path}, nil)
	ok(t, "import", err)
	return job
}

func clone(size seedbed.Bytes) seedbed.VolumeSpec {
	id := seedbed.NewInstanceID()
	return seedbed.VolumeSpec{Name: string(id) + "-0", Instance: id, Project: "acme", Image: "base", Size: size}
}

func testImport(t *testing.T, _ PoolDriver, p worker.Pool) {
	job, progress := seedbed.NewJobID(), []seedbed.Progress(nil)
	path, sum := BootableFile(t)
	got, err := p.ImportImage(t.Context(), job, seedbed.ImageSpec{Name: "base", Project: "acme", Path: path, SHA256: sum},
		func(p seedbed.Progress) { progress = append(progress, p) })
	ok(t, "import", err)
	want := seedbed.ImageInfo{Pool: got.Pool, Name: "base", Project: "acme", Job: job, Size: BootableSize, Format: "raw", SHA256: sum}
	if got != want {
		t.Errorf("got %+v; want %+v", got, want)
	}
	images(t, p, want)
	last := -1
	for _, step := range progress {
		if step.Percent() < last || step.Done > step.Total {
			t.Fatalf("progress goes back or beyond its end: %v", progress)
		}
		last = step.Percent()
	}
	if last != 100 {
		t.Errorf("progress ends at %d%%", last)
	}
}

func testImportAgain(t *testing.T, _ PoolDriver, p worker.Pool) {
	job := seedbed.NewJobID()
	path, _ := BootableFile(t)
	spec := seedbed.ImageSpec{Name: "base", Path: path}
	first, err := p.ImportImage(t.Context(), job, spec, nil)
	ok(t, "import", err)
	ok(t, "remove the file", os.Remove(path))
	again, err := p.ImportImage(t.Context(), job, spec, nil)
	if err != nil || again != first {
		t.Fatalf("import again: %+v, %v; want %+v", again, err, first)
	}
	spec.Path, _ = BootableFile(t)
	_, err = p.ImportImage(t.Context(), seedbed.NewJobID(), spec, nil)
	is(t, "import by another job", err, seedbed.ErrConflict)
	images(t, p, first)
}

func testImportRefused(t *testing.T, _ PoolDriver, p worker.Pool) {
	good, sum := BootableFile(t)
	wrong := sum[1:] + sum[:1]
	if wrong == sum {
		t.Fatal("the digest is the same when turned")
	}
	absent := filepath.Join(t.TempDir(), "none")
	ok(t, "check", p.CheckImport(t.Context(), seedbed.ImageSpec{Name: "base", Path: good}))
	for _, c := range []struct {
		name string
		spec seedbed.ImageSpec
		want error
		// check is the error that is known without reading the file.
		check error
	}{
		{"absent file", seedbed.ImageSpec{Name: "base", Path: absent}, seedbed.ErrNotFound, seedbed.ErrNotFound},
		{"directory", seedbed.ImageSpec{Name: "base", Path: t.TempDir()}, seedbed.ErrInvalid, seedbed.ErrInvalid},
		{"empty file", seedbed.ImageSpec{Name: "base", Path: file(t, "empty", nil)}, seedbed.ErrInvalid, nil},
		{"text", seedbed.ImageSpec{Name: "base", Path: file(t, "text", bytes.Repeat([]byte("hello\n"), 1000))}, seedbed.ErrInvalid, nil},
		{"zeros", seedbed.ImageSpec{Name: "base", Path: file(t, "zeros", make([]byte, 1<<20))}, seedbed.ErrInvalid, nil},
		{"other digest", seedbed.ImageSpec{Name: "base", Path: good, SHA256: wrong}, seedbed.ErrInvalid, nil},
		{"name that climbs", seedbed.ImageSpec{Name: "../base", Path: good}, seedbed.ErrInvalid, seedbed.ErrInvalid},
		{"no name", seedbed.ImageSpec{Path: good}, seedbed.ErrInvalid, seedbed.ErrInvalid},
	} {
		if err := p.CheckImport(t.Context(), c.spec); !errors.Is(err, c.check) {
			t.Errorf("%s: the check returns %v; want %v", c.name, err, c.check)
		}
		_, err := p.ImportImage(t.Context(), seedbed.NewJobID(), c.spec, nil)
		is(t, c.name, err, c.want)
		images(t, p)
	}
}

func testImportCancelled(t *testing.T, _ PoolDriver, p worker.Pool) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	path, _ := BootableFile(t)
	_, err := p.ImportImage(ctx, seedbed.NewJobID(), seedbed.ImageSpec{Name: "base", Path: path}, nil)
	is(t, "import", err, context.Canceled)
	images(t, p)
	imported(t, p)
}

func testRemoveImage(t *testing.T, _ PoolDriver, p worker.Pool) {
	ctx, job := t.Context(), imported(t, p)
	if disk, err := p.ImageDisk(ctx, "base"); err != nil || disk.Source == "" || disk.Type != "file" && disk.Type != "rbd" {
		t.Errorf("the image's disk: %+v, %v", disk, err)
	}
	_, err := p.ImageDisk(ctx, "other")
	is(t, "the disk of no image", err, seedbed.ErrNotFound)
	_, err = p.ImageDisk(ctx, "../base")
	is(t, "the disk of a name that climbs", err, seedbed.ErrInvalid)
	is(t, "remove by another job", p.RemoveImage(ctx, seedbed.NewJobID(), "base"), seedbed.ErrConflict)
	spec := clone(0)
	_, err = p.CloneVolume(ctx, seedbed.NewJobID(), spec)
	ok(t, "clone", err)
	is(t, "remove with a clone", p.RemoveImage(ctx, job, "base"), seedbed.ErrInUse)
	ok(t, "remove the clone", p.RemoveVolume(ctx, spec.Name, spec.Instance))
	for range 2 {
		ok(t, "remove", p.RemoveImage(ctx, job, "base"))
	}
	images(t, p)
}

func testClone(t *testing.T, _ PoolDriver, p worker.Pool) {
	imported(t, p)
	job, bigger, same := seedbed.NewJobID(), clone(64*seedbed.MiB), clone(0)
	var want []seedbed.VolumeInfo
	for _, c := range []struct {
		spec seedbed.VolumeSpec
		size seedbed.Bytes
	}{{bigger, 64 * seedbed.MiB}, {same, BootableSize}} {
		got, err := p.CloneVolume(t.Context(), job, c.spec)
		ok(t, "clone", err)
		exp := seedbed.VolumeInfo{
			Pool: got.Pool, Name: c.spec.Name, Instance: c.spec.Instance, Project: "acme", Job: job, Size: c.size, Disk: got.Disk,
		}
		if got != exp || got.Disk.Type == "" || got.Disk.Source == "" || got.Disk.Format == "" {
			t.Errorf("got %+v; want %+v with its disk", got, exp)
		}
		want = append(want, exp)
	}
	volumes(t, p, want...)
}

func testCloneAgain(t *testing.T, _ PoolDriver, p worker.Pool) {
	imported(t, p)
	ctx, spec := t.Context(), clone(8*seedbed.MiB)
	first, err := p.CloneVolume(ctx, seedbed.NewJobID(), spec)
	ok(t, "clone", err)
	again, err := p.CloneVolume(ctx, seedbed.NewJobID(), spec)
	if err != nil || again != first {
		t.Fatalf("clone again: %+v, %v; want %+v", again, err, first)
	}
	for _, c := range []struct {
		name   string
		change func(*seedbed.VolumeSpec)
	}{
		{"other instance", func(s *seedbed.VolumeSpec) { s.Instance = seedbed.NewInstanceID() }},
		{"other size", func(s *seedbed.VolumeSpec) { s.Size *= 2 }},
		{"blank", func(s *seedbed.VolumeSpec) { s.Image = "" }},
	} {
		other := spec
		c.change(&other)
		_, err := p.CloneVolume(ctx, seedbed.NewJobID(), other)
		is(t, c.name, err, seedbed.ErrConflict)
	}
	volumes(t, p, first)
}

func testCloneRefused(t *testing.T, _ PoolDriver, p worker.Pool) {
	imported(t, p)
	for _, c := range []struct {
		name   string
		change func(*seedbed.VolumeSpec)
		want   error
	}{
		{"smaller than the image", func(s *seedbed.VolumeSpec) { s.Size = BootableSize - seedbed.MiB }, seedbed.ErrInvalid},
		{"negative size", func(s *seedbed.VolumeSpec) { s.Size = -1 }, seedbed.ErrInvalid},
		{"absent image", func(s *seedbed.VolumeSpec) { s.Image = "none" }, seedbed.ErrNotFound},
		{"blank without a size", func(s *seedbed.VolumeSpec) { s.Image = "" }, seedbed.ErrInvalid},
		{"name that climbs", func(s *seedbed.VolumeSpec) { s.Name = "../../base" }, seedbed.ErrInvalid},
		{"no name", func(s *seedbed.VolumeSpec) { s.Name = "" }, seedbed.ErrInvalid},
	} {
		spec := clone(0)
		c.change(&spec)
		_, err := p.CloneVolume(t.Context(), seedbed.NewJobID(), spec)
		is(t, c.name, err, c.want)
	}
	volumes(t, p)
}

func testCloneTogether(t *testing.T, _ PoolDriver, p worker.Pool) {
	imported(t, p)
	spec, errs, infos := clone(0), make([]error, 6), make([]seedbed.VolumeInfo, 6)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { infos[i], errs[i] = p.CloneVolume(t.Context(), "", spec) })
	}
	wg.Wait()
	ok(t, "clone six times at once", errors.Join(errs...))
	for _, info := range infos {
		if info != infos[0] {
			t.Errorf("answers differ: %+v and %+v", info, infos[0])
		}
	}
	volumes(t, p, infos[0])
}

func testBlank(t *testing.T, _ PoolDriver, p worker.Pool) {
	spec := clone(16 * seedbed.MiB)
	spec.Image = ""
	got, err := p.CloneVolume(t.Context(), seedbed.NewJobID(), spec)
	ok(t, "blank volume", err)
	if got.Size != 16*seedbed.MiB {
		t.Errorf("size: got %s", got.Size)
	}
	volumes(t, p, got)
}

func testRemoveVolume(t *testing.T, _ PoolDriver, p worker.Pool) {
	imported(t, p)
	ctx, spec := t.Context(), clone(0)
	info, err := p.CloneVolume(ctx, seedbed.NewJobID(), spec)
	ok(t, "clone", err)
	is(t, "remove as another instance", p.RemoveVolume(ctx, spec.Name, seedbed.NewInstanceID()), seedbed.ErrConflict)
	is(t, "remove as no instance", p.RemoveVolume(ctx, spec.Name, ""), seedbed.ErrConflict)
	volumes(t, p, info)
	for range 2 {
		ok(t, "remove", p.RemoveVolume(ctx, spec.Name, spec.Instance))
	}
	volumes(t, p)
}

func testForeignVolume(t *testing.T, d PoolDriver, p worker.Pool) {
	imported(t, p)
	ctx, spec := t.Context(), clone(0)
	untouched := d.Foreign(t, p, spec.Name)
	_, err := p.CloneVolume(ctx, seedbed.NewJobID(), spec)
	is(t, "clone over it", err, seedbed.ErrConflict)
	is(t, "remove", p.RemoveVolume(ctx, spec.Name, spec.Instance), seedbed.ErrConflict)
	volumes(t, p)
	if !untouched() {
		t.Error("the foreign volume was changed")
	}
}

func testEndedPool(t *testing.T, _ PoolDriver, p worker.Pool) {
	job := imported(t, p)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := p.CloneVolume(ctx, seedbed.NewJobID(), clone(0))
	is(t, "clone", err, context.Canceled)
	volumes(t, p)
	is(t, "remove image", p.RemoveImage(ctx, job, "base"), context.Canceled)
	_, err = p.Volumes(ctx)
	is(t, "list volumes", err, context.Canceled)
	_, err = p.Images(ctx)
	is(t, "list images", err, context.Canceled)
}

func testInfo(t *testing.T, _ PoolDriver, p worker.Pool) {
	info, err := p.Info(t.Context())
	ok(t, "info", err)
	if info.Name == "" || info.Type == "" || info.Free <= 0 || info.Size < info.Free {
		t.Errorf("info: %+v", info)
	}
}
