package hook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"seedbed"
)

// lab is a runner on a directory of its own.
type lab struct {
	*Runner
	t   *testing.T
	dir string
}

func newLab(t *testing.T) *lab {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "hooks.d")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return &lab{New(Config{Dir: dir}), t, dir}
}

// put puts a script there.
func (l *lab) put(name, text string) string {
	l.t.Helper()
	path := filepath.Join(l.dir, name)
	// The kernel runs no file that the child of another test has open for writing, until it executes.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		l.t.Fatal(err)
	}
	return path
}

// run runs a script with so much time, and gives what it put out.
func (l *lab) run(ctx context.Context, run seedbed.HookRun, d time.Duration) (seedbed.HookResult, []seedbed.OutputLine, error) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	var out []seedbed.OutputLine
	r, err := l.RunHook(ctx, run, func(line seedbed.OutputLine) { out = append(out, line) })
	return r, out, err
}

func facts(script string) seedbed.HookRun {
	mac, _ := seedbed.ParseMAC("52:54:01:00:00:01")
	return seedbed.HookRun{
		Script: script, ID: "hook_1", Attempt: 2, Again: true,
		HookFacts: seedbed.HookFacts{Job: "5f3c1a30-1111-4222-8333-444455556666", Kind: seedbed.JobCreate,
			Project: "acme", Subject: "web1", Instance: "ec200000-0000-4000-8000-000000000009",
			Node: "hv1", Stage: "publish", When: seedbed.HookAfter},
		Machine: &seedbed.HookMachine{Profile: "web", NICs: []seedbed.NIC{{MAC: mac, Network: "lan", Addr: netip.MustParseAddr("10.0.0.2")}},
			Tags: map[string]string{"a": "b"}},
	}
}

const patience = time.Minute

// A script is told the facts on its standard input and in its environment, which
// holds nothing else but a path and a locale.
func TestFacts(t *testing.T) {
	t.Setenv("SECRET_OF_THE_WORKER", "hush")
	l := newLab(t)
	l.put("tell", "#!/bin/sh\ncat; echo; env | grep -v -e ^PWD= -e ^_= -e ^SHLVL= -e ^OLDPWD= -e ^PATH= | sort\n")
	r, out, err := l.run(t.Context(), facts("tell"), patience)
	if err != nil || r.Problem != "" || len(out) == 0 {
		t.Fatal(r, out, err)
	}
	var got seedbed.HookRun
	if err := json.Unmarshal([]byte(out[0].Text), &got); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(facts("tell"), got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); d != "" {
		t.Errorf("standard input (-want +got):\n%s", d)
	}
	var env []string
	for _, line := range out[1:] {
		env = append(env, line.Text)
	}
	want := []string{
		"LC_ALL=C", "SEEDBED_ADDRESSES=10.0.0.2", "SEEDBED_AGAIN=true", "SEEDBED_ATTEMPT=2",
		"SEEDBED_HOOKS_DIR=" + l.dir, "SEEDBED_HOOK_ID=hook_1",
		"SEEDBED_INSTANCE=ec200000-0000-4000-8000-000000000009", "SEEDBED_JOB=5f3c1a30-1111-4222-8333-444455556666", "SEEDBED_KIND=create",
		"SEEDBED_MACS=52:54:01:00:00:01", "SEEDBED_NODE=hv1", "SEEDBED_PROFILE=web",
		"SEEDBED_PROJECT=acme", "SEEDBED_SCRIPT=tell", "SEEDBED_STAGE=publish", "SEEDBED_SUBJECT=web1", "SEEDBED_WHEN=after",
	}
	if d := cmp.Diff(want, env); d != "" {
		t.Errorf("environment (-want +got):\n%s", d)
	}
}

// How a script ends is told with its last line, of either stream.
func TestEnds(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, text, problem string }{
		{"well", "#!/bin/sh\necho fine\n", ""},
		{"status and standard error", "#!/bin/sh\necho no such zone >&2\nexit 3\n", "it failed: exit status 3: no such zone"},
		{"status and standard output", "#!/bin/sh\necho no such zone\nexit 3\n", "it failed: exit status 3: no such zone"},
		{"silent", "#!/bin/sh\nexit 4\n", "it failed: exit status 4"},
		{"signal", "#!/bin/sh\nkill -TERM $$\n", "it failed: ended by signal: terminated"},
		{"control characters", "#!/bin/sh\nprintf 'a\\033[31mb\\n'\nexit 1\n", "it failed: exit status 1: a?[31mb"},
		{
			"no interpreter", "#!/no/such/interpreter\n",
			"it failed: exit status 127: prlimit: failed to execute /proc/self/fd/3: No such file or directory",
		},
		{"input not read", "#!/bin/sh\nexec <&-\nexit 0\n", ""},
		{"limits", "#!/bin/sh\n[ $(ulimit -n) = 1024 ] && [ $(ulimit -c) = 0 ] && [ $(ulimit -v) = 4194304 ]\n", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			l.put("end", test.text)
			r, out, err := l.run(t.Context(), facts("end"), patience)
			if err != nil || r.Problem != test.problem {
				t.Errorf("problem %q, %v; want %q; output %v", r.Problem, err, test.problem, out)
			}
		})
	}
}

// What others could have written, or is not there, or is no name of a file there, is not run.
func TestRefused(t *testing.T) {
	t.Parallel()
	const text = "#!/bin/sh\necho ran\n"
	for _, test := range []struct {
		name, script string
		put          func(l *lab)
		kind         error
		says         string
	}{
		{"absent", "x", func(*lab) {}, seedbed.ErrNotFound, "the hook script x does not exist"},
		{"no directory", "x", func(l *lab) { os.Remove(l.dir) }, seedbed.ErrNotFound, "the hook script x does not exist"},
		{"a path upwards", "../x", func(l *lab) { os.WriteFile(filepath.Join(l.dir, "../x"), []byte(text), 0o755) }, seedbed.ErrInvalid, "script name"},
		{"an absolute path", "/bin/true", func(*lab) {}, seedbed.ErrInvalid, "script name"},
		{"a path within", "sub/x", func(l *lab) { os.Mkdir(filepath.Join(l.dir, "sub"), 0o755) }, seedbed.ErrInvalid, "script name"},
		{"dots", "..", func(*lab) {}, seedbed.ErrInvalid, "script name"},
		{"hidden", ".x", func(l *lab) { l.put(".x", text) }, seedbed.ErrInvalid, "script name"},
		{"empty", "", func(*lab) {}, seedbed.ErrInvalid, "script name"},
		{"a NUL", "x\x00y", func(*lab) {}, seedbed.ErrInvalid, "script name"},
		{"a directory", "x", func(l *lab) { os.Mkdir(filepath.Join(l.dir, "x"), 0o755) }, seedbed.ErrForbidden, "not a regular file"},
		{"a FIFO", "x", func(l *lab) { unix.Mkfifo(filepath.Join(l.dir, "x"), 0o755) }, seedbed.ErrForbidden, "not a regular file"},
		{"a link", "x", func(l *lab) { os.Symlink("/bin/true", filepath.Join(l.dir, "x")) }, seedbed.ErrForbidden, "symbolic link"},
		{"writable by the group", "x", func(l *lab) { os.Chmod(l.put("x", text), 0o775) }, seedbed.ErrForbidden, "written by others"},
		{"writable by all", "x", func(l *lab) { os.Chmod(l.put("x", text), 0o757) }, seedbed.ErrForbidden, "written by others"},
		{"not executable", "x", func(l *lab) { os.Chmod(l.put("x", text), 0o644) }, seedbed.ErrForbidden, "not executable"},
		{"a directory writable by all", "x", func(l *lab) { l.put("x", text); os.Chmod(l.dir, 0o777) }, seedbed.ErrForbidden, "written by others"},
		{"what a shell would take", "x", func(l *lab) { l.put("x", "echo ran\n") }, seedbed.ErrForbidden, "interpreter"},
		{"nothing in it", "x", func(l *lab) { l.put("x", "") }, seedbed.ErrForbidden, "interpreter"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			test.put(l)
			_, out, err := l.run(t.Context(), facts(test.script), patience)
			if !errors.Is(err, test.kind) || !strings.Contains(fmt.Sprint(err), test.says) {
				t.Errorf("%v; want %v that says %q", err, test.kind, test.says)
			}
			if len(out) > 0 {
				t.Errorf("it ran: %v", out)
			}
		})
	}
}

// A file of another user's is refused, whoever may write it.
func TestOwner(t *testing.T) {
	t.Parallel()
	r := &Runner{owner: 0}
	for _, test := range []struct {
		uid  uint32
		want bool
	}{{0, true}, {1000, false}} {
		if got := r.problem(unix.Stat_t{Uid: test.uid, Mode: unix.S_IFREG | 0o755}, unix.S_IFREG) == ""; got != test.want {
			t.Errorf("uid %d is taken: %v", test.uid, got)
		}
	}
}

// What is looked at is what runs, also when another file takes its name meanwhile.
func TestReplaced(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	path := l.put("x", "#!/bin/sh\necho first\n")
	file, err := l.open("x")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := os.Rename(l.put("y", "#!/bin/sh\necho second\n"), path); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var out []seedbed.OutputLine
	if _, err := l.Runner.run(ctx, file, facts("x"), func(line seedbed.OutputLine) { out = append(out, line) }); err != nil || len(out) != 1 || out[0].Text != "first" {
		t.Errorf("%v, %v", out, err)
	}
}

// The end of its time, or of its call, ends a script with all that it has
// started in its process group, deaf to signals or not.
func TestKilled(t *testing.T) {
	t.Parallel()
	const text = "#!/bin/sh\ntrap '' TERM INT HUP\n(trap '' TERM; sleep 1000 & echo $!; wait) &\nsleep 1000 & echo $!\necho $$\nwait\n"
	for _, test := range []struct {
		name string
		time time.Duration
		want error
	}{{"time", 500 * time.Millisecond, context.DeadlineExceeded}, {"cancel", patience, context.Canceled}} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			l.put("slow", text)
			var pids []int
			for limit := test.time; len(pids) < 3; limit *= 4 { // until the script has had the time to begin
				pids = nil
				ctx, cancel := context.WithTimeout(t.Context(), limit)
				_, err := l.RunHook(ctx, facts("slow"), func(line seedbed.OutputLine) {
					pid, _ := strconv.Atoi(line.Text)
					if pids = append(pids, pid); len(pids) == 3 && test.want == context.Canceled {
						cancel()
					}
				})
				cancel()
				if !errors.Is(err, test.want) {
					t.Fatalf("%v; want %v", err, test.want)
				}
			}
			for _, pid := range pids {
				gone(t, pid)
			}
		})
	}
}

// What a script leaves running in its process group ends with it.
func TestLeftBehind(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.put("leave", "#!/bin/sh\nsleep 1000 >/dev/null 2>&1 &\necho $!\n")
	r, out, err := l.run(t.Context(), facts("leave"), patience)
	if err != nil || r.Problem != "" || len(out) != 1 {
		t.Fatal(r, out, err)
	}
	pid, _ := strconv.Atoi(out[0].Text)
	gone(t, pid)
}

// Of much output the beginning is passed on, with what was left out; of a long line so much.
func TestOutputIsBounded(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.put("much", "#!/bin/sh\nhead -c 100000 /dev/zero | tr '\\0' y; echo\nyes 0123456789012345678901234567890123456789 | head -n 100000\necho the end >&2\nexit 5\n")
	r, out, err := l.run(t.Context(), facts("much"), patience)
	if err != nil || r.Problem != "it failed: exit status 5: the end" {
		t.Fatal(r, err)
	}
	size := seedbed.Bytes(0)
	for _, line := range out {
		size += seedbed.Bytes(len(line.Text) + 1)
		if seedbed.Bytes(len(line.Text)) > seedbed.MaxOutputLine {
			t.Errorf("a line of %d bytes", len(line.Text))
		}
	}
	last := out[len(out)-1]
	if size > seedbed.MaxOutput+seedbed.KiB || size < seedbed.MaxOutput/2 || last.Stream != seedbed.OutputNote || !strings.Contains(last.Text, "left out") {
		t.Errorf("%s passed on, and at last %+v", size, last)
	}
}

// Health lists what can be run, and is not well about what cannot.
func TestHealth(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	if checks := l.Health(t.Context()); checks != nil {
		t.Errorf("a host without scripts has the check %+v", checks)
	}
	os.Chmod(l.put("README", "what this is\n"), 0o644)
	if checks := l.Health(t.Context()); checks != nil {
		t.Errorf("a directory with a text has the check %+v", checks)
	}
	l.put("a", "#!/bin/sh\n")
	if checks := l.Health(t.Context()); len(checks) != 1 || !checks[0].OK || checks[0].Detail != "in "+l.dir+": a" {
		t.Errorf("checks %+v", checks)
	}
	os.Chmod(l.put("b", "#!/bin/sh\n"), 0o777)
	l.cfg.Named = []string{"a", "c"}
	checks := l.Health(t.Context())
	if len(checks) != 1 || checks[0].OK || checks[0].Hint == "" {
		t.Fatalf("checks %+v", checks)
	}
	l.cfg.Named = append(l.cfg.Named, "README")
	if checks := l.Health(t.Context()); !strings.Contains(checks[0].Detail, "README is not executable") {
		t.Errorf("a named one that cannot be run: %+v", checks)
	}
	for _, want := range []string{"/hooks.d: a; ", "/b can be written by others", "the hook script c does not exist"} {
		if !strings.Contains(checks[0].Detail, want) {
			t.Errorf("detail %q without %q", checks[0].Detail, want)
		}
	}
}

// The example keeps one line for each address of an instance, however often it
// runs, and none of one that is removed.
func TestExample(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	text, err := os.ReadFile("../../packaging/examples/hooks/hosts-file")
	if err != nil {
		t.Fatal(err)
	}
	hosts := filepath.Join(t.TempDir(), "hosts")
	l.put("hosts-file", strings.Replace(string(text), "file=/etc/seedbed/hosts", "file="+hosts, 1))
	for _, step := range []struct {
		kind                    seedbed.JobKind
		project, instance, want string
	}{
		{seedbed.JobCreate, "default", "ec2a", "10.0.0.2 web1 # ec2a\n"},
		{seedbed.JobCreate, "default", "ec2a", "10.0.0.2 web1 # ec2a\n"},
		{seedbed.JobCreate, "acme", "ec2b", "10.0.0.2 web1 # ec2a\n10.0.0.2 web1.acme # ec2b\n"},
		{seedbed.JobRemove, "default", "ec2a", "10.0.0.2 web1.acme # ec2b\n"},
		{seedbed.JobRemove, "acme", "ec2b", ""},
	} {
		run := facts("hosts-file")
		run.Kind, run.Project, run.Instance = step.kind, step.project, seedbed.InstanceID(step.instance)
		if r, out, err := l.run(t.Context(), run, patience); err != nil || r.Problem != "" {
			t.Fatal(r, out, err)
		}
		got, err := os.ReadFile(hosts)
		if err != nil || string(got) != step.want {
			t.Errorf("after %s of %s: %q, %v; want %q", step.kind, step.instance, got, err, step.want)
		}
	}
}

// gone waits until a process has ended; a zombie that nobody has reaped yet counts as ended.
func gone(t *testing.T, pid int) {
	t.Helper()
	if pid <= 1 {
		t.Fatalf("pid %d", pid)
	}
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
	}
	_ = syscall.Kill(pid, syscall.SIGKILL)
	t.Errorf("process %d still runs", pid)
}

// FuzzLines holds that lines of any bytes are bounded text, none lost below the bound.
func FuzzLines(f *testing.F) {
	f.Add([]byte("a\nb\r\n\xff\n\nrest"), 3)
	f.Fuzz(func(t *testing.T, text []byte, part int) {
		var got []string
		l := newLines(func(line seedbed.OutputLine) { got = append(got, line.Text) })
		s := l.stream("stdout")
		for rest := text; len(rest) > 0; {
			n := min(len(rest), max(1, part))
			if w, err := s.Write(rest[:n]); w != n || err != nil {
				t.Fatalf("wrote %d, %v", w, err)
			}
			rest = rest[n:]
		}
		l.end()
		want := strings.Count(string(text), "\n")
		if len(text) > 0 && text[len(text)-1] != '\n' {
			want++
		}
		if len(text) < int(seedbed.MaxOutput)/2 && len(got) != want {
			t.Errorf("%d lines, want %d", len(got), want)
		}
		for _, line := range got {
			if seedbed.Bytes(len(line)) > seedbed.MaxOutputLine || strings.ToValidUTF8(line, "") != line {
				t.Errorf("line of %d bytes", len(line))
			}
		}
		if len(l.last()) > 500 {
			t.Errorf("the last line has %d bytes", len(l.last()))
		}
	})
}
