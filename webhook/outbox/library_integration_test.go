//go:build integration

package outbox

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"seedbed"
	"seedbed/webhook/signature"
)

// library starts testdata/verify.mjs with those secrets, and gives its URL.
func library(t *testing.T, dir string, keys ...[]byte) string {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	args := []string{"verify.mjs"}
	for _, k := range keys {
		args = append(args, signature.FormatSecret(k))
	}
	cmd := exec.CommandContext(ctx, "node", args...)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); _ = cmd.Wait() }) // it was killed, which is its error
	port, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return "http://127.0.0.1:" + strings.TrimSpace(port) + "/hook"
}

// The libraries that receivers use verify what is sent: in both forms, and by either key while one
// takes over from another.
func TestLibraries(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"../testdata/senders/package.json", "../testdata/senders/package-lock.json", "testdata/verify.mjs"} {
		b, err := os.ReadFile(name)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, filepath.Base(name)), b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	install := exec.CommandContext(ctx, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	install.Dir = dir
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("npm ci: %v\n%s", err, out)
	}
	one, two, other := signature.NewSecret(), signature.NewSecret(), signature.NewSecret()
	event := event
	event.Data = []byte(`{"name":"wéb <1> \u2028 😀"}`)
	for _, test := range []struct {
		name   string
		has    [][]byte // the receiver
		signs  [][]byte // nil is a key of v1a
		status int
	}{
		{"beside v1a", [][]byte{one}, [][]byte{nil, one}, 204}, // which they know nothing of
		{"v1a alone", [][]byte{one}, [][]byte{nil}, 401},
		{"one key", [][]byte{one}, [][]byte{one}, 204},
		{"the old key of two", [][]byte{one}, [][]byte{one, two}, 204},
		{"the new key of two", [][]byte{two}, [][]byte{one, two}, 204},
		{"both keys", [][]byte{one, two}, [][]byte{one, two}, 204},
		{"another key", [][]byte{other}, [][]byte{one, two}, 401},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := endpointAt(library(t, dir, test.has...))
			e.Keys = nil
			for _, k := range test.signs {
				key := seedbed.EndpointKey{Key: k}
				if k == nil {
					key = seedbed.EndpointKey{Version: seedbed.SignV1a, Key: signature.NewSeed()}
				}
				e.Keys = append(e.Keys, key)
			}
			for _, e.CloudEvents = range []bool{false, true} {
				if r := newSender().send(t.Context(), e, event); r.status != test.status {
					t.Errorf("CloudEvents %v: %+v, want %d", e.CloudEvents, r, test.status)
				}
			}
		})
	}
}
