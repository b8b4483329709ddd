package dir

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"seedbed"
	"seedbed/provision/pooltag"
	"seedbed/provision/worker"

	"github.com/google/go-cmp/cmp"
)

// What seedbed-worker relies on.
var (
	_ worker.Pool    = (*Pool)(nil)
	_ worker.Checker = (*Pool)(nil)
)

func open(t *testing.T, path string) *Pool {
	t.Helper()
	return openWith(t, Config{Path: path})
}

func openWith(t *testing.T, c Config) *Pool {
	t.Helper()
	c.Name, c.Reserve, c.Log = "default", seedbed.MiB, slog.New(slog.DiscardHandler)
	p, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// plant puts a file in the pool as if a tool had made it, under the pool's own tag.
func plant(t *testing.T, p *Pool, kind string, tag tag) {
	t.Helper()
	path, err := p.tempPath()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.publish(path, kind, 0o600, tag); err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// tree is every file below a pool, by its relative path.
func tree(t *testing.T, p *Pool) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(p.path, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() && d.Name() != lockFile && d.Name() != markFile {
			rel, _ := filepath.Rel(p.path, path)
			all = append(all, rel)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestOpenMakesDirectories(t *testing.T) {
	t.Parallel()
	p := open(t, filepath.Join(t.TempDir(), "pools", "default"))
	for name, mode := range map[string]os.FileMode{"..": 0o711, ".": 0o711, images: 0o711, volumes: 0o711, building: 0o700} {
		st, err := os.Stat(filepath.Join(p.path, name))
		if err != nil || st.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v; want %v", name, st.Mode(), err, mode)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pool")
	open(t, path)
	_, err := Open(Config{Name: "default", Path: path, Log: slog.New(slog.DiscardHandler)})
	if !errors.Is(err, seedbed.ErrInUse) || !strings.Contains(err.Error(), "second seedbed-worker") {
		t.Errorf("second process: %v", err)
	}
	for _, c := range []Config{{Name: "default", Path: "relative"}, {Name: "../x", Path: path}} {
		if _, err := Open(c); !errors.Is(err, seedbed.ErrInvalid) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestSweep(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pool")
	p, err := Open(Config{Name: "default", Path: path, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	plant(t, p, volumes, tag{Name: "kept", Instance: "i"})
	plant(t, p, volumes, tag{Name: "lost", Instance: "i"})
	if err := os.Remove(p.file(volumes, "lost")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"building/seedbed-1.qcow2", "building/seedbed-2.part", "building/seedbed-3.json",
		"building/notes.txt", "building/seedbed-x.txt",
		"volumes/foreign.qcow2", "images/stray.json", "images/odd.qcow2.json"} {
		write(t, filepath.Join(path, name), "{}")
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	want := []string{"building/notes.txt", "building/seedbed-x.txt", "images/odd.qcow2.json", "images/stray.json",
		"volumes/foreign.qcow2", "volumes/kept.qcow2", "volumes/kept.qcow2.json"}
	if d := cmp.Diff(want, tree(t, open(t, path))); d != "" {
		t.Error(d)
	}
}

// A crash in the middle of a move leaves the file under both names. The volume
// stays, and nothing is in the trash twice.
func TestSweepOfACutOffMove(t *testing.T) {
	t.Parallel()
	c := Config{Path: filepath.Join(t.TempDir(), "pool"), Trash: time.Hour}
	for _, at := range []string{"removal", "restore"} {
		t.Run(at, func(t *testing.T) {
			c := c
			c.Path += at
			c.Name, c.Reserve, c.Log = "default", seedbed.MiB, slog.New(slog.DiscardHandler)
			p, err := Open(c)
			if err != nil {
				t.Fatal(err)
			}
			plant(t, p, volumes, tag{Name: "v", Instance: "i"})
			plant(t, p, volumes, tag{Name: "other", Instance: "i"})
			if _, err := p.TrashVolume(t.Context(), "other", "i"); err != nil {
				t.Fatal(err)
			}
			half := tag{Name: "v", Instance: "i"}.Trashed("cut", time.Hour)
			err = errors.Join(p.writeTag(p.file(trash, "cut")+tagSuffix, half), os.Link(p.file(volumes, "v"), p.file(trash, "cut")))
			if at == "restore" {
				err = errors.Join(err, p.writeTag(p.file(volumes, "v")+tagSuffix, half))
			}
			if err = errors.Join(err, p.Close()); err != nil {
				t.Fatal(err)
			}
			p = openWith(t, c)
			items, err := p.Trash(t.Context())
			if err != nil || len(items) != 1 || items[0].Name != "other" {
				t.Errorf("trash %+v, %v", items, err)
			}
			all, err := p.Volumes(t.Context())
			if err != nil || len(all) != 1 || all[0].Name != "v" || all[0].Restored != (at == "restore") {
				t.Errorf("volumes %+v, %v", all, err)
			}
		})
	}
}

// More snapshots than the tag has room for would make a stranger's file of the volume.
func TestTooManySnapshots(t *testing.T) {
	t.Parallel()
	p := open(t, filepath.Join(t.TempDir(), "pool"))
	long := strings.Repeat("n", 60)
	full := tag{Name: long, Job: seedbed.NewJobID(), Instance: "i", Image: long, Snapshots: make([]pooltag.Snapshot, seedbed.MaxSnapshots)}
	for n := range full.Snapshots {
		full.Snapshots[n] = pooltag.Snapshot{Name: fmt.Sprintf("%s%03d", long, n), Job: seedbed.NewJobID(), Created: time.Now(), Ready: true}
	}
	plant(t, p, volumes, full)
	_, err := p.CreateSnapshot(t.Context(), seedbed.NewJobID(), seedbed.SnapshotSpec{Volume: long, Instance: "i", Name: "more"})
	if !errors.Is(err, seedbed.ErrFull) || !strings.Contains(err.Error(), "seedbed vm snapshot remove") {
		t.Error(err)
	}
	all, err := p.Snapshots(t.Context(), long, "i")
	if err != nil || len(all) != seedbed.MaxSnapshots {
		t.Errorf("%d snapshots, %v", len(all), err)
	}
}

func TestLook(t *testing.T) {
	t.Parallel()
	p := open(t, filepath.Join(t.TempDir(), "pool"))
	plant(t, p, volumes, tag{Name: "ours", Instance: "i"})
	at := func(name string) string { return filepath.Join(p.path, volumes, name) }
	write(t, at("untagged.qcow2"), "")
	for name, text := range map[string]string{"other": `{"name":"other"}`, "list": `[1]`, "renamed": `{"seedbed":1,"name":"ours"}`,
		"broken": `{"seedbed":1,`, "newer": `{"seedbed":9,"name":"newer"}`} {
		write(t, at(name+".qcow2"), "")
		write(t, at(name+".qcow2.json"), text)
	}
	write(t, at("dangling.qcow2.json"), `{"seedbed":1,"name":"dangling"}`)
	if err := os.Symlink("ours.qcow2", at("link.qcow2")); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]error{"untagged": seedbed.ErrConflict, "other": seedbed.ErrConflict, "list": seedbed.ErrConflict,
		"renamed": seedbed.ErrConflict, "link": seedbed.ErrConflict, "newer": seedbed.ErrVersion} {
		if got, err := p.look(volumes, name); got != nil || !errors.Is(err, want) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	for _, name := range []string{"dangling", "absent"} {
		if got, err := p.look(volumes, name); got != nil || err != nil {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	if got, err := p.look(volumes, "ours"); err != nil || got.Instance != "i" {
		t.Errorf("ours: %v, %v", got, err)
	}
	if _, err := p.look(volumes, "broken"); err == nil || !strings.Contains(err.Error(), "not readable") {
		t.Errorf("broken: %v", err)
	}
	if _, err := p.Volumes(t.Context()); err == nil {
		t.Error("a part of the volumes is listed")
	}
}

func TestRemoveVolumeOfAnother(t *testing.T) {
	t.Parallel()
	p := open(t, filepath.Join(t.TempDir(), "pool"))
	plant(t, p, volumes, tag{Name: "v", Instance: "i"})
	if err := p.RemoveVolume(t.Context(), "v", "j"); !errors.Is(err, seedbed.ErrConflict) {
		t.Fatal(err)
	}
	if err := p.RemoveVolume(t.Context(), "v", "i"); err != nil {
		t.Fatal(err)
	}
	if left := tree(t, p); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

func TestPublishDoesNotReplace(t *testing.T) {
	t.Parallel()
	p := open(t, filepath.Join(t.TempDir(), "pool"))
	write(t, p.file(volumes, "v"), "a stranger's")
	path, err := p.tempPath()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.publish(path, volumes, 0o600, tag{Name: "v"}); !errors.Is(err, seedbed.ErrConflict) {
		t.Fatal(err)
	}
	p.discard(path)
	if d := cmp.Diff([]string{"volumes/v.qcow2"}, tree(t, p)); d != "" {
		t.Error(d)
	}
}

func TestReserve(t *testing.T) {
	t.Parallel()
	p := open(t, filepath.Join(t.TempDir(), "pool"))
	p.reserve = seedbed.Bytes(1) << 60
	_, err := p.CloneVolume(t.Context(), "", seedbed.VolumeSpec{Name: "v", Instance: "i", Size: seedbed.GiB})
	if !errors.Is(err, seedbed.ErrFull) || !strings.Contains(err.Error(), "reserve of 1048576.0TiB") {
		t.Fatal(err)
	}
	if h := p.Health(t.Context()); h[0].OK || h[0].Hint == "" {
		t.Errorf("health: %+v", h[0])
	}
}

func TestWaitEndsWithContext(t *testing.T) {
	t.Parallel()
	p := open(t, filepath.Join(t.TempDir(), "pool"))
	if err := p.enter(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer p.leave()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := p.Volumes(ctx)
		done <- err
	}()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}
