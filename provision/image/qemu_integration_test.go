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
	"testing"

	"seedbed"
)

// qemuImg runs the tool directly, in a directory of the test's.
func qemuImg(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.Command(Tool, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("qemu-img %v: %v\n%s", args, err, out)
	}
}

// disk is a raw image with a boot signature and some data.
func disk(t *testing.T, dir string) (path string, content []byte) {
	t.Helper()
	content = put(8<<20, 510, "\x55\xaa")
	copy(content[2<<20:], bytes.Repeat([]byte("seedbed "), 1<<15))
	path = filepath.Join(dir, "disk.raw")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path, content
}

func TestConvertAndInspect(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		format  Format
		options string
	}{
		{"raw", Raw, ""},
		{"qcow2", QCOW2, "compat=1.1"},
		{"qcow2 of version 2", QCOW2, "compat=0.10"},
		{"vmdk", VMDK, "subformat=monolithicSparse"},
		{"vmdk for streaming", VMDK, "subformat=streamOptimized"},
		{"vdi", VDI, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir, ctx := t.TempDir(), t.Context()
			raw, content := disk(t, dir)
			src := filepath.Join(dir, "src")
			args := []string{"convert", "-f", "raw", "-O", string(c.format)}
			if c.options != "" {
				args = append(args, "-o", c.options)
			}
			qemuImg(t, dir, append(args, raw, src)...)

			info, err := Inspect(ctx, src)
			if err != nil || info.Format != c.format || info.Size != seedbed.Bytes(len(content)) {
				t.Fatalf("Inspect: %+v, %v", info, err)
			}
			need, err := Measure(ctx, src, info.Format)
			if err != nil {
				t.Fatal(err)
			}
			var last float64
			dst := filepath.Join(dir, "dst.qcow2")
			if err := Convert(ctx, src, info.Format, dst, need, func(v float64) { last = v }); err != nil {
				t.Fatal(err)
			}
			if last != 100 {
				t.Errorf("progress ends at %v", last)
			}
			back := filepath.Join(dir, "back.raw")
			qemuImg(t, dir, "convert", "-f", "qcow2", "-O", "raw", dst, back)
			got, err := os.ReadFile(back)
			if err != nil || !bytes.Equal(got, content) {
				t.Errorf("the disk has other content: %v", err)
			}
		})
	}
}

func TestInspectRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	raw, content := disk(t, dir)
	qemuImg(t, dir, "convert", "-f", "raw", "-O", "qcow2", raw, "base.qcow2")
	qemuImg(t, dir, "create", "-q", "-f", "qcow2", "-b", "base.qcow2", "-F", "qcow2", "backed.qcow2")
	qemuImg(t, dir, "create", "-q", "-f", "qcow2", "-o", "data_file=other.raw", "data.qcow2", "1M")
	qemuImg(t, dir, "create", "-q", "-f", "vmdk", "-o", "subformat=monolithicFlat", "flat.vmdk", "1M")
	qemuImg(t, dir, "create", "-q", "-f", "vmdk", "-o", "subformat=monolithicSparse", "sparse.vmdk", "1M")
	qemuImg(t, dir, "create", "-q", "-f", "vhdx", "disk.vhdx", "8M")
	qemuImg(t, dir, "create", "-q", "-f", "qcow2", "nothing.qcow2", "0")
	// Not LUKS: making it times the processor, and gives up now and then on a busy one.
	qemuImg(t, dir, "create", "-q", "--object", "secret,id=s,data=0123456789abcdef", "-f", "qcow2", "-o",
		"encrypt.format=aes,encrypt.key-secret=s", "crypt.qcow2", "1M")
	base, err := os.ReadFile(filepath.Join(dir, "base.qcow2"))
	if err != nil {
		t.Fatal(err)
	}
	sparse, err := os.ReadFile(filepath.Join(dir, "sparse.vmdk"))
	if err != nil {
		t.Fatal(err)
	}
	parent := bytes.Replace(sparse, []byte("parentCID=ffffffff"), []byte("parentCID=00000001\nparentFileNameHint=\"/etc/passwd\"\n"), 1)
	for name, data := range map[string][]byte{
		"head.qcow2":    base[:200],
		"half.qcow2":    base[:len(base)/2],
		"half.vmdk":     half(t, dir, raw, VMDK),
		"half.vdi":      half(t, dir, raw, VDI),
		"garbage.qcow2": append(bytes.Clone(base[:104]), bytes.Repeat([]byte{0xa5}, 70000)...),
		"parent.vmdk":   parent[:len(sparse)],
		"hello.txt":     []byte("hello\n"),
		"disk.raw.gz":   append([]byte("\x1f\x8b\x08"), content[:1000]...),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, problem := range map[string]string{
		"backed.qcow2":  "backing file",
		"data.qcow2":    "data file",
		"flat.vmdk":     "other files",
		"parent.vmdk":   "another file (\"/etc/passwd\")",
		"disk.vhdx":     "vhdx",
		"nothing.qcow2": "without a size",
		"crypt.qcow2":   "encrypted",
		"head.qcow2":    "damaged or truncated",
		"half.qcow2":    "damaged or truncated",
		"half.vmdk":     "damaged or truncated",
		"half.vdi":      "truncated",
		"garbage.qcow2": "cannot be read as a disk image",
		"hello.txt":     "text",
		"disk.raw.gz":   "gzip",
	} {
		_, err := Inspect(t.Context(), filepath.Join(dir, name))
		if !errors.Is(err, seedbed.ErrInvalid) || !strings.Contains(err.Error(), problem) {
			t.Errorf("%s: got %v; want an error with %q", name, err, problem)
		}
	}
}

// half is the first half of the disk in that format.
func half(t *testing.T, dir, raw string, format Format) []byte {
	t.Helper()
	path := filepath.Join(dir, "whole."+string(format))
	qemuImg(t, dir, "convert", "-f", "raw", "-O", string(format), raw, path)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data[:len(data)/2]
}

func TestConvertEndsWithContext(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	raw, _ := disk(t, dir)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := Convert(ctx, raw, Raw, filepath.Join(dir, "x"), 8*seedbed.MiB, nil)
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

// TestConvertIsBounded: a result that is larger than it was measured is not written.
func TestConvertIsBounded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	content := bytes.Repeat([]byte("\x5a"), 16<<20)
	copy(content[510:], "\x55\xaa")
	raw := filepath.Join(dir, "full.raw")
	if err := os.WriteFile(raw, content, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Convert(t.Context(), raw, Raw, filepath.Join(dir, "x"), 64*seedbed.KiB, nil); err == nil {
		t.Fatal("16 MiB were written, with 64 KiB measured")
	}
}

func TestCreate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	raw, _ := disk(t, dir)
	qemuImg(t, dir, "convert", "-f", "raw", "-O", "qcow2", raw, "base.qcow2")
	clone := filepath.Join(dir, "clone.qcow2")
	if err := Create(t.Context(), clone, "base.qcow2", 32*seedbed.MiB); err != nil {
		t.Fatal(err)
	}
	qemuImg(t, dir, "compare", "-f", "qcow2", "-F", "raw", clone, raw)
	blank := filepath.Join(dir, "blank.qcow2")
	if err := Create(t.Context(), blank, "", 32*seedbed.MiB); err != nil {
		t.Fatal(err)
	}
	if info, err := Inspect(t.Context(), blank); err != nil || info.Size != 32*seedbed.MiB {
		t.Fatalf("%+v, %v", info, err)
	}
}
