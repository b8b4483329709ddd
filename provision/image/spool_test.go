package image

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"seedbed"
	"seedbed/internal/ovatest"
)

const uploadName = "ABCDEFGHIJKLMNOP"

func roomy(seedbed.Bytes) error { return nil }

func openSpool(t *testing.T, need func(seedbed.Bytes) error) *Spool {
	t.Helper()
	s, err := OpenSpool(filepath.Join(t.TempDir(), "uploads"), need, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// left are the names in the spool.
func (s *Spool) left(t *testing.T) string {
	t.Helper()
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}

func hexSum(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func TestReceive(t *testing.T) {
	t.Parallel()
	disk := put(int(3*block), 510, "\x55\xaa")
	disk[2*block+5] = 7
	ova := machine("SHA256").Bytes()
	for _, c := range []struct {
		name  string
		data  []byte
		size  seedbed.Bytes
		disks int
	}{
		{"a disk whose size is known", disk, seedbed.Bytes(len(disk)), 0},
		{"one that just comes", disk, 0, 0},
		{"an OVA", ova, 0, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := openSpool(t, roomy)
			up, err := s.Receive(t.Context(), seedbed.UploadSpec{Pool: "p", ID: uploadName, Size: c.size, SHA256: strings.ToUpper(hexSum(c.data))},
				iotest.HalfReader(bytes.NewReader(c.data)))
			if err != nil {
				t.Fatal(err)
			}
			if up.Pool != "p" || up.ID != uploadName || up.Size != seedbed.Bytes(len(c.data)) || up.SHA256 != hexSum(c.data) {
				t.Errorf("got %+v", up)
			}
			if (up.Appliance != nil) != (c.disks > 0) || c.disks > 0 && len(up.Appliance.Disks) != c.disks {
				t.Errorf("appliance %+v", up.Appliance)
			}
			got, err := os.ReadFile(s.path(uploadName))
			if err != nil || !bytes.Equal(got, c.data) {
				t.Errorf("%d bytes are there, %v; want the %d that came", len(got), err, len(c.data))
			}
			if st, err := os.Stat(s.path(uploadName)); err != nil || st.Mode().Perm() != 0o600 {
				t.Errorf("mode %v, %v", st.Mode(), err)
			}
			if _, err := s.Receive(t.Context(), seedbed.UploadSpec{ID: uploadName}, bytes.NewReader(c.data)); !errors.Is(err, seedbed.ErrExists) {
				t.Errorf("a second of that ID: %v", err)
			}
			if err := errors.Join(s.Drop(uploadName), s.Drop(uploadName)); err != nil || s.left(t) != "" {
				t.Errorf("dropped twice: %v, left %q", err, s.left(t))
			}
		})
	}
}

func TestReceiveLeavesNothing(t *testing.T) {
	t.Parallel()
	disk := put(int(block)+100, 510, "\x55\xaa")
	broken := errors.New("the line broke")
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	bomb := bytes.Repeat([]byte{0}, 1000)
	copy(bomb, "\x1f\x8b")
	full := func(seedbed.Bytes) error { return seedbed.Errorf(seedbed.ErrFull, "no room") }
	for name, c := range map[string]struct {
		ctx     context.Context
		spec    seedbed.UploadSpec
		body    io.Reader
		need    func(seedbed.Bytes) error
		want    error
		problem string
	}{
		"breaks off": {spec: seedbed.UploadSpec{}, body: io.MultiReader(bytes.NewReader(disk), iotest.ErrReader(broken)),
			want: broken},
		"breaks off unexpected": {spec: seedbed.UploadSpec{},
			body: io.MultiReader(bytes.NewReader(disk), iotest.ErrReader(io.ErrUnexpectedEOF)), want: io.ErrUnexpectedEOF},
		"cancelled": {ctx: ended, spec: seedbed.UploadSpec{}, body: bytes.NewReader(disk), want: context.Canceled},
		"shorter than said": {spec: seedbed.UploadSpec{Size: seedbed.Bytes(len(disk)) + 1}, body: bytes.NewReader(disk),
			want: seedbed.ErrInvalid, problem: "it is incomplete"},
		"longer than said": {spec: seedbed.UploadSpec{Size: 100}, body: bytes.NewReader(disk), want: seedbed.ErrInvalid,
			problem: "it is incomplete"},
		"another digest": {spec: seedbed.UploadSpec{SHA256: strings.Repeat("0", 64)}, body: bytes.NewReader(disk),
			want: seedbed.ErrInvalid, problem: "expected 0000"},
		"no digest": {spec: seedbed.UploadSpec{SHA256: "xyz"}, body: bytes.NewReader(disk), want: seedbed.ErrInvalid,
			problem: "64 hexadecimal"},
		"no room":     {spec: seedbed.UploadSpec{}, body: bytes.NewReader(disk), need: full, want: seedbed.ErrFull},
		"a gzip file": {spec: seedbed.UploadSpec{}, body: bytes.NewReader(bomb), want: seedbed.ErrInvalid, problem: "gzip"},
		"nothing":     {spec: seedbed.UploadSpec{}, body: strings.NewReader(""), want: seedbed.ErrInvalid, problem: "empty"},
		"a tar that climbs": {spec: seedbed.UploadSpec{},
			body: bytes.NewReader(ovatest.Tar(ovatest.File{Name: "../../etc/passwd"})), want: seedbed.ErrInvalid, problem: "plain names"},
		"an ID that climbs": {spec: seedbed.UploadSpec{ID: "../../../../etc/passwd"}, body: bytes.NewReader(disk),
			want: seedbed.ErrInvalid, problem: "ID of an upload"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.ctx == nil {
				c.ctx = t.Context()
			}
			if c.need == nil {
				c.need = roomy
			}
			if c.spec.ID == "" {
				c.spec.ID = uploadName
			}
			s := openSpool(t, c.need)
			_, err := s.Receive(c.ctx, c.spec, c.body)
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.problem) {
				t.Errorf("got %v; want %v with %q", err, c.want, c.problem)
			}
			if left := s.left(t); left != "" {
				t.Errorf("left %q", left)
			}
		})
	}
}

func TestSpoolIsSwept(t *testing.T) {
	t.Parallel()
	s := openSpool(t, roomy)
	old, fresh, unfinished := strings.Repeat("o", 20), strings.Repeat("f", 20), strings.Repeat("u", 20)+partSuffix
	for _, name := range []string{old, fresh, unfinished, "stranger.txt"} {
		if err := os.WriteFile(filepath.Join(s.dir, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	past := time.Now().Add(-2 * uploadKept)
	if err := os.Chtimes(s.path(old), past, past); err != nil {
		t.Fatal(err)
	}
	if err := s.sweep(false); err != nil || s.left(t) != strings.Join([]string{fresh, "stranger.txt", unfinished}, " ") {
		t.Errorf("while it runs: %v, left %q", err, s.left(t))
	}
	if _, err := OpenSpool(s.dir, roomy, slog.New(slog.DiscardHandler)); err != nil || s.left(t) != fresh+" stranger.txt" {
		t.Errorf("at the start: %v, left %q", err, s.left(t))
	}
}

func TestSpoolOfAnother(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open, link := filepath.Join(dir, "open"), filepath.Join(dir, "link")
	if err := errors.Join(os.Mkdir(open, 0o700), os.Chmod(open, 0o777), os.Symlink(dir, link)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{open, link} {
		if _, err := OpenSpool(path, roomy, slog.New(slog.DiscardHandler)); !errors.Is(err, seedbed.ErrConflict) {
			t.Errorf("%s: %v", path, err)
		}
	}
}
