//go:build integration && ceph

package ceph

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ceph/go-ceph/rbd"

	"seedbed"
	"seedbed/internal/lab"
	"seedbed/provision/pooltag"
	"seedbed/provision/worker/drivertest"
)

// filled imports an image of that many MiB without a zero in it, and clones it as "v".
func filled(t *testing.T, p *Pool, size int) {
	t.Helper()
	disk := make([]byte, size<<20)
	rng := rand.NewChaCha8([32]byte{1})
	_, _ = rng.Read(disk)
	copy(disk[510:], []byte{0x55, 0xaa})
	path := filepath.Join(t.TempDir(), "disk.img")
	if err := os.WriteFile(path, disk, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := p.ImportImage(t.Context(), "job", seedbed.ImageSpec{Name: "base", Path: path}, nil); err != nil {
		t.Fatal(err)
	}
	v := volume("v")
	v.Size = seedbed.Bytes(size) * seedbed.MiB
	if _, err := p.CloneVolume(t.Context(), "job", v); err != nil {
		t.Fatal(err)
	}
}

// used opens the volume "v" for writing from a client of its own, as a running domain does.
func used(t *testing.T, p *Pool) (img *rbd.Image, leave func()) {
	t.Helper()
	s, err := connect(p.cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	if img, err = rbd.OpenImage(s.io, rbdOf(roleVolume, "v"), rbd.NoSnapshot); err != nil {
		t.Fatal(err)
	}
	return img, func() {
		if err := s.closeImage(img); err != nil {
			t.Error(err)
		}
	}
}

func (p *Pool) queued(t *testing.T) *task {
	t.Helper()
	got, err := call(t.Context(), p, "look for the task", "", func(_ context.Context, s *session) (*task, error) {
		return p.flattening(s, rbdOf(roleVolume, "v"))
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// TestFlattenGoesOn: a worker that is restarted in the middle finds the
// managers' task and waits for its end. The guest writes meanwhile.
func TestFlattenGoesOn(t *testing.T) {
	t.Parallel()
	c := lab.Ceph(t)
	cfg := config(t, c)
	first, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	c.RBD(t, "config", "pool", "set", cfg.Pool, "rbd_concurrent_management_ops", "1") // slowly
	filled(t, first, 192)
	ctx, cancel := context.WithCancel(t.Context())
	_, err = first.FlattenVolume(ctx, "v", "i", func(seedbed.Progress) { cancel() })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("flatten that is left: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	p := open(t, cfg)
	if p.queued(t) == nil {
		t.Log("the task had ended before the pool was opened again")
	}
	img, leave := used(t, p)
	guest := bytes.Repeat([]byte("guest"), 1000)
	if _, err := img.WriteAt(guest, 100<<20); err != nil {
		t.Fatal(err)
	}
	v, err := p.FlattenVolume(t.Context(), "v", "i", nil)
	if err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(guest))
	if _, err := img.ReadAt(got, 100<<20); err != nil || !bytes.Equal(got, guest) {
		t.Errorf("what the guest wrote is lost: %v", err)
	}
	leave()
	if info := c.RBD(t, "info", v.Disk.Source); strings.Contains(info, "parent") {
		t.Errorf("it still has a parent:\n%s", info)
	}
	if err := p.RemoveImage(t.Context(), "job", "base"); err != nil {
		t.Errorf("remove the image: %v", err)
	}
}

// TestFlattenStopped: a task that is taken out of the queue leaves a volume that is whole, and can
// be flattened later.
func TestFlattenStopped(t *testing.T) {
	t.Parallel()
	c := lab.Ceph(t)
	cfg := config(t, c)
	p := open(t, cfg)
	c.RBD(t, "config", "pool", "set", cfg.Pool, "rbd_concurrent_management_ops", "1")
	filled(t, p, 192)
	at := cfg.Pool + "/" + rbdOf(roleVolume, "v")
	before := c.RBD(t, "export", "--no-progress", at, "-")
	if _, err := p.CreateSnapshot(t.Context(), "job", seedbed.SnapshotSpec{Volume: "v", Instance: "i", Name: "s"}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var begin time.Time
	_, err := p.FlattenVolume(ctx, "v", "i", func(seedbed.Progress) {
		begin = time.Now()
		cancel()
	})
	if took := time.Since(begin); !errors.Is(err, context.Canceled) || took > atOnce {
		t.Errorf("flatten: %v after %s; want it within %s", err, took, atOnce)
	}
	if err := p.StopFlatten(t.Context(), "v", "i"); err != nil {
		t.Fatal(err)
	}
	took := time.Since(begin)
	if took > atOnce {
		t.Errorf("cancelled and stopped in %s; want it within %s", took, atOnce)
	}
	t.Logf("cancelled and stopped in %s", took)
	if left := p.queued(t); left != nil {
		t.Errorf("the task goes on: %+v", left)
	}
	if c.RBD(t, "export", "--no-progress", at, "-") != before {
		t.Error("the volume has other data")
	}
	if _, err := p.FlattenVolume(t.Context(), "v", "i", nil); err != nil {
		t.Fatal(err)
	}
	if c.RBD(t, "export", "--no-progress", at, "-") != before || c.RBD(t, "export", "--no-progress", at+"@s", "-") != before {
		t.Error("the flat volume, or its snapshot, has other data")
	}
	// With deep-flatten its snapshot needs the image no more either.
	if err := p.RemoveImage(t.Context(), "job", "base"); err != nil {
		t.Errorf("remove the image: %v", err)
	}
}

// TestTrashWatcher: a move into the trash waits for the volume's user as a
// removal does, and one that stays leaves the volume as it was.
func TestTrashWatcher(t *testing.T) {
	c := cluster(t)
	cfg := config(t, c)
	cfg.Trash = time.Hour
	p := open(t, cfg)
	base(t, p)
	before, err := p.CloneVolume(t.Context(), "job", volume("v"))
	if err != nil {
		t.Fatal(err)
	}
	_, leave := used(t, p)
	if _, err := p.TrashVolume(t.Context(), "v", "i"); !errors.Is(err, seedbed.ErrInUse) || !strings.Contains(err.Error(), "127.0.0.1") {
		t.Errorf("trash a volume in use: %v", err)
	}
	if all, err := p.Volumes(t.Context()); err != nil || len(all) != 1 || all[0] != before {
		t.Errorf("volumes %+v, %v", all, err)
	}
	p.cfg.WatcherFor = lab.Patience // the user leaves late on a busy machine
	moved := make(chan error, 1)
	go func() {
		_, err := p.TrashVolume(t.Context(), "v", "i")
		moved <- err
	}()
	leave()
	if err := <-moved; err != nil {
		t.Errorf("trash a volume that its user leaves: %v", err)
	}
	only(t, c, p)
	items, err := p.Trash(t.Context())
	if err != nil || len(items) != 1 {
		t.Fatalf("trash %v, %v", items, err)
	}
	if err := p.RemoveImage(t.Context(), "job", "base"); !errors.Is(err, seedbed.ErrInUse) ||
		!strings.Contains(err.Error(), "seedbed trash purge "+items[0].ID) {
		t.Errorf("remove the image: %v", err)
	}
}

// TestStrangersInTheTrash: what others have put into RBD's trash, or taken a
// snapshot of, is theirs.
func TestStrangersInTheTrash(t *testing.T) {
	t.Parallel()
	c := lab.Ceph(t)
	cfg := config(t, c)
	cfg.Trash = time.Hour
	p := open(t, cfg)
	base(t, p)
	checks := p.Health(t.Context())
	for _, check := range checks {
		if !check.OK {
			t.Errorf("check %+v", check)
		}
	}
	if last := checks[len(checks)-1]; last.Name != "pool default managers" {
		t.Errorf("last check %+v", last)
	}
	for _, name := range []string{"v", "w"} {
		if _, err := p.CloneVolume(t.Context(), "job", volume(name)); err != nil {
			t.Fatal(err)
		}
	}
	at := cfg.Pool + "/" + rbdOf(roleVolume, "v")
	c.RBD(t, "snap", "create", "--no-progress", at+"@theirs")
	if _, err := p.TrashVolume(t.Context(), "v", "i"); !errors.Is(err, seedbed.ErrInUse) || !strings.Contains(err.Error(), "theirs") {
		t.Errorf("trash a volume with a stranger's snapshot: %v", err)
	}
	if err := p.RemoveVolume(t.Context(), "v", "i"); !errors.Is(err, seedbed.ErrInUse) || !strings.Contains(err.Error(), "theirs") {
		t.Errorf("remove a volume with a stranger's snapshot: %v", err)
	}
	if _, err := p.CreateSnapshot(t.Context(), "job",
		seedbed.SnapshotSpec{Volume: "v", Instance: "i", Name: "theirs"}); !errors.Is(err, seedbed.ErrConflict) {
		t.Errorf("snapshot over a stranger's: %v", err)
	}
	only(t, c, p, "v", "w")
	c.RBD(t, "trash", "mv", cfg.Pool+"/"+rbdOf(roleVolume, "w"))
	c.RBD(t, "create", "--size", "8M", cfg.Pool+"/other")
	c.RBD(t, "trash", "mv", cfg.Pool+"/other")
	items, err := p.Trash(t.Context())
	if err != nil || len(items) != 0 {
		t.Errorf("trash %v, %v", items, err)
	}
	for _, line := range strings.Split(strings.TrimSpace(c.RBD(t, "trash", "ls", cfg.Pool)), "\n") {
		id := strings.Fields(line)[0]
		if err := p.PurgeVolume(t.Context(), id, true); err != nil {
			t.Error(err)
		}
		if _, err := p.RestoreVolume(t.Context(), id); !errors.Is(err, seedbed.ErrNotFound) {
			t.Errorf("restore a stranger's: %v", err)
		}
	}
	// What a person has put there is not swept, whatever its name, and be it an image of ours.
	path, _ := drivertest.BootableFile(t)
	if _, err := p.ImportImage(t.Context(), "job", seedbed.ImageSpec{Name: "spare", Path: path}, nil); err != nil {
		t.Fatal(err)
	}
	theirs := cfg.Pool + "/" + rbdOf(roleImage, "theirs")
	c.RBD(t, "create", "--size", "8M", theirs)
	c.RBD(t, "trash", "mv", theirs)
	mine := cfg.Pool + "/" + rbdOf(roleImage, "spare")
	c.RBD(t, "snap", "unprotect", mine+"@"+snapshot)
	c.RBD(t, "snap", "rm", "--no-progress", mine+"@"+snapshot)
	c.RBD(t, "trash", "mv", mine)
	if err := p.sweep(t.Context()); err != nil {
		t.Error(err)
	}
	if left := strings.Count(strings.TrimSpace(c.RBD(t, "trash", "ls", cfg.Pool)), "\n") + 1; left != 4 {
		t.Errorf("%d things of others are left in the trash; want 4", left)
	}
}

// TestTooManySnapshots: a volume has no more of them than its tag has room for.
func TestTooManySnapshots(t *testing.T) {
	c := cluster(t)
	p := open(t, config(t, c))
	base(t, p)
	if _, err := p.CloneVolume(t.Context(), "job", volume("v")); err != nil {
		t.Fatal(err)
	}
	err := p.do(t.Context(), "fill the tag", "", func(_ context.Context, s *session) error {
		full, _, err := s.readTag(rbdOf(roleVolume, "v"))
		if err != nil {
			return err
		}
		for n := range seedbed.MaxSnapshots {
			name := fmt.Sprintf("%s%03d", strings.Repeat("n", 60), n)
			full.Snapshots = append(full.Snapshots, pooltag.Snapshot{Name: name, Job: seedbed.NewJobID(), Created: time.Now(), Ready: true})
		}
		return s.setTag(rbdOf(roleVolume, "v"), *full)
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.CreateSnapshot(t.Context(), "job", seedbed.SnapshotSpec{Volume: "v", Instance: "i", Name: "more"})
	if !errors.Is(err, seedbed.ErrFull) || !strings.Contains(err.Error(), "seedbed vm snapshot remove") {
		t.Error(err)
	}
	if all, err := p.Snapshots(t.Context(), "v", "i"); err != nil || len(all) != seedbed.MaxSnapshots {
		t.Errorf("%d snapshots, %v", len(all), err)
	}
}
