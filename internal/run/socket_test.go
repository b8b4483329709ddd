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
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

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
	dead := ln.(*listener)
	dead.stop()
	<-dead.ended
	dead.now.Close()
	ln, err = s.Listen(t.Context())
	if err != nil {
		t.Fatalf("Listen on a stale socket: %v", err)
	}
	ln.Close()
	if _, err := os.Stat(s.Path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after Close: %v, want the socket gone", err)
	}
}

// TestSocketRemoved checks that a socket that another program removes is made again, as often as it
// is, with the same mode, and that a server that is accepting serves it.
func TestSocketRemoved(t *testing.T) {
	t.Parallel()
	s := Socket{Path: filepath.Join(t.TempDir(), "a.sock"), Mode: 0o660, look: time.Millisecond}
	ln, err := s.Listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	accepted := make(chan error)
	go func() {
		for {
			conn, err := ln.Accept()
			accepted <- err
			if err != nil {
				return
			}
			conn.Close()
		}
	}()
	for range 3 {
		if err := os.Remove(s.Path); err != nil {
			t.Fatal(err)
		}
		var st fs.FileInfo
		for end := time.Now().Add(time.Minute); st == nil && time.Now().Before(end); {
			st, _ = os.Lstat(s.Path)
		}
		if st == nil || st.Mode() != fs.ModeSocket|0o660 {
			t.Fatalf("a minute after its removal: %v", st)
		}
		conn, err := net.Dial("unix", s.Path)
		if err != nil {
			t.Fatal(err)
		}
		if err := <-accepted; err != nil {
			t.Fatal(err)
		}
		conn.Close()
	}
	if err := ln.Close(); err != nil {
		t.Error(err)
	}
	if err := <-accepted; !errors.Is(err, net.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	if _, err := os.Lstat(s.Path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after Close: %v, want the socket gone", err)
	}
}

// TestSocketOwner checks that a socket belongs to the owner of its directory, who alone may open it,
// and that nothing else is left in the directory.
func TestSocketOwner(t *testing.T) {
	t.Parallel()
	dir, owner := t.TempDir(), os.Getuid()
	if owner == 0 {
		owner = 65534
		if err := os.Chown(dir, owner, -1); err != nil {
			t.Fatal(err)
		}
	}
	s := Socket{Path: filepath.Join(dir, "a.sock"), Mode: 0o600, DirOwner: true}
	ln, err := s.Listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	st, err := os.Lstat(s.Path)
	if err != nil {
		t.Fatal(err)
	}
	if uid := int(st.Sys().(*syscall.Stat_t).Uid); uid != owner || st.Mode() != fs.ModeSocket|0o600 {
		t.Errorf("the socket is user %d's with %v, want user %d's with 0600", uid, st.Mode(), owner)
	}
	if ln.Addr().String() != s.Path {
		t.Errorf("the listener's address is %s, want %s", ln.Addr(), s.Path)
	}
	if in, err := os.ReadDir(dir); err != nil || len(in) != 1 {
		t.Errorf("the directory has %v (%v), want only the socket", in, err)
	}
}

// TestSocketSwapped checks that the user who owns the directory gains nothing by replacing the
// socket with a symbolic link at any moment: the file behind the link stays as it is.
func TestSocketSwapped(t *testing.T) {
	t.Parallel()
	dir, victim := t.TempDir(), filepath.Join(t.TempDir(), "victim")
	if err := os.WriteFile(victim, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := Socket{Path: filepath.Join(dir, "a.sock"), Mode: 0o666}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		link := filepath.Join(dir, "link")
		for {
			select {
			case <-stop:
				return
			default:
			}
			if err := os.Symlink(victim, link); err != nil && !errors.Is(err, fs.ErrExist) {
				t.Error(err)
				return
			}
			if st, err := os.Lstat(s.Path); err == nil && st.Mode().Type() == fs.ModeSocket {
				os.Rename(link, s.Path)
			}
		}
	}()
	for range 300 {
		if ln, err := s.Listen(t.Context()); err == nil {
			ln.Close()
		}
		os.Remove(s.Path)
		if st, err := os.Stat(victim); err != nil || st.Mode() != 0o600 {
			t.Errorf("the file behind the link has mode %v (%v), want 0600", st.Mode(), err)
			break
		}
	}
	close(stop)
	<-stopped
}

// TestOpenPrivate checks that nothing is taken for the private directory that another user could
// have put in its place.
func TestOpenPrivate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, mode := range map[string]fs.FileMode{"mine": 0o700, "open": 0o777, "seen": 0o755} {
		if err := errors.Join(os.Mkdir(filepath.Join(dir, name), mode), os.Chmod(filepath.Join(dir, name), mode)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("mine", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	want := map[string]error{"mine": nil, "open": seedbed.ErrConflict, "seen": seedbed.ErrConflict, "link": unix.ENOTDIR}
	if os.Getuid() == 0 {
		other := filepath.Join(dir, "other")
		if err := errors.Join(os.Mkdir(other, 0o700), os.Chown(other, 65534, -1)); err != nil {
			t.Fatal(err)
		}
		want["other"] = seedbed.ErrConflict
	}
	parent, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer parent.Close()
	for name, want := range want {
		d, err := openPrivate(int(parent.Fd()), name)
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
		if err == nil {
			d.Close()
		}
	}
}

// TestSocketLeavesUmask checks that files that are made while a socket is made again have the mode that
// they have at other times.
func TestSocketLeavesUmask(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	modeOf := func(n int) fs.FileMode {
		path := filepath.Join(dir, strconv.Itoa(n))
		if err := os.Mkdir(path, 0o755); err != nil {
			t.Fatal(err)
		}
		st, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return st.Mode()
	}
	want := modeOf(0)
	ended := make(chan error)
	go func() {
		s := Socket{Path: filepath.Join(dir, "a.sock"), Mode: 0o600}
		for range 300 {
			ln, err := s.Listen(t.Context())
			if err != nil {
				ended <- err
				return
			}
			ln.Close()
		}
		ended <- nil
	}()
	for n := 1; ; n++ {
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
			return
		default:
		}
		if got := modeOf(n); got != want {
			t.Errorf("a directory has mode %v, want %v", got, want)
			<-ended
			return
		}
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
