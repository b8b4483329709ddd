package profile

import (
	"os"
	"path/filepath"
	"testing"

	"seedbed/provision/script/python"
)

// TestExampleScripts checks that the static check finds no problems in the installed scripts.
func TestExampleScripts(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("../../../packaging/examples/scripts/*.py")
	if err != nil {
		t.Fatal(err)
	}
	if len(paths) != 5 {
		t.Fatalf("scripts: %q", paths)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if found, err := python.Check(t.Context(), "python3", text); err != nil || len(found) != 0 {
			t.Errorf("%s: %v, %v", path, found, err)
		}
	}
}
