package client

import (
	"os"
	"path/filepath"
	"testing"
)

// TestGroupOf checks that a message names the group that a socket has, and not the one of the
// packages.
func TestGroupOf(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can give a file to a group without a name")
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "control.sock")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	const group = 54321
	if err := os.Chown(path, -1, group); err != nil {
		t.Fatal(err)
	}
	if got := groupOf(path); got != "54321" {
		t.Errorf("group of the file is %s", got)
	}
	if err := os.Chown(dir, -1, 0); err != nil {
		t.Fatal(err)
	}
	if got := groupOf(filepath.Join(dir, "missing")); got != "root" {
		t.Errorf("group of the directory is %s", got)
	}
}
