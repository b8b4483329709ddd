//go:build integration

package dir

import (
	"errors"
	"os/exec"
	"path/filepath"
	"testing"

	"seedbed"
	"seedbed/internal/lab"
	"seedbed/provision/image"
)

// A volume that grows keeps what is in it; what a domain has made larger itself,
// or a crash has left larger, is only written down.
func TestResizeFile(t *testing.T) {
	t.Parallel()
	p, v := aClone(t)
	raw := func(name string) string {
		path := filepath.Join(t.TempDir(), name)
		tool(t, "convert", "-f", "qcow2", "-O", "raw", v.Disk.Source, path)
		tool(t, "resize", "-q", "-f", "raw", "--shrink", path, "64M")
		return path
	}
	if out, err := exec.Command("qemu-io", "-f", "qcow2", "-c", "write -P 0xab 1M 512k", "-c", "write -P 0xcd 63M 1M",
		v.Disk.Source).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	before := raw("before")
	size := func() seedbed.Bytes {
		t.Helper()
		info, err := image.ReadHeader(v.Disk.Source)
		if err != nil {
			t.Fatal(err)
		}
		return info.Size
	}
	if got, err := p.ResizeVolume(t.Context(), "v", "i", 128*seedbed.MiB); err != nil || got.Size != 128*seedbed.MiB ||
		size() != 128*seedbed.MiB {
		t.Fatalf("%+v, %v; the file has %s", got, err, size())
	}
	tool(t, "compare", "-f", "raw", "-F", "raw", before, raw("after"))

	tool(t, "resize", "-q", "-f", "qcow2", v.Disk.Source, "256M")
	if _, err := p.ResizeVolume(t.Context(), "v", "i", 192*seedbed.MiB); !errors.Is(err, seedbed.ErrInvalid) || size() != 256*seedbed.MiB {
		t.Errorf("below what the file has: %v; it has %s", err, size())
	}
	if got, err := p.ResizeVolume(t.Context(), "v", "i", 256*seedbed.MiB); err != nil || got.Size != 256*seedbed.MiB {
		t.Errorf("%+v, %v", got, err)
	}
}

// A file that a process has open, as a domain has, is not resized behind its back.
func TestResizeInUse(t *testing.T) {
	t.Parallel()
	p, v := aClone(t)
	release := lab.HoldOpen(t, v.Disk.Source)
	if _, err := p.ResizeVolume(t.Context(), "v", "i", 128*seedbed.MiB); !errors.Is(err, seedbed.ErrInUse) {
		t.Errorf("while it is open: %v", err)
	}
	if now, err := p.Volume(t.Context(), "v", "i"); err != nil || now != v {
		t.Errorf("volume %+v, %v; want %+v", now, err, v)
	}
	release()
	if _, err := p.ResizeVolume(t.Context(), "v", "i", 128*seedbed.MiB); err != nil {
		t.Error(err)
	}
}
