//go:build integration

package image

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"seedbed"
	"seedbed/internal/lab"
)

// target is a raw disk of that size without contents.
func target(t *testing.T, size int64) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "target.raw")
	if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, size)); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestWrite checks that a disk arrives whole and without its zeros, and that the only other program
// that has the image open is confined.
func TestWrite(t *testing.T) {
	t.Parallel()
	for _, format := range []Format{Raw, QCOW2, VMDK, VDI} {
		t.Run(string(format), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			content := bytes.Repeat([]byte("seedbed "), 8<<17)
			copy(content[510:], "\x55\xaa")
			clear(content[1<<20 : 6<<20])
			raw, src := filepath.Join(dir, "raw"), filepath.Join(dir, "src")
			if err := os.WriteFile(raw, content, 0o600); err != nil {
				t.Fatal(err)
			}
			qemuImg(t, dir, "convert", "-f", "raw", "-O", string(format), raw, src)
			var last float64
			var open []lab.Opener
			dst := target(t, int64(len(content)))
			if err := Write(t.Context(), src, format, dst, func(percent float64) {
				if last = percent; open == nil {
					open = lab.Openers(t, src)
				}
			}); err != nil {
				t.Fatal(err)
			}
			if got, err := os.ReadFile(dst); err != nil || !bytes.Equal(got, content) || last != 100 {
				t.Errorf("the disk has other contents, or progress ends at %v: %v", last, err)
			}
			var st syscall.Stat_t
			if err := syscall.Stat(dst, &st); err != nil || st.Blocks*512 > 4<<20 {
				t.Errorf("the disk takes %d bytes (%v): its zeros were written", st.Blocks*512, err)
			}
			if len(open) != 1 || !open[0].Confined() {
				t.Errorf("the image is open in %v: want one confined program", open)
			}
		})
	}
}

// TestWriteOfBroken checks that an image that cannot be read is said to be the fault, whether it is
// found so at the beginning or later.
func TestWriteOfBroken(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	raw, content := disk(t, dir)
	qemuImg(t, dir, "convert", "-c", "-f", "raw", "-O", "qcow2", raw, "packed.qcow2")
	packed, err := os.ReadFile(filepath.Join(dir, "packed.qcow2"))
	if err != nil {
		t.Fatal(err)
	}
	broken := bytes.Clone(packed)
	for i := 5 << 16; i < len(broken); i++ { // after the header: compressed data, or the table of where it is
		broken[i] ^= 0xff
	}
	for name, c := range map[string]struct {
		data    []byte
		problem string
	}{
		"no image":     {content, "Image is not in qcow2 format"},
		"broken later": {broken, "error while reading"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			src := filepath.Join(t.TempDir(), "src")
			if err := os.WriteFile(src, c.data, 0o600); err != nil {
				t.Fatal(err)
			}
			err := Write(t.Context(), src, QCOW2, target(t, int64(len(content))), nil)
			if !errors.Is(err, seedbed.ErrInvalid) || !strings.Contains(err.Error(), "cannot be read as a disk image") ||
				!strings.Contains(err.Error(), c.problem) {
				t.Errorf("%v; want %q", err, c.problem)
			}
		})
	}
}

// TestWriteEnds checks that nothing of a cancelled import goes on.
func TestWriteEnds(t *testing.T) {
	t.Parallel()
	src := filepath.Join(t.TempDir(), "src")
	noise := exec.Command("dd", "if=/dev/urandom", "of="+src, "bs=1M", "count=64", "status=none")
	if out, err := noise.CombinedOutput(); err != nil {
		t.Fatalf("dd: %v: %s", err, out)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err := Write(ctx, src, Raw, target(t, 64<<20), func(float64) { cancel() })
	if !errors.Is(err, context.Canceled) && err != nil { // it may have come to its end before
		t.Error(err)
	}
	if open := lab.Openers(t, src); len(open) > 0 {
		t.Errorf("still open in %v", open)
	}
	if err := Write(ctx, src, Raw, target(t, 64<<20), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled before it begins: %v", err)
	}
}
