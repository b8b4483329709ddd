package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"seedbed/provision/script/python"
)

const examples = "../../packaging/examples"

// TestExampleUserData holds that lint finds no fault with the documents that are installed.
func TestExampleUserData(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"cloud-config.yaml", "multipart.mime", "windows.ps1", "windows.yaml"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(filepath.Join(examples, "userdata", name))
			if err != nil {
				t.Fatal(err)
			}
			metadata := goodTree()
			metadata[ec2Root+"user-data"] = string(text)
			l := linter{fetch: metadata.fetch}
			if !strings.HasPrefix(name, "windows") { // cloudbase-init's keys are its own
				l.schema = schemaBy("cloud-init")
			}
			if err := l.lint(t.Context(), "ec2"); err != nil {
				t.Fatal(err)
			}
			if len(l.findings) != 0 {
				t.Errorf("findings: %v", l.findings)
			}
		})
	}
}

// TestExampleScripts holds that the static check says nothing of the scripts that are installed.
func TestExampleScripts(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob(examples + "/scripts/*.py")
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
