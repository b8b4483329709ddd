package run

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"seedbed/internal/config"
)

func TestProgram(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good, bad := file("good.yaml", "node: hv1\n"), file("bad.yaml", "nodes: hv1\n")
	tests := []struct {
		name   string
		args   []string
		fail   error
		status int
		stdout string
		stderr string
	}{
		{"runs", []string{"-config", good, "-extra", "x"}, nil, 0, "", "msg=stopped"},
		{"fails", []string{"-config", good, "-extra", "x"}, errors.New("no room"), 1, "", `err="no room"`},
		{"check", []string{"--config", good, "--check"}, nil, 0, "prog: configuration ok\n", ""},
		{"check of a bad file", []string{"--config", bad, "--check"}, nil, 1, "", "bad.yaml:1: unknown key \"nodes\""},
		{"missing file", []string{"--config", good + "x"}, nil, 1, "", "no such file"},
		{"version", []string{"--version"}, nil, 0, "prog ", ""},
		{"example", []string{"--example"}, nil, 0, "#data_dir: /var/lib/seedbed\n", ""},
		{"help", []string{"--help"}, nil, 0, "", "prog: does things\n\nUsage: prog [flags]"},
		{"wrong flag", []string{"--nonsense"}, nil, 2, "", "nonsense"},
		{"argument", []string{"now"}, nil, 2, "", `unexpected argument "now"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			var extra string
			p := Program{
				Name: "prog", Summary: "does things",
				Flags: func(fs *flag.FlagSet) { fs.StringVar(&extra, "extra", "", "an own flag") },
				Run: func(_ context.Context, c config.Config, _ *slog.Logger) error {
					if c.Node != "hv1" || extra != "x" {
						t.Errorf("Run got node %q, extra %q", c.Node, extra)
					}
					return tt.fail
				},
			}
			if got := p.Main(t.Context(), tt.args, &stdout, &stderr); got != tt.status {
				t.Errorf("status %d, want %d; stderr %s", got, tt.status, stderr.String())
			}
			if !strings.Contains(stdout.String(), tt.stdout) || !strings.Contains(stderr.String(), tt.stderr) {
				t.Errorf("stdout %q\nstderr %q\nwant %q and %q", stdout.String(), stderr.String(), tt.stdout, tt.stderr)
			}
		})
	}
}
