package image

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"seedbed"
	"seedbed/internal/lab"
)

// onHost is a directory of a file system that only this host writes to.
func onHost(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "seedbed-test-*")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// take opens a file and makes it private; copied reports whether that took a copy.
func take(ctx context.Context, t *testing.T, spec seedbed.ImageSpec, spool *Spool) (_ context.Context, _ *Private, copied bool) {
	t.Helper()
	src, err := OpenSource(spec, spool, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { src.Close() })
	ctx, p, err := src.Private(ctx, t.TempDir(), func(seedbed.Bytes) error {
		copied = true
		return nil
	}, func(seedbed.Progress) {})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return ctx, p, copied
}

// What somebody may be writing to is copied, and nothing else is.
func TestPrivate(t *testing.T) {
	t.Parallel()
	disk := put(5000, 510, "\x55\xaa")
	path := filepath.Join(onHost(t), "disk.img")
	if err := os.WriteFile(path, disk, 0o644); err != nil {
		t.Fatal(err)
	}
	held := filepath.Join(onHost(t), "held.img")
	writer, err := os.Create(held)
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	if _, err := writer.Write(disk); err != nil {
		t.Fatal(err)
	}
	lab.Settle(t, path)
	for name, c := range map[string]struct {
		spec   seedbed.ImageSpec
		copied bool
		sum    string
	}{
		"frozen":               {seedbed.ImageSpec{Path: path, SHA256: hexSum(disk)}, false, hexSum(disk)},
		"frozen, of no digest": {seedbed.ImageSpec{Path: path}, false, ""},
		"open for writing":     {seedbed.ImageSpec{Path: held}, true, hexSum(disk)},
		"uploaded":             {seedbed.ImageSpec{Upload: uploadName, SHA256: hexSum(disk)}, false, hexSum(disk)},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, p, copied := take(t.Context(), t, c.spec, uploaded(t, disk))
			if copied != c.copied {
				t.Errorf("copied: %v; want %v", copied, c.copied)
			}
			got, err := os.ReadFile(p.Path())
			if err != nil || string(got) != string(disk) {
				t.Errorf("%d bytes, %v; want the file's %d", len(got), err, len(disk))
			}
			if sum, err := p.Digest(func() {}); err != nil || sum != c.sum || ctx.Err() != nil {
				t.Errorf("digest %q, %v, %v; want %q", sum, err, ctx.Err(), c.sum)
			}
			if q := p.Written(100); q.Done != q.Total {
				t.Errorf("%d of %d bytes at the end", q.Done, q.Total)
			}
			if err := p.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	// It is anybody's again.
	f, err := os.OpenFile(path, os.O_WRONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
}

// Who opens a frozen file to write to it ends the import, and gets it after that.
func TestFrozenFileIsChanged(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(path string) error{
		"write": func(path string) error {
			f, err := os.OpenFile(path, os.O_RDWR, 0)
			if err != nil {
				return err
			}
			_, err = f.WriteAt([]byte("other"), 700)
			return errors.Join(err, f.Close())
		},
		"truncate": func(path string) error { return os.Truncate(path, 600) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			disk := put(5000, 510, "\x55\xaa")
			path := filepath.Join(onHost(t), "disk.img")
			if err := os.WriteFile(path, disk, 0o644); err != nil {
				t.Fatal(err)
			}
			lab.Settle(t, path)
			ctx, p, copied := take(t.Context(), t, seedbed.ImageSpec{Path: path}, nil)
			if copied {
				t.Fatal("it was copied")
			}
			changed := make(chan error, 1)
			go func() { changed <- change(path) }()
			<-ctx.Done()
			if err := Cause(ctx, io.ErrUnexpectedEOF); !errors.Is(err, seedbed.ErrInvalid) {
				t.Errorf("the import ended with %v", err)
			}
			if got, err := os.ReadFile(p.Path()); err != nil || string(got) != string(disk) {
				t.Errorf("%d bytes, %v: it was changed while it was frozen", len(got), err)
			}
			if _, err := p.Digest(func() {}); !errors.Is(err, seedbed.ErrInvalid) {
				t.Errorf("digest: %v; want that the file changed", err)
			}
			if err := p.Close(); err != nil {
				t.Error(err)
			}
			if err := <-changed; err != nil {
				t.Error(err)
			}
		})
	}
}

func TestFrozenFileOfAnotherDigest(t *testing.T) {
	t.Parallel()
	path := filepath.Join(onHost(t), "disk.img")
	if err := os.WriteFile(path, put(5000, 510, "\x55\xaa"), 0o644); err != nil {
		t.Fatal(err)
	}
	lab.Settle(t, path)
	_, p, _ := take(t.Context(), t, seedbed.ImageSpec{Path: path, SHA256: hexSum(nil)}, nil)
	if _, err := p.Digest(func() {}); !errors.Is(err, seedbed.ErrInvalid) {
		t.Errorf("got %v", err)
	}
}
