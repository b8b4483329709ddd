package metadata

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestExampleUserData checks that lint finds no problems in the installed documents.
func TestExampleUserData(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"cloud-config.yaml", "multipart.mime", "windows.ps1", "windows.yaml"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(filepath.Join("../../../packaging/examples", "userdata", name))
			if err != nil {
				t.Fatal(err)
			}
			metadata := goodTree()
			metadata[ec2Root+"user-data"] = string(text)
			l := linter{fetch: metadata.fetch}
			if !strings.HasPrefix(name, "windows") { // cloudbase-init has keys of its own
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
