package seed

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/diskfs/go-diskfs/backend/file"
	"github.com/diskfs/go-diskfs/filesystem/iso9660"
	"github.com/google/go-cmp/cmp"

	"seedbed"
)

func files(named map[string]string) (all []seedbed.SeedFile) {
	for _, name := range seedbed.SeedFiles() {
		if text, ok := named[name]; ok {
			all = append(all, seedbed.SeedFile{Name: name, Data: []byte(text)})
		}
	}
	return all
}

// TestWrite checks that a CD-ROM has the files, that it is made again with others, that only root reads it, and that nothing
// else stays in the directory.
func TestWrite(t *testing.T) {
	t.Parallel()
	dir, id := filepath.Join(t.TempDir(), "cdrom"), seedbed.NewInstanceID()
	if err := Open(dir); err != nil {
		t.Fatal(err)
	}
	for _, want := range []map[string]string{
		{"meta-data": "instance-id: i-1", "user-data": "#cloud-config\n", "vendor-data": "x", "network-config": "version: 2\n"},
		{"meta-data": "instance-id: i-1", "user-data": ""},
	} {
		if err := Write(dir, seedbed.Seed{ID: id, Files: files(want)}); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(Path(dir, id))
		if err != nil || info.Mode() != 0o600 {
			t.Fatalf("the CD-ROM has the mode %v, %v", info.Mode(), err)
		}
		if diff := cmp.Diff(want, read(t, Path(dir, id))); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
	for range 2 {
		if err := Remove(dir, id); err != nil {
			t.Fatal(err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("the directory has %v, %v", left, err)
	}
}

// TestSweep checks that Open removes what a Write that was cut short has left, and nothing else.
func TestSweep(t *testing.T) {
	t.Parallel()
	dir, id := t.TempDir(), seedbed.NewInstanceID()
	iso := string(id) + ".iso"
	want := []string{".making-", ".making-up", ".web1.iso.12", "." + iso, "." + iso + ".tmp", iso, "12"}
	for _, name := range append([]string{"." + iso + ".4711"}, want...) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("secret"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	work, err := os.MkdirTemp(dir, making)
	if err != nil {
		t.Fatal(err)
	}
	if err := build(work, seedbed.Seed{ID: id, Files: files(map[string]string{"user-data": "secret"})}); err != nil {
		t.Fatal(err)
	}
	if err := Open(dir); err != nil {
		t.Fatal(err)
	}
	all, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, entry := range all {
		got = append(got, entry.Name())
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func read(t *testing.T, path string) map[string]string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	image, err := iso9660.Read(file.New(f, true), 0, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	all, err := image.ReadDir(".")
	if err != nil || image.Label() != label {
		t.Fatalf("label %q, %v", image.Label(), err)
	}
	got := map[string]string{}
	for _, entry := range all {
		b, err := fs.ReadFile(image, entry.Name())
		if err != nil {
			t.Fatal(err)
		}
		got[entry.Name()] = string(b)
	}
	return got
}

func TestRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, err := range map[string]error{
		"directory": Open("cdrom"),
		"name":      Write(dir, seedbed.Seed{ID: "i", Files: []seedbed.SeedFile{{Name: "../user-data"}}}),
		"size":      Write(dir, seedbed.Seed{ID: "i", Files: []seedbed.SeedFile{{Name: "user-data", Data: make([]byte, seedbed.MaxSeed+1)}}}),
	} {
		if !errors.Is(err, seedbed.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
