package run

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"seedbed/internal/config"
)

// TestProfile is not parallel: a process has one profiler.
func TestProfile(t *testing.T) {
	dir := t.TempDir()
	configuration := filepath.Join(dir, "seedbed.yaml")
	if err := os.WriteFile(configuration, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, file string
		fail       error
		status     int
		stderr     string
	}{
		{"written", filepath.Join(dir, "cpu"), nil, 0, "msg=stopped"},
		{"written over, after a failure", filepath.Join(dir, "cpu"), errors.New("no room"), 1, `err="no room"`},
		{"nowhere to write", filepath.Join(dir, "none", "cpu"), nil, 1, "CPU profile: open"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out, stderr bytes.Buffer
			p := Program{Name: "prog", Run: func(context.Context, config.Config, *slog.Logger) error { return c.fail }}
			status := p.Main(t.Context(), []string{"-config", configuration, "-cpuprofile", c.file}, &out, &stderr)
			if status != c.status || !strings.Contains(stderr.String(), c.stderr) {
				t.Fatalf("status %d, want %d; stderr %s", status, c.status, stderr.String())
			}
			if strings.HasPrefix(c.stderr, "CPU profile") {
				return
			}
			b, err := os.ReadFile(c.file)
			if err != nil || !bytes.HasPrefix(b, []byte{0x1f, 0x8b}) { // pprof's format is gzip
				t.Errorf("profile of %d bytes, %v", len(b), err)
			}
			if info, err := os.Stat(c.file); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("mode %v, %v", info.Mode(), err)
			}
		})
	}
}
