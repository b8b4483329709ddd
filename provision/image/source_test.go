package image

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"seedbed"
)

func TestOpenSource(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, fifo, link := filepath.Join(dir, "file"), filepath.Join(dir, "fifo"), filepath.Join(dir, "link")
	if err := errors.Join(os.WriteFile(file, []byte("x"), 0o600), syscall.Mkfifo(fifo, 0o600), os.Symlink(file, link)); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]error{file: nil, link: nil, fifo: seedbed.ErrInvalid, dir: seedbed.ErrInvalid,
		"/dev/zero": seedbed.ErrInvalid, filepath.Join(dir, "none"): seedbed.ErrNotFound} {
		f, err := OpenSource(seedbed.ImageSpec{Path: path})
		if !errors.Is(err, want) || (want == nil) != (err == nil) {
			t.Errorf("%s: got %v; want %v", path, err, want)
		}
		if f != nil {
			f.Close()
		}
	}
}

func TestCopySparse(t *testing.T) {
	t.Parallel()
	content := strings.Repeat("\x00", int(3*block)) + "end" + strings.Repeat("\x00", int(block))
	for _, c := range []struct {
		name, content string
		size          int
		want          error
	}{
		{"sparse", content, len(content), nil},
		{"whole blocks", strings.Repeat("x", 2*int(block)), 2 * int(block), nil},
		{"empty", "", 0, nil},
		{"shrinks", content[:100], 200, seedbed.ErrInvalid},
		{"grows", content, 100, seedbed.ErrInvalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dst, err := os.Create(filepath.Join(t.TempDir(), "dst"))
			if err != nil {
				t.Fatal(err)
			}
			defer dst.Close()
			_, err = copySparse(t.Context(), dst, strings.NewReader(c.content), seedbed.Bytes(c.size), func(seedbed.Bytes) {})
			if !errors.Is(err, c.want) || (c.want == nil) != (err == nil) {
				t.Fatalf("got %v; want %v", err, c.want)
			}
			if err != nil {
				return
			}
			got, err := io.ReadAll(dst)
			if err != nil || string(got) != c.content {
				t.Errorf("%d bytes, %v; want the %d of the source", len(got), err, len(c.content))
			}
		})
	}
}
