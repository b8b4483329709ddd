package image

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"seedbed"
	"seedbed/internal/ovatest"
)

func TestOpenSource(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, fifo, link := filepath.Join(dir, "file"), filepath.Join(dir, "fifo"), filepath.Join(dir, "link")
	if err := errors.Join(os.WriteFile(file, []byte("x"), 0o644), syscall.Mkfifo(fifo, 0o644), os.Symlink(file, link)); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]error{file: nil, link: nil, fifo: seedbed.ErrInvalid, dir: seedbed.ErrInvalid,
		"/dev/zero": seedbed.ErrInvalid, filepath.Join(dir, "none"): seedbed.ErrNotFound} {
		f, err := OpenSource(seedbed.ImageSpec{Path: path}, nil, nil)
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

// uploaded is a spool with that file in it.
func uploaded(t *testing.T, data []byte) *Spool {
	t.Helper()
	s := openSpool(t, roomy)
	if err := os.WriteFile(s.path(uploadName), data, 0o644); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSourceOfAnOVA(t *testing.T) {
	t.Parallel()
	content := put(2000, 510, "\x55\xaa")
	machine := ovatest.OVA{Firmware: "efi", Disks: []ovatest.Disk{{Name: "d.img", Content: content}}}
	for _, manifest := range []string{"", "SHA1", "SHA256"} {
		machine.Manifest = manifest
		data := machine.Bytes()
		path := filepath.Join(t.TempDir(), "m.ova")
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		for _, spec := range []seedbed.ImageSpec{
			{Path: path}, {Path: path, SHA256: strings.ToUpper(hexSum(data)), Format: "ova"}, {Path: path, Member: "d.img"},
			{Upload: uploadName, SHA256: hexSum(data), Member: "d.img"},
		} {
			src, err := OpenSource(spec, uploaded(t, data), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer src.Close()
			if err := src.Look(t.Context()); err != nil {
				t.Fatal(err)
			}
			if src.Firmware != seedbed.FirmwareUEFI || src.Size != 2000 {
				t.Errorf("%+v", src)
			}
			dst, err := os.Create(filepath.Join(t.TempDir(), "dst"))
			if err != nil {
				t.Fatal(err)
			}
			defer dst.Close()
			sum, err := src.Copy(t.Context(), dst, func(seedbed.Progress) {})
			if err != nil || sum != hexSum(data) {
				t.Fatalf("digest %s, %v; want that of the OVA, %s", sum, err, hexSum(data))
			}
			if got, err := os.ReadFile(dst.Name()); err != nil || !bytes.Equal(got, content) {
				t.Errorf("%d bytes, %v; want the disk", len(got), err)
			}
		}
	}
}

func TestSourceRefuses(t *testing.T) {
	t.Parallel()
	disk := put(2000, 510, "\x55\xaa")
	single := ovatest.OVA{Manifest: "SHA256", Disks: []ovatest.Disk{{Name: "d.img", Content: disk}}}
	one := single.Bytes()
	damaged := bytes.Clone(one)
	damaged[bytes.LastIndex(damaged, []byte("\x55\xaa"))+9] ^= 1
	gzipped := single
	gzipped.Disks = []ovatest.Disk{{Name: "d.img.gz", Content: []byte("\x1f\x8b\x08and so on")}}
	for name, c := range map[string]struct {
		data    []byte
		spec    seedbed.ImageSpec
		problem string
	}{
		"damaged disk":            {damaged, seedbed.ImageSpec{}, "does not match its manifest"},
		"another digest":          {one, seedbed.ImageSpec{SHA256: strings.Repeat("0", 64)}, "expected 0000"},
		"another format":          {one, seedbed.ImageSpec{Format: "qcow2"}, "is an OVA"},
		"a disk as an OVA":        {disk, seedbed.ImageSpec{Format: "ova"}, "raw format, but ova was requested"},
		"a raw disk as a qcow2":   {disk, seedbed.ImageSpec{Format: "qcow2"}, "raw format, but qcow2 was requested"},
		"gzip in it":              {gzipped.Bytes(), seedbed.ImageSpec{}, `has the disk "d.img.gz", which is a gzip file`},
		"several disks":           {machine("").Bytes(), seedbed.ImageSpec{}, "2 disks"},
		"a member of what is one": {disk, seedbed.ImageSpec{Member: "d.img"}, "no longer an OVA"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.spec.Path = filepath.Join(t.TempDir(), "file")
			if err := os.WriteFile(c.spec.Path, c.data, 0o644); err != nil {
				t.Fatal(err)
			}
			src, err := OpenSource(c.spec, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer src.Close()
			if err = src.Look(t.Context()); err == nil {
				dst, e := os.Create(filepath.Join(t.TempDir(), "dst"))
				if e != nil {
					t.Fatal(e)
				}
				defer dst.Close()
				_, err = src.Copy(t.Context(), dst, func(seedbed.Progress) {})
			}
			if !errors.Is(err, seedbed.ErrInvalid) || !strings.Contains(err.Error(), c.problem) {
				t.Errorf("got %v; want an error with %q", err, c.problem)
			}
		})
	}
}

func TestUploadThatIsGone(t *testing.T) {
	t.Parallel()
	if _, err := OpenSource(seedbed.ImageSpec{Name: "x", Upload: uploadName}, openSpool(t, roomy), nil); !errors.Is(err, seedbed.ErrInvalid) ||
		!strings.Contains(err.Error(), "upload it again") {
		t.Errorf("got %v", err)
	}
}
