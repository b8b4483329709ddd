//go:build integration

package sandbox

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"seedbed"
)

// lab is a host whose sandboxes end with the test.
func lab(t *testing.T) *Host {
	t.Helper()
	h, err := Open(Config{Dir: filepath.Join(t.TempDir(), "sandbox"), Log: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// lines collects output, each line after its stream's name.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) take(stream string, line []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, stream+": "+string(line))
}

func (l *lines) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.all)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.all, "\n")
}

var env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/tmp", "LANG=C.UTF-8", "PYTHONUNBUFFERED=1"}

// sh makes a spec that runs a shell script; change may alter it.
func sh(t *testing.T, out *lines, script string, change ...func(*Spec)) Spec {
	s := Spec{
		ID: strings.Map(func(r rune) rune {
			if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
				return r
			}
			return '-'
		}, t.Name()), Argv: []string{"/bin/sh", "-c", script}, Env: env, Output: out.take,
		Limits: Limits{Time: 2 * time.Minute, Memory: 512 * seedbed.MiB, Tmp: 128 * seedbed.MiB, Processes: 64},
	}
	s.ID = s.ID[max(0, len(s.ID)-50):]
	s.ID = strings.TrimLeft(s.ID, "-.")
	for _, c := range change {
		c(&s)
	}
	return s
}

func start(t *testing.T, h *Host, spec Spec) *Sandbox {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s, err := h.Start(ctx, spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return s
}

// disk makes a loop device of size and its backing file.
func disk(t *testing.T, size string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "disk")
	run(t, "truncate", "-s", size, file)
	dev := strings.TrimSpace(run(t, "losetup", "--find", "--show", file))
	t.Cleanup(func() { run(t, "losetup", "-d", dev) })
	return dev
}

// await waits for done longer than a host that has other work to do may need.
func await(done func() bool) (err error) {
	for range 6 {
		if err = poll(context.Background(), done); err == nil {
			return nil
		}
	}
	return err
}

func run(t *testing.T, argv ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", argv, err, out)
	}
	return string(out)
}
