//go:build integration

package seed

import (
	"os/exec"
	"strings"
	"testing"

	"seedbed"
	"seedbed/internal/lab"
)

// TestLabel checks that programs of Linux find the CD-ROM by its label. That a guest reads it, package e2e checks.
func TestLabel(t *testing.T) {
	dir, id := lab.Dir(t), seedbed.NewInstanceID()
	content := map[string]string{"meta-data": "instance-id: i-1", "user-data": "#cloud-config\n", "network-config": "version: 2"}
	if err := Write(dir, seedbed.Seed{ID: id, Files: files(content)}); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("blkid", "-o", "export", "-p", Path(dir, id)).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "\nLABEL=cidata\n") || !strings.Contains(string(out), "\nTYPE=iso9660\n") {
		t.Fatalf("blkid: %s %v", out, err)
	}
}
