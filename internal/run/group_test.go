package run

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func untilDone(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestGroupFirstFailureEndsAll(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	g := NewGroup(quiet())
	others := 0
	g.Add("waits", func(ctx context.Context) error { defer func() { others++ }(); return untilDone(ctx) })
	g.Add("done early", func(context.Context) error { return nil })
	g.Add("fails", func(context.Context) error { return boom })
	err := g.Run(t.Context())
	if !errors.Is(err, boom) || err.Error() != "fails: boom" {
		t.Errorf("Run: %v, want fails: boom", err)
	}
	if others != 1 {
		t.Error("Run did not wait for the other task")
	}
}

func TestGroupStopIsNoFailure(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	g := NewGroup(quiet())
	g.Add("waits", untilDone)
	g.Add("stops", func(context.Context) error { cancel(); return nil })
	if err := g.Run(ctx); err != nil {
		t.Errorf("Run: %v, want nil", err)
	}
}

func TestGroupTellsFailureWhileStopping(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	g := NewGroup(quiet())
	g.Add("late", func(ctx context.Context) error { <-ctx.Done(); return errors.New("cannot flush") })
	g.Add("stops", func(context.Context) error { cancel(); return nil })
	if err := g.Run(ctx); err == nil || err.Error() != "late: cannot flush" {
		t.Errorf("Run: %v, want late: cannot flush", err)
	}
}

// notifySocket returns a socket in place of systemd's.
func notifySocket(t *testing.T) *net.UnixConn {
	t.Helper()
	path := filepath.Join(t.TempDir(), "n")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	t.Setenv("NOTIFY_SOCKET", path)
	return conn
}

func receive(t *testing.T, conn *net.UnixConn) string {
	t.Helper()
	conn.SetReadDeadline(time.Now().Add(time.Minute))
	buf := make([]byte, 100)
	n, err := conn.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	return string(buf[:n])
}

func TestGroupNotifiesSystemd(t *testing.T) {
	conn := notifySocket(t)
	g := NewGroup(quiet())
	ctx, cancel := context.WithCancel(t.Context())
	g.Add("waits", untilDone)
	done := make(chan error)
	go func() { done <- g.Run(ctx) }()
	if got := receive(t, conn); got != "READY=1" {
		t.Errorf("systemd was told %q", got)
	}
	cancel()
	if got := receive(t, conn); got != "STOPPING=1" {
		t.Errorf("systemd was told %q", got)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestWatchdog(t *testing.T) {
	conn := notifySocket(t)
	t.Setenv("WATCHDOG_USEC", "20000")
	ctx, cancel := context.WithCancel(t.Context())
	asked := 0
	done := make(chan error)
	go func() {
		done <- Watchdog(quiet(), func(context.Context) error {
			asked++
			if asked == 1 {
				return errors.New("not yet")
			}
			return nil
		})(ctx)
	}()
	if got := receive(t, conn); got != "WATCHDOG=1" {
		t.Errorf("systemd was told %q", got)
	}
	cancel()
	if err := <-done; err != nil || asked < 2 {
		t.Errorf("Watchdog: %v after %d questions", err, asked)
	}
}

func TestWatchdogWithoutSystemdEnds(t *testing.T) {
	t.Parallel()
	if err := Watchdog(quiet(), nil)(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestSignals(t *testing.T) {
	r, w := io.Pipe()
	defer r.Close()
	lines := bufio.NewScanner(r)
	exited := make(chan int, 1)
	ctx, stop := Signals(t.Context(), slog.New(slog.NewTextHandler(w, nil)), func(code int) { exited <- code })
	defer stop()
	if err := unix.Kill(os.Getpid(), unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if !lines.Scan() || !strings.Contains(lines.Text(), "signal=terminated") {
		t.Errorf("log says %q", lines.Text())
	}
	<-ctx.Done()
	go func() { unix.Kill(os.Getpid(), unix.SIGINT); lines.Scan() }()
	if code := <-exited; code != 1 {
		t.Errorf("second signal exits with %d, want 1", code)
	}
}

func TestLogLeavesTimeToTheJournal(t *testing.T) {
	f, err := os.CreateTemp(t.TempDir(), "log")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		t.Fatal(err)
	}
	t.Setenv("JOURNAL_STREAM", strings.Join([]string{itoa(st.Dev), itoa(st.Ino)}, ":"))
	NewLog(f, "warn").Info("hidden")
	NewLog(f, "warn").Warn("told", "job", "x")
	got, err := os.ReadFile(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != "level=WARN msg=told job=x\n" {
		t.Errorf("journal gets %q", got)
	}
	var elsewhere bytes.Buffer
	NewLog(&elsewhere, "info").Info("told")
	if !strings.HasPrefix(elsewhere.String(), "time=") {
		t.Errorf("a pipe gets %q, want the time", elsewhere.String())
	}
}
