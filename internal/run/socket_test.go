package run

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"seedbed"
)

func itoa(n uint64) string { return strconv.FormatUint(n, 10) }

func TestSocket(t *testing.T) {
	t.Parallel()
	self, err := user.LookupGroupId(strconv.Itoa(os.Getgid()))
	if err != nil {
		t.Fatal(err)
	}
	s := Socket{Path: filepath.Join(t.TempDir(), "new", "a.sock"), Mode: 0o660, Group: self.Name}
	ln, err := s.Listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	st, err := os.Stat(s.Path)
	if err != nil {
		t.Fatal(err)
	}
	if st.Mode() != fs.ModeSocket|0o660 {
		t.Errorf("mode %v, want a socket with 0660", st.Mode())
	}
	if _, err := s.Listen(t.Context()); !errors.Is(err, seedbed.ErrInUse) {
		t.Errorf("second Listen: %v, want ErrInUse", err)
	}
	// A killed server leaves its socket behind.
	ln.(*net.UnixListener).SetUnlinkOnClose(false)
	ln.Close()
	ln, err = s.Listen(t.Context())
	if err != nil {
		t.Fatalf("Listen on a stale socket: %v", err)
	}
	ln.Close()
	if _, err := os.Stat(s.Path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after Close: %v, want the socket gone", err)
	}
}

func TestSocketRefuses(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := (Socket{Path: file, Mode: 0o600}).Listen(t.Context()); !errors.Is(err, seedbed.ErrConflict) {
		t.Errorf("Listen on a file: %v, want ErrConflict", err)
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != "x" {
		t.Errorf("the file is now %q, %v", got, err)
	}
	path := filepath.Join(t.TempDir(), "s")
	if _, err := (Socket{Path: path, Mode: 0o600, Group: "no-such-group"}).Listen(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "no-such-group") {
		t.Errorf("Listen with an unknown group: %v", err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a refused socket exists: %v", err)
	}
	for _, addr := range []string{"0.0.0.0:0", "192.0.2.1:80", "localhost:80", ""} {
		if _, err := ListenLoopback(t.Context(), addr); !errors.Is(err, seedbed.ErrInvalid) {
			t.Errorf("ListenLoopback(%q): %v, want ErrInvalid", addr, err)
		}
	}
}

func TestHealth(t *testing.T) {
	t.Parallel()
	ln, err := ListenLoopback(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	bad := make(chan bool, 1)
	h := Health{Registry: NewRegistry(), Checks: func(context.Context) []seedbed.Check {
		select {
		case <-bad:
			return []seedbed.Check{{Name: "pool", Detail: "full", Hint: "add room"}}
		default:
			return []seedbed.Check{{Name: "pool", OK: true}}
		}
	}}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- h.Serve(ctx, ln) }()
	base := "http://" + ln.Addr().String()

	status, body := get(t, base+"/healthz")
	var r Report
	if err := json.Unmarshal(body, &r); err != nil || status != 200 || !r.OK || r.Version == "" || len(r.Checks) != 1 {
		t.Errorf("healthz: %d %s %v", status, body, err)
	}
	bad <- true
	if status, body = get(t, base+"/healthz"); status != 503 || !strings.Contains(string(body), `"hint":"add room"`) {
		t.Errorf("healthz of an ill daemon: %d %s", status, body)
	}
	status, body = get(t, base+"/metrics")
	for _, want := range []string{"seedbed_build_info{version=", "go_goroutines", "process_open_fds"} {
		if status != 200 || !strings.Contains(string(body), want) {
			t.Errorf("metrics: %d without %s", status, want)
		}
	}
	if status, _ = get(t, base+"/Healthz"); status != 404 {
		t.Errorf("/Healthz: %d, want 404", status)
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Serve: %v", err)
	}
}

func TestHealthStopsBeforeItBegan(t *testing.T) {
	t.Parallel()
	ln, err := ListenLoopback(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := (Health{Registry: NewRegistry()}).Serve(ctx, ln); err != nil {
		t.Error(err)
	}
}

func get(t *testing.T, url string) (int, []byte) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, body
}
