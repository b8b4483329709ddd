//go:build integration

package dir

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"seedbed"
	"seedbed/internal/lab"
	"seedbed/provision/image"
	"seedbed/provision/pooltag"
	"seedbed/provision/worker/drivertest"
)

// aClone is a volume of an image in a new pool that keeps removed volumes for an hour.
func aClone(t *testing.T) (*Pool, seedbed.VolumeInfo) {
	t.Helper()
	p := openWith(t, Config{Path: filepath.Join(t.TempDir(), "pool"), Trash: time.Hour})
	disk, _ := drivertest.BootableFile(t)
	if _, err := p.ImportImage(t.Context(), "job", seedbed.ImageSpec{Name: "base", Path: disk}, nil); err != nil {
		t.Fatal(err)
	}
	v, err := p.CloneVolume(t.Context(), "job", seedbed.VolumeSpec{Name: "v", Instance: "i", Image: "base", Size: 64 * seedbed.MiB})
	if err != nil {
		t.Fatal(err)
	}
	return p, v
}

func TestFlattenKeepsTheData(t *testing.T) {
	t.Parallel()
	p, v := aClone(t)
	write := exec.Command("qemu-io", "-f", "qcow2", "-c", "write -P 0xab 1M 512k", "-c", "write -z 2M 64k", "-c", "write -P 0xcd 40M 1M",
		v.Disk.Source)
	if out, err := write.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	before := filepath.Join(t.TempDir(), "before.raw")
	tool(t, "convert", "-f", "qcow2", "-O", "raw", v.Disk.Source, before)
	got, err := p.FlattenVolume(t.Context(), "v", "i", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.RemoveImage(t.Context(), "job", "base"); err != nil {
		t.Fatal(err)
	}
	tool(t, "compare", "-f", "qcow2", "-F", "raw", got.Disk.Source, before)
	info, err := image.ReadHeader(got.Disk.Source)
	if err != nil || info.Backing != "" || got.Disk.Backing != "" {
		t.Errorf("it still has a backing file: %+v, %v, %+v", info, err, got)
	}
}

// A volume that a process has open, as a running domain does, is refused and unchanged.
func TestVolumeInUse(t *testing.T) {
	t.Parallel()
	p, v := aClone(t)
	release := lab.HoldOpen(t, v.Disk.Source)
	spec := seedbed.SnapshotSpec{Volume: "v", Instance: "i", Name: "s"}
	_, err := p.CreateSnapshot(t.Context(), "job", spec)
	if !errors.Is(err, seedbed.ErrInUse) || !strings.Contains(err.Error(), "switch the domain off") {
		t.Errorf("snapshot: %v", err)
	}
	if _, err = p.FlattenVolume(t.Context(), "v", "i", nil); !errors.Is(err, seedbed.ErrInUse) {
		t.Errorf("flatten: %v", err)
	}
	if all, err := p.Snapshots(t.Context(), "v", "i"); err != nil || len(all) != 0 {
		t.Errorf("snapshots %v, %v", all, err)
	}
	release()
	if _, err = p.CreateSnapshot(t.Context(), "job", spec); err != nil {
		t.Error(err)
	}
	if _, err = p.FlattenVolume(t.Context(), "v", "i", nil); !errors.Is(err, seedbed.ErrInUse) ||
		!strings.Contains(err.Error(), "has snapshots") {
		t.Errorf("flatten with a snapshot: %v", err)
	}
}

// A snapshot that a stranger took inside the file stays, and one whose taking was cut off is made
// up for.
func TestSnapshotInside(t *testing.T) {
	t.Parallel()
	p, v := aClone(t)
	tool(t, "snapshot", "-c", "theirs", v.Disk.Source)
	spec := seedbed.SnapshotSpec{Volume: "v", Instance: "i", Name: "theirs"}
	if _, err := p.CreateSnapshot(t.Context(), "job", spec); !errors.Is(err, seedbed.ErrConflict) {
		t.Errorf("over a stranger's: %v", err)
	}
	if err := p.RemoveSnapshot(t.Context(), spec, ""); err != nil {
		t.Error(err)
	}
	// As after a crash: in the tag, and one of them inside the file.
	for _, name := range []string{"cut", "taken"} {
		have, err := p.there("v", "i")
		if err != nil {
			t.Fatal(err)
		}
		have.Snapshots = append(have.Snapshots, pooltag.Snapshot{Name: name, Job: "job", Created: time.Now()})
		if err := p.writeTag(v.Disk.Source+tagSuffix, *have); err != nil {
			t.Fatal(err)
		}
	}
	tool(t, "snapshot", "-c", "taken", v.Disk.Source)
	if all, err := p.Snapshots(t.Context(), "v", "i"); err != nil || len(all) != 0 {
		t.Errorf("unfinished snapshots are listed: %v, %v", all, err)
	}
	for _, name := range []string{"cut", "taken"} {
		if _, err := p.CreateSnapshot(t.Context(), "job", seedbed.SnapshotSpec{Volume: "v", Instance: "i", Name: name}); err != nil {
			t.Error(err)
		}
	}
	info, err := image.ReadHeader(v.Disk.Source)
	if err != nil || !slices.Equal(info.Snapshots, []string{"theirs", "taken", "cut"}) {
		t.Errorf("inside the file: %v, %v", info.Snapshots, err)
	}
}

// What a crash leaves of a move is put right when the pool is opened, and nothing is lost.
func TestTrashAfterACrash(t *testing.T) {
	t.Parallel()
	p, v := aClone(t)
	have, err := p.there("v", "i")
	if err != nil {
		t.Fatal(err)
	}
	have.Trash = &pooltag.TrashMark{ID: "lost", Removed: time.Now(), Expires: time.Now()}
	if err := p.writeTag(p.file(trash, "lost")+tagSuffix, *have); err != nil { // cut off before the file followed
		t.Fatal(err)
	}
	item, err := p.TrashVolume(t.Context(), "v", "i")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.sweep(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(p.file(trash, "lost") + tagSuffix); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a tag without a file is left: %v", err)
	}
	back, err := p.RestoreVolume(t.Context(), item.ID)
	if err != nil || back.Disk != v.Disk {
		t.Fatalf("restore: %+v, %v", back, err)
	}
	tool(t, "check", "-q", "-f", "qcow2", back.Disk.Source) // its backing file is found from where it is now
}
