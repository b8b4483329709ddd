package netcfg

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestSaveLeftOut: what was written last is read, from a file alone.
func TestSaveLeftOut(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	check := func(want map[string]string) {
		t.Helper()
		got, err := ReadLeftOut(dir)
		if d := cmp.Diff(want, got); err != nil || d != "" {
			t.Errorf("%v, (-want +got):\n%s", err, d)
		}
	}
	check(nil)
	if err := SaveLeftOut(dir, map[string]error{"lab": errors.New("no uplink"), "acme/web": errors.New("unknown kind")}); err != nil {
		t.Fatal(err)
	}
	check(map[string]string{"lab": "no uplink", "acme/web": "unknown kind"})
	if err := SaveLeftOut(dir, nil); err != nil {
		t.Fatal(err)
	}
	check(map[string]string{})
	file := filepath.Join(dir, leftOutFile)
	if err := errors.Join(os.Remove(file), os.Symlink("/etc/passwd", file)); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadLeftOut(dir); err == nil {
		t.Errorf("a link is followed: %v", got)
	}
}
