//go:build integration

package sandbox

import (
	"context"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"seedbed"
)

// hogInSockets ends with 7 when it could have more wait in sockets than its memory is.
const hogInSockets = `/usr/bin/python3 -c '
import socket, sys
queued = 0
to = []
try:
    for i in range(1000):
        to.append(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        to[i].bind(("127.0.0.1", 0)); to[i].setblocking(False)
        sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        for j in range(6): sender.sendto(b"x" * 30000, socket.MSG_DONTWAIT, to[i].getsockname())
except OSError as e: print(e)
for s in to:
    try:
        while True: queued += len(s.recv(65536))
    except OSError: pass
print("queued", queued)
sys.exit(queued > 64 << 20 and 7 or 0)'`

// TestEnds runs programs that end badly, or do not.
func TestEnds(t *testing.T) {
	t.Parallel()
	h := lab(t)
	for _, tt := range []struct {
		name, script string
		limits       Limits
		want         ExitError
		says         string // in the error or the output
	}{
		{"exit status", "exit 3", Limits{}, ExitError{Code: 3}, "exit status 3"},
		{"signal", "kill -SEGV $$", Limits{}, ExitError{Code: -1, Signal: syscall.SIGSEGV}, "SIGSEGV"},
		{"endless loop", "while :; do :; done", Limits{Time: 300 * time.Millisecond},
			ExitError{Code: -1, Signal: syscall.SIGKILL, Limit: LimitTime}, "more than 300ms"},
		{"deaf to signals", "trap '' TERM INT HUP; setsid sh -c 'trap \"\" TERM; sleep 100' & while :; do sleep 100; done",
			Limits{Time: 300 * time.Millisecond},
			ExitError{Code: -1, Signal: syscall.SIGKILL, Limit: LimitTime}, "time limit"},
		{"fork bomb", "(f() { f | f & }; f) & while :; do :; done", Limits{Processes: 40, Time: 5 * time.Second},
			ExitError{Limit: LimitTime}, "Cannot fork"},
		{"too many processes", "/usr/bin/python3 -c 'import os, time\nwhile os.fork(): pass\ntime.sleep(100)'", Limits{Processes: 40},
			ExitError{Limit: LimitProcesses}, "40 processes"},
		{"memory hog", "/usr/bin/python3 -c 'x = []\nwhile True: x.append(bytearray(1 << 20))'", Limits{Memory: 64 * seedbed.MiB},
			ExitError{Limit: LimitMemory}, "64MiB"},
		{"hog in files", "head -c 500M /dev/zero > /dev/shm/x", Limits{Memory: 64 * seedbed.MiB, Tmp: seedbed.GiB},
			ExitError{Limit: LimitMemory}, ""},
		{"hog in sockets", hogInSockets, Limits{Memory: 64 * seedbed.MiB}, ExitError{}, "queued"},
		{"full scratch space", "head -c 500M /dev/zero > /tmp/x", Limits{Tmp: 16 * seedbed.MiB}, ExitError{Code: 1}, "No space left"},
		{"larger scratch space by a mount", "mkdir /tmp/t; mount -t tmpfs -o size=1g none /tmp/t; head -c 500M /dev/zero > /tmp/t/x",
			Limits{Tmp: 16 * seedbed.MiB}, ExitError{Code: 1}, "No space left"},
		{"too many mounts", "mkdir /tmp/a; i=0; while [ $i -lt 600 ]; do mount --bind /tmp/a /tmp/a || exit 7; i=$((i+1)); done",
			Limits{}, ExitError{Code: 7}, "mounts already"},
		{"mounts held after an unmount",
			"/usr/bin/python3 -c 'import ctypes, os, sys\nlibc = ctypes.CDLL(None)\nos.mkdir(\"/tmp/p\")\nfor i in range(1000):\n" +
				"  if libc.mount(b\"proc\", b\"/tmp/p\", b\"proc\", 0, None): sys.exit(8)\n  os.open(\"/tmp/p\", 0)\n" +
				"  if libc.umount2(b\"/tmp/p\", 2): sys.exit(7)'", Limits{}, ExitError{Code: 7}, "unmounted"},
		{"orphans", "for i in 1 2 3; do sh -c 'sleep 100 &'; done; exit 0", Limits{}, ExitError{}, ""},
		{"mounts left", "mkdir /tmp/a /tmp/b; mount -t tmpfs none /tmp/a; mount --rbind / /tmp/b; cd /tmp/a; exit 0", Limits{}, ExitError{}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var out lines
			s := start(t, h, sh(t, &out, tt.script, func(s *Spec) {
				l := &s.Limits
				if tt.limits.Time > 0 {
					l.Time = tt.limits.Time
				}
				if tt.limits.Memory > 0 {
					l.Memory = tt.limits.Memory
				}
				if tt.limits.Processes > 0 {
					l.Processes = tt.limits.Processes
				}
				if tt.limits.Tmp > 0 {
					l.Tmp = tt.limits.Tmp
				}
			}))
			err := s.Wait()
			got := &ExitError{}
			if err != nil && !errors.As(err, &got) {
				t.Fatalf("%v is no ExitError", err)
			}
			if got.Limit != tt.want.Limit || tt.want.Limit == "" && (got.Code != tt.want.Code || got.Signal != tt.want.Signal) {
				t.Errorf("%#v, want %#v\n%s", got, tt.want, out.String())
			}
			if text := out.String() + got.msg; !strings.Contains(text, tt.says) {
				t.Errorf("want %q in\n%s", tt.says, text)
			}
			closed(t, s)
		})
	}
}

// closed closes the sandbox and finds nothing left of it.
func closed(t *testing.T, s *Sandbox) {
	t.Helper()
	groups := s.group.dirs
	for range 2 {
		if err := s.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range groups {
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("cgroup %s is still there: %v", dir, err)
		}
	}
	entries, err := os.ReadDir(s.host.cfg.Dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), s.spec.ID) && strings.TrimSuffix(e.Name(), ".json") == s.spec.ID {
			t.Errorf("%s is still there", e.Name())
		}
	}
}

// TestMuchOutput prints a gigabyte, of which its limit is taken.
func TestMuchOutput(t *testing.T) {
	t.Parallel()
	h := lab(t)
	var bytes, notes int
	s := start(t, h, sh(t, &lines{}, "head -c 32M /dev/zero | tr '\\0' x; exit 4", func(s *Spec) {
		s.Limits.Output = seedbed.MiB
		s.Output = func(stream string, line []byte) {
			if stream == Notes {
				notes++
				return
			}
			if len(line) > longest {
				t.Errorf("a line of %d bytes, want at most %d", len(line), longest)
			}
			bytes += len(line)
		}
	}))
	var e *ExitError
	if err := s.Wait(); !errors.As(err, &e) || e.Code != 4 {
		t.Errorf("%v, want exit status 4", err)
	}
	if bytes == 0 || bytes > int(seedbed.MiB) || notes != 1 {
		t.Errorf("%d bytes and %d notes, want at most %d and 1", bytes, notes, seedbed.MiB)
	}
}

// TestClose ends a program in the middle of its work.
func TestClose(t *testing.T) {
	t.Parallel()
	h := lab(t)
	var out lines
	s := start(t, h, sh(t, &out, "trap '' TERM; echo up; sleep 1000"))
	if _, err := h.Start(context.Background(), sh(t, &out, "true")); !errors.Is(err, seedbed.ErrExists) {
		t.Errorf("the same id again: %v, want exists", err)
	}
	if err := await(func() bool { return strings.Contains(out.String(), "up") }); err != nil {
		t.Fatal(err)
	}
	closed(t, s)
	var e *ExitError
	if err := s.Wait(); !errors.As(err, &e) || !e.Closed {
		t.Errorf("%v, want closed", err)
	}
	closed(t, start(t, h, sh(t, &out, "true")))
}

// TestTwo runs two at once: different users outside, each without a view of the other.
func TestTwo(t *testing.T) {
	t.Parallel()
	h := lab(t)
	var outs [2]lines
	var maps [2]string
	for i := range outs {
		s := start(
			t,
			h,
			sh(
				t,
				&outs[i],
				"read a base c < /proc/self/uid_map; echo base $base; echo mine > /tmp/f; ls /proc | grep -c '^[0-9]'; sleep 1000",
				func(s *Spec) {
					s.ID += []string{"a", "b"}[i]
				},
			),
		)
		if err := await(func() bool { return strings.Count(outs[i].String(), "\n") >= 1 }); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile("/proc/" + itoa(s.launcher.Pid) + "/uid_map")
		if err != nil {
			t.Fatal(err)
		}
		maps[i] = strings.Join(strings.Fields(string(b)), " ")
		if !strings.Contains(outs[i].String(), "base "+strings.Fields(maps[i])[1]) {
			t.Errorf("inside %q, outside %q", outs[i].String(), maps[i])
		}
	}
	if maps[0] == maps[1] {
		t.Errorf("both are %s outside", maps[0])
	}
}

// TestStartFails: a program that is not there is an error of Start, and leaves nothing.
func TestStartFails(t *testing.T) {
	t.Parallel()
	h := lab(t)
	var out lines
	_, err := h.Start(context.Background(), sh(t, &out, "", func(s *Spec) { s.Argv = []string{"/no/such/program"} }))
	if !errors.Is(err, seedbed.ErrInvalid) || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("%v, want invalid: no such file", err)
	}
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := h.Start(cancelled, sh(t, &out, "true")); err == nil {
		t.Error("started although its context was over")
	}
	if entries, err := os.ReadDir(h.cfg.Dir); err != nil || len(entries) != 0 {
		t.Errorf("left %v, %v", entries, err)
	}
}

// TestPrivileged is no boundary, and yet ends and leaves nothing.
func TestPrivileged(t *testing.T) {
	t.Parallel()
	h := lab(t)
	var out lines
	dev := disk(t, "64M")
	s := start(
		t,
		h,
		sh(t, &out, `set -eux; until test -b /dev/rbd/p/v; do :; done; mkfs.ext4 -q /dev/rbd/p/v; mkdir /tmp/m; mount /dev/rbd/p/v /tmp/m
		test "$(cat /proc/self/uid_map | tr -s ' ')" = " 0 0 4294967295"; test -c /dev/loop-control; test -d /sys/fs/cgroup/memory -o -e /sys/fs/cgroup/cgroup.procs; ! touch /usr/x; touch /tmp/m/f; echo fine`,
			func(s *Spec) { s.Privileged, s.Network = true, true }),
	)
	if err := s.AddDevice("/dev/rbd/p/v", dev); err != nil {
		t.Fatal(err)
	}
	if err := s.Wait(); err != nil || !strings.Contains(out.String(), "stdout: fine") {
		t.Errorf("%v\n%s", err, out.String())
	}
	closed(t, s)
}

// TestNetwork: with the host's network the host's loopback answers, and names have servers.
func TestNetwork(t *testing.T) {
	t.Parallel()
	h := lab(t)
	var out lines
	s := start(t, h, sh(t, &out, "cat /etc/resolv.conf > /dev/null; readlink /proc/self/ns/net", func(s *Spec) { s.Network = true }))
	if err := s.Wait(); err != nil {
		t.Errorf("%v\n%s", err, out.String())
	}
	ours, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), ours) {
		t.Errorf("want %s in\n%s", ours, out.String())
	}
}

// TestBuildFails: why process 1 could not build the root is in Start's error.
func TestBuildFails(t *testing.T) {
	t.Parallel()
	h := lab(t)
	var out lines
	_, err := h.Start(t.Context(), sh(t, &out, "true", func(s *Spec) { s.Files = map[string][]byte{"a": nil, "a/b": nil} }))
	if err == nil || !strings.Contains(err.Error(), "build its root") || !strings.Contains(err.Error(), "run/seedbed/a") {
		t.Errorf("%v, want what process 1 could not do", err)
	}
}
