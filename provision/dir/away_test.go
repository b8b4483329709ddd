package dir

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"seedbed"
)

// TestAway checks that a pool whose file system is unmounted under the worker is unavailable and not
// empty: nothing counts as removed, nothing is made below the mount point, and all is there again
// with the file system.
func TestAway(t *testing.T) {
	t.Parallel()
	const id = seedbed.InstanceID("ec200000-0000-4000-8000-000000000001")
	path := filepath.Join(t.TempDir(), "pool")
	p := open(t, path)
	plant(t, p, volumes, tag{Name: "web_sda", Instance: id, Job: "11111111-1111-4111-8111-111111111111", Size: 1 << 20})

	for name, below := range map[string][]string{
		"nothing": nil, "an empty directory": {""}, "another pool": {images, volumes, building, trash},
	} {
		if err := os.Rename(path, path+".away"); err != nil {
			t.Fatal(err)
		}
		for _, d := range below {
			if err := os.MkdirAll(filepath.Join(path, d), 0o711); err != nil {
				t.Fatal(err)
			}
		}
		_, errVolumes := p.Volumes(t.Context())
		_, errImages := p.Images(t.Context())
		_, errInfo := p.Info(t.Context())
		_, errLook := p.look(volumes, "web_sda")
		_, errClone := p.CloneVolume(t.Context(), "11111111-1111-4111-8111-111111111111",
			seedbed.VolumeSpec{Name: "db_sda", Instance: id, Size: 1 << 20})
		for what, err := range map[string]error{
			"remove": p.RemoveVolume(t.Context(), "web_sda", id), "volumes": errVolumes, "images": errImages, "info": errInfo,
			"look": errLook, "clone": errClone, "purge": p.PurgeVolume(t.Context(), "x", true), "need": p.need(0),
		} {
			if !errors.Is(err, seedbed.ErrUnavailable) {
				t.Errorf("%s in its place: %s: %v, want ErrUnavailable", name, what, err)
			}
		}
		if c := p.Health(t.Context())[0]; c.OK || c.Hint == "" {
			t.Errorf("%s in its place: health %+v", name, c)
		}
		if err := errors.Join(os.RemoveAll(path), os.Rename(path+".away", path)); err != nil {
			t.Fatal(err)
		}
	}
	if all, err := p.Volumes(t.Context()); err != nil || len(all) != 1 || all[0].Name != "web_sda" {
		t.Errorf("with its file system the pool has %v (%v), want the volume", all, err)
	}
}

// TestAwayAtStart checks that a pool whose file system is not mounted when the worker starts is
// unavailable, that nothing is made in the mount point, and that a pool that is new or was moved is
// made.
func TestAwayAtStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, moved, known := filepath.Join(dir, "pool"), filepath.Join(dir, "moved"), filepath.Join(dir, "known", "default")
	// opened returns what the pool says of its room.
	opened := func(path string) error {
		t.Helper()
		p, err := Open(Config{Name: "default", Path: path, Known: known, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatalf("a pool that is away keeps the worker from starting: %v", err)
		}
		_, err = p.Info(t.Context())
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		return err
	}
	for range 2 { // the second time it is known
		if err := opened(path); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Rename(path, path+".away"); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(dir, "other")
	p, err := Open(Config{Name: "other", Path: other, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	for name, in := range map[string]func() error{
		"nothing":            func() error { return nil },
		"an empty directory": func() error { return os.Mkdir(path, 0o755) },
		"another pool":       func() error { return os.Rename(other, path) },
		"an unreadable mark": func() error { return os.MkdirAll(filepath.Join(path, markFile), 0o755) },
	} {
		if err := in(); err != nil {
			t.Fatal(err)
		}
		before, _ := filepath.Glob(filepath.Join(path, "*"))
		if err := opened(path); !errors.Is(err, seedbed.ErrUnavailable) || !strings.Contains(err.Error(), known) {
			t.Errorf("%s in its place: %v, want ErrUnavailable with what to remove", name, err)
		}
		if after, _ := filepath.Glob(filepath.Join(path, "*")); len(after) != len(before) {
			t.Errorf("%s in its place: %v was made in %v", name, after, before)
		}
		if name == "another pool" {
			err = os.Rename(path, other)
		} else {
			err = os.RemoveAll(path)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Rename(path+".away", path); err != nil {
		t.Fatal(err)
	}
	if err := opened(path); err != nil {
		t.Errorf("with its file system: %v", err)
	}
	if err := opened(moved); err != nil {
		t.Errorf("at another path: %v", err)
	}
	if err := os.RemoveAll(moved); err != nil {
		t.Fatal(err)
	}
	if err := opened(moved); !errors.Is(err, seedbed.ErrUnavailable) {
		t.Errorf("the moved one is away: %v", err)
	}
	if err := errors.Join(os.Remove(known), opened(moved)); err != nil {
		t.Errorf("after it was forgotten: %v", err)
	}
}

// TestBackAfterStart checks that a pool that was away when the worker started is used once it is
// there, by whatever call comes first, with its lock, its uploads and its sweep.
func TestBackAfterStart(t *testing.T) {
	t.Parallel()
	const id = "upload0123456789"
	for name, c := range map[string]struct {
		call func(*Pool) error
		want error // while the pool is away
	}{
		"info":        {func(p *Pool) error { _, err := p.Info(t.Context()); return err }, seedbed.ErrUnavailable},
		"volumes":     {func(p *Pool) error { _, err := p.Volumes(t.Context()); return err }, seedbed.ErrUnavailable},
		"drop upload": {func(p *Pool) error { return p.DropUpload(t.Context(), id) }, seedbed.ErrUnavailable},
		"upload": {func(p *Pool) error {
			_, err := p.ReceiveUpload(t.Context(), seedbed.UploadSpec{ID: id}, strings.NewReader(strings.Repeat("\x00", 510)+"\x55\xaa"))
			return err
		}, seedbed.ErrUnavailable},
		"locate": {func(p *Pool) error {
			_, err := p.Locate(t.Context(), seedbed.ForeignDisk{Type: "file", Source: p.path + "/none"})
			if errors.Is(err, seedbed.ErrNotFound) {
				err = nil
			}
			return err
		}, seedbed.ErrUnavailable},
		"health": {func(p *Pool) error {
			if check := p.Health(t.Context())[0]; !check.OK {
				return errors.New(check.Detail)
			}
			return nil
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			config := Config{Name: "default", Path: filepath.Join(dir, "pool"), Known: filepath.Join(dir, "known"), Reserve: 1,
				Log: slog.New(slog.DiscardHandler)}
			p, err := Open(config)
			if err != nil {
				t.Fatal(err)
			}
			left, err := p.tempPath() // as a crash leaves it
			if err := errors.Join(err, p.Close(), os.Rename(config.Path, config.Path+".away"), os.Mkdir(config.Path, 0o755)); err != nil {
				t.Fatal(err)
			}
			if p, err = Open(config); err != nil {
				t.Fatal(err)
			}
			if err := c.call(p); err == nil || c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("while it is away: %v", err)
			}
			if err := errors.Join(os.Remove(config.Path), os.Rename(config.Path+".away", config.Path)); err != nil { // it is still empty
				t.Fatal(err)
			}
			if err := c.call(p); err != nil {
				t.Errorf("when it is there again: %v", err)
			}
			if _, err := os.Stat(left); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("it is not swept: %v", err)
			}
			if _, err := Open(config); !errors.Is(err, seedbed.ErrInUse) {
				t.Errorf("it is not locked: %v", err)
			}
			if err := p.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
