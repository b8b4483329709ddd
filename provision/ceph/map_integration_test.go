//go:build integration && ceph

package ceph

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"seedbed"
	"seedbed/internal/lab"
	"seedbed/provision/mapper"
)

// mapping is a pool that maps volumes, with the image base and the volume v.
func mapping(t *testing.T, c *lab.CephCluster) *Pool {
	t.Helper()
	cfg := config(t, c)
	maps, err := mapper.Open(mapper.Config{Dir: filepath.Join(t.TempDir(), "mappings"), Log: cfg.Log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(maps.Sweep(context.Background()), maps.Close()); err != nil {
			t.Error(err)
		}
	})
	cfg.Mapper = maps
	p := open(t, cfg)
	base(t, p)
	v := volume("v")
	v.Size = 64 * seedbed.MiB
	if _, err := p.CloneVolume(t.Context(), "job", v); err != nil {
		t.Fatal(err)
	}
	return p
}

// TestMapFileSystem: a file system made through the device is in the volume, and a volume that a
// client has open is not mapped.
func TestMapFileSystem(t *testing.T) {
	c := shared() // the devices are the kernel's, so no other test runs beside this one
	p := mapping(t, c)
	_, leave := used(t, p)
	if _, err := p.MapVolume(t.Context(), "job", "v", "i"); !errors.Is(err, seedbed.ErrInUse) {
		t.Errorf("map what a client has open: %v", err)
	}
	leave()
	begin := time.Now()
	device, err := p.MapVolume(t.Context(), "job", "v", "i")
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("map_ms %d ms", time.Since(begin).Milliseconds())
	at := t.TempDir()
	run := func(name string, args ...string) {
		t.Helper()
		if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, out)
		}
	}
	text := bytes.Repeat([]byte("seedbed "), 1<<19)
	run("mkfs.ext4", "-q", device)
	run("mount", device, at)
	if err := os.WriteFile(filepath.Join(at, "hello"), text, 0o644); err != nil {
		t.Fatal(err)
	}
	run("umount", at)
	begin = time.Now()
	if err := p.UnmapVolume(t.Context(), "v", "i"); err != nil {
		t.Fatal(err)
	}
	t.Logf("unmap_ms %d ms", time.Since(begin).Milliseconds())
	raw := filepath.Join(t.TempDir(), "raw")
	c.RBD(t, "export", p.cfg.Pool+"/"+rbdOf(roleVolume, "v"), raw)
	run("e2fsck", "-fn", raw)
	run("mount", "-o", "loop,ro", raw, at)
	got, err := os.ReadFile(filepath.Join(at, "hello"))
	run("umount", at)
	if err != nil || !bytes.Equal(got, text) {
		t.Errorf("the file has %d bytes, %v", len(got), err)
	}
	if err := p.RemoveVolume(t.Context(), "v", "i"); err != nil {
		t.Errorf("the volume is still in use: %v", err)
	}
}

// TestMapHangs: while the cluster does not answer an unmap comes back in time,
// and works when the cluster is there again.
func TestMapHangs(t *testing.T) {
	c := lab.Ceph(t)
	p := mapping(t, c)
	device, err := p.MapVolume(t.Context(), "job", "v", "i")
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(device, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	c.Freeze(t)
	thawed := false
	defer func() {
		if !thawed {
			c.Thaw(t)
		}
	}()
	text := bytes.Repeat([]byte("late and"), 1024) // whole pages: of others the rest would be read first
	if _, err := f.WriteAt(text, 0); err != nil {  // into the page cache
		t.Fatal(err)
	}
	closed := make(chan error, 1)
	go func() { closed <- f.Close() }() // which the kernel has wait for the data
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	begin := time.Now()
	if err := p.UnmapVolume(ctx, "v", "i"); !errors.Is(err, seedbed.ErrUnavailable) && !errors.Is(err, seedbed.ErrInUse) {
		t.Errorf("unmap without the cluster: %v", err)
	}
	if took := time.Since(begin); took > inTime {
		t.Errorf("it took %s", took)
	}
	c.Thaw(t)
	thawed = true
	if err := <-closed; err != nil {
		t.Error(err)
	}
	again(t, func() error {
		err := p.UnmapVolume(t.Context(), "v", "i")
		if errors.Is(err, seedbed.ErrInUse) {
			return seedbed.ErrUnavailable
		}
		return err
	})
	raw := filepath.Join(t.TempDir(), "raw")
	c.RBD(t, "export", p.cfg.Pool+"/"+rbdOf(roleVolume, "v"), raw)
	got, err := os.ReadFile(raw)
	if err != nil || !bytes.HasPrefix(got, text) {
		t.Errorf("what was written before the end is not in the volume (%v)", err)
	}
}
