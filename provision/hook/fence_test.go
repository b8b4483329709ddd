package hook

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"seedbed"
)

// TestRunFence runs an agent: its options come on its standard input, and what it says of secrets is masked.
func TestRunFence(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	script := "#!/bin/sh\nin=$(cat)\necho \"$#\" \"$in\" >&2\ncase \"$in\" in *action=status*) exit 2;; esac\n"
	if err := os.WriteFile(filepath.Join(dir, "power"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	c := seedbed.FenceCall{Agent: "power", Options: map[string]string{"ip": "192.0.2.1", "a": "b"},
		Secrets: map[string]string{"password": "hush"}}
	for action, want := range map[string]int{"off": 0, "status": 2} {
		status, said, err := New(Config{Dir: dir}).RunFence(t.Context(), c, action)
		if err != nil || status != want || said != "0 action="+action+"\na=b\nip=192.0.2.1\npassword=***" {
			t.Errorf("%s: status %d, %q, %v", action, status, said, err)
		}
	}
	c.Agent = "fence_absent"
	if _, _, err := New(Config{Dir: dir}).RunFence(t.Context(), c, "off"); err == nil || strings.Contains(err.Error(), "hush") {
		t.Errorf("an agent that is not there: %v", err)
	}
}
