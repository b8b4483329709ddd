//go:build integration

package dir

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"seedbed"
	"seedbed/internal/lab"
	"seedbed/provision/mapper"
	"seedbed/provision/worker"
	"seedbed/provision/worker/drivertest"
)

func TestContract(t *testing.T) {
	t.Parallel()
	maps := mappings(t)
	drivertest.TestPool(t, drivertest.PoolDriver{
		Open: func(t *testing.T) worker.Pool {
			return openWith(t, Config{Path: filepath.Join(t.TempDir(), "pool"), Mapper: maps})
		},
		Keep: func(t *testing.T, d time.Duration) worker.Pool {
			return openWith(t, Config{Path: filepath.Join(t.TempDir(), "keep"), Trash: d, Mapper: maps})
		},
		Devices: true,
		Foreign: func(t *testing.T, p worker.Pool, name string) func() bool {
			path := p.(*Pool).file(volumes, name)
			write(t, path, "a stranger's")
			return func() bool {
				b, err := os.ReadFile(path)
				return err == nil && string(b) == "a stranger's"
			}
		},
		Leftovers: func(t *testing.T, p worker.Pool) int {
			left := 0
			for _, dir := range []string{building, uploads} {
				entries, err := os.ReadDir(filepath.Join(p.(*Pool).path, dir))
				if err != nil {
					t.Fatal(err)
				}
				left += len(entries)
			}
			return left
		},
	})
}

// mappings maps volumes for a test, and takes back what is left at its end.
func mappings(t *testing.T) *mapper.Host {
	t.Helper()
	h, err := mapper.Open(mapper.Config{Dir: filepath.Join(t.TempDir(), "mappings")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(h.Sweep(context.Background()), h.Close()); err != nil {
			t.Error(err)
		}
	})
	return h
}

func TestFilesOfAClone(t *testing.T) {
	t.Parallel()
	old := filepath.Join(t.TempDir(), "pool")
	p := open(t, old)
	disk, _ := drivertest.BootableFile(t)
	if _, err := p.ImportImage(t.Context(), "job", seedbed.ImageSpec{Name: "base", Path: disk}, nil); err != nil {
		t.Fatal(err)
	}
	v, err := p.CloneVolume(t.Context(), "job", seedbed.VolumeSpec{Name: "v", Instance: "i", Image: "base", Size: 64 * seedbed.MiB})
	if err != nil {
		t.Fatal(err)
	}
	for path, mode := range map[string]os.FileMode{p.file(images, "base"): 0o644, v.Disk.Source: 0o600} {
		if st, err := os.Stat(path); err != nil || st.Mode() != mode {
			t.Errorf("%s: %v, %v; want %v", path, st.Mode(), err, mode)
		}
	}
	// The pool can be moved: the backing file is found beside it.
	moved := old + "-moved"
	if err := os.Rename(old, moved); err != nil {
		t.Fatal(err)
	}
	tool(t, "compare", "-f", "qcow2", "-F", "raw", filepath.Join(moved, volumes, "v.qcow2"), disk)
	if err := os.Rename(moved, old); err != nil {
		t.Fatal(err)
	}
}

func tool(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("qemu-img", args...).CombinedOutput(); err != nil {
		t.Fatalf("qemu-img %v: %v\n%s", args, err, out)
	}
}

// TestImportEndsAnywhere cancels an import at each of its progress reports.
func TestImportEndsAnywhere(t *testing.T) {
	t.Parallel()
	p := open(t, filepath.Join(t.TempDir(), "pool"))
	disk, _ := drivertest.BootableFile(t)
	spec := seedbed.ImageSpec{Name: "base", Path: disk}
	for at, ended := 1, false; !ended; at++ {
		if at > 1000 {
			t.Fatal("no end of the import")
		}
		ctx, cancel := context.WithCancel(t.Context())
		reports := 0
		_, err := p.ImportImage(ctx, "job", spec, func(seedbed.Progress) {
			if reports++; reports == at {
				cancel()
			}
		})
		cancel()
		if ended = err == nil; ended {
			if d := tree(t, p); len(d) != 2 {
				t.Fatalf("files of the image: %v", d)
			}
			continue
		}
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("cancelled at report %d: %v", at, err)
		}
		if left := tree(t, p); len(left) != 0 {
			t.Fatalf("cancelled at report %d, left: %v", at, left)
		}
	}
}

// small opens a pool on a file system of that size.
func small(t *testing.T, size, reserve seedbed.Bytes) *Pool {
	t.Helper()
	mount := t.TempDir()
	lab.Tmpfs(t, mount, int64(size))
	p := open(t, filepath.Join(mount, "pool"))
	p.reserve = reserve
	return p
}

func random(t *testing.T, size seedbed.Bytes) string {
	t.Helper()
	b := bytes.Repeat([]byte("0123456789abcdef"), int(size)/16)
	copy(b[510:], "\x55\xaa")
	path := filepath.Join(t.TempDir(), "disk.img")
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestFullPool(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name          string
		size, reserve seedbed.Bytes
		disk          seedbed.Bytes
		held          bool // somebody may be writing to the file
		problem       string
	}{
		{"no room for the copy", 8 * seedbed.MiB, seedbed.MiB, 16 * seedbed.MiB, true, "16.0MiB is needed in pool default"},
		{"no room for the conversion", 8 * seedbed.MiB, seedbed.MiB, 5 * seedbed.MiB, true, "and keeps a reserve of 1.0MiB"},
		{"no room without a copy", 8 * seedbed.MiB, seedbed.MiB, 16 * seedbed.MiB, false, "and keeps a reserve of 1.0MiB"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := small(t, c.size, c.reserve)
			disk := random(t, c.disk)
			if c.held {
				holdOpen(t, disk)
			}
			_, err := p.ImportImage(t.Context(), "job", seedbed.ImageSpec{Name: "base", Path: disk}, nil)
			if !errors.Is(err, seedbed.ErrFull) || !strings.Contains(err.Error(), c.problem) {
				t.Errorf("got %v; want an error with %q", err, c.problem)
			}
			if left := tree(t, p); len(left) != 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

// holdOpen has a file open for writing until the end of the test, so that it is copied.
func holdOpen(t *testing.T, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
}

// fill leaves about room free bytes in the pool, in a file that the pool does not know.
func fill(t *testing.T, p *Pool, room seedbed.Bytes) {
	t.Helper()
	_, free, err := p.space()
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(p.path, "ballast"), strings.Repeat("x", int(free-room)))
}

// TestNoSpaceInTheMiddle: the check before finds room, and then there is none.
func TestNoSpaceInTheMiddle(t *testing.T) {
	t.Parallel()
	disk := random(t, 4*seedbed.MiB)
	holdOpen(t, disk)
	for _, room := range []seedbed.Bytes{0, 4 * seedbed.KiB, 64 * seedbed.KiB, 128 * seedbed.KiB, 1 * seedbed.MiB, 6 * seedbed.MiB} {
		t.Run(room.String(), func(t *testing.T) {
			t.Parallel()
			p := small(t, 16*seedbed.MiB, -64*seedbed.MiB) // so low that need never refuses
			fill(t, p, room)
			before := tree(t, p)
			_, err := p.ImportImage(t.Context(), "job", seedbed.ImageSpec{Name: "base", Path: disk}, nil)
			if !errors.Is(err, seedbed.ErrFull) {
				t.Errorf("import: got %v", err)
			}
			clone := func() error {
				_, err := p.CloneVolume(t.Context(), "job", seedbed.VolumeSpec{Name: "v", Instance: "i", Size: 64 * seedbed.MiB})
				return err
			}
			err = clone()
			if room >= 256*seedbed.KiB && errors.Is(err, seedbed.ErrFull) {
				// The kernel frees the room of what the import has removed a moment after qemu-img
				// has ended.
				lab.Await(t, lab.Patience, "there is room again", func() bool { err = clone(); return !errors.Is(err, seedbed.ErrFull) })
			}
			if room < 256*seedbed.KiB {
				if !errors.Is(err, seedbed.ErrFull) || !strings.Contains(err.Error(), "pool default at") {
					t.Errorf("clone: got %v", err)
				}
			} else if err != nil {
				t.Errorf("clone: %v", err)
			} else if err := p.RemoveVolume(t.Context(), "v", "i"); err != nil {
				t.Error(err)
			}
			if left := tree(t, p); len(left) != len(before) {
				t.Errorf("left: %v", left)
			}
		})
	}
}
