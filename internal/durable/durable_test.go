package durable

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A file is replaced with its mode. A write that fails leaves what was there, and nothing else.
func TestWrite(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "token")
	there := func(want string, mode os.FileMode) {
		t.Helper()
		text, err := os.ReadFile(path)
		if err != nil || string(text) != want {
			t.Errorf("%q, %v; want %q", text, err, want)
		}
		if st, err := os.Stat(path); err != nil || st.Mode() != mode {
			t.Errorf("mode %v, %v; want %v", st.Mode(), err, mode)
		}
		entries, err := os.ReadDir(dir)
		if diff := cmp.Diff([]string{"token"}, names(entries)); err != nil || diff != "" {
			t.Errorf("%v, files (-want +got):\n%s", err, diff)
		}
	}
	if err := WriteFile(path, []byte("first"), 0o600); err != nil {
		t.Fatal(err)
	}
	there("first", 0o600)
	if err := WriteFile(path, []byte("second"), 0o644); err != nil {
		t.Fatal(err)
	}
	there("second", 0o644)
	broken := errors.New("broken")
	err := Write(path, 0o600, func(w io.Writer) error {
		_, err := w.Write([]byte("thi"))
		return errors.Join(err, broken)
	})
	if !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
	there("second", 0o644)
	if err := WriteFile(filepath.Join(dir, "none", "token"), nil, 0o600); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("in a directory that is missing: %v", err)
	}
}

func names(entries []os.DirEntry) (all []string) {
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}
