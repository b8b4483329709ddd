package command

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"seedbed"

	"github.com/google/go-cmp/cmp"
)

// patience is how long anything may take here that must come.
const patience = time.Minute

func sh(script string, args ...string) Command {
	return Command{Name: "sh", Args: append([]string{"-c", script, "sh"}, args...), Timeout: patience}
}

func TestRun(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, script, stdout, problem string
	}{
		{"well", "echo out; echo err >&2", "out\n", ""},
		{"arguments are no shell line", `printf '%s|' "$@"`, "a b|$(id)|;|", ""},
		{"environment", "env | grep -v -e ^PWD= -e ^_= -e ^SHLVL= -e ^OLDPWD= | cut -d= -f1 | sort", "LC_ALL\nPATH\n", ""},
		{"directory", "pwd", "/\n", ""},
		{"no input", "cat", "", ""},
		{"status and last line", "echo first >&2; echo 'the cause' >&2; echo >&2; exit 3", "", "sh: exit status 3: the cause"},
		{"silent", "exit 7", "", "sh: exit status 7"},
		{"signal", "kill -TERM $$", "", "sh: ended by signal: terminated"},
		{"control characters", `printf 'a\033[31mb\n' >&2; exit 1`, "", "sh: exit status 1: a?[31mb"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			out, err := Run(t.Context(), sh(c.script, "a b", "$(id)", ";"))
			problem := ""
			if err != nil {
				problem = err.Error()
			}
			if problem != c.problem {
				t.Fatalf("error %q; want %q", problem, c.problem)
			}
			if d := cmp.Diff(c.stdout, string(out.Stdout)); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestErrorFields(t *testing.T) {
	t.Parallel()
	_, err := Run(t.Context(), sh("echo bad >&2; exit 9"))
	var e *Error
	if !errors.As(err, &e) || e.Status != 9 || e.Signal != 0 || e.Line != "bad" || e.Err != nil {
		t.Fatalf("got %#v", err)
	}
}

func TestNotInstalled(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"no-such-program", "/no/such/program", "./sh", ""} {
		_, err := Run(t.Context(), Command{Name: name, Timeout: time.Second})
		if !errors.Is(err, seedbed.ErrUnavailable) {
			t.Errorf("%q: got %v", name, err)
		}
	}
}

func TestTimeoutIsRequired(t *testing.T) {
	t.Parallel()
	if _, err := Run(t.Context(), Command{Name: "true"}); err == nil {
		t.Fatal("a command without a timeout was run")
	}
}

func TestOutputIsBounded(t *testing.T) {
	t.Parallel()
	var all bytes.Buffer
	c := sh("i=0; while [ $i -lt 40000 ]; do echo line $i; i=$((i+1)); done")
	c.Stdout = &all
	out, err := Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if len(out.Stdout) != int(OutputLimit) || !out.Cut || !bytes.HasSuffix(all.Bytes(), out.Stdout) {
		t.Errorf("kept %d bytes, cut %v: want the last %d", len(out.Stdout), out.Cut, OutputLimit)
	}
	if n := bytes.Count(all.Bytes(), []byte("\n")); n != 40000 {
		t.Errorf("the writer got %d lines", n)
	}
}

func TestEndOfContextKillsTheGroup(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		end  func(context.Context) (context.Context, context.CancelFunc)
		wait time.Duration
		want error
	}{
		{"cancel", context.WithCancel, patience, context.Canceled},
		{"timeout", context.WithCancel, 300 * time.Millisecond, context.DeadlineExceeded},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := c.end(t.Context())
			defer cancel()
			line := ""
			for wait := c.wait; line == "" && wait <= patience; wait *= 4 { // until the program has had the time to begin
				r, w := io.Pipe()
				command := sh("sleep 1000 & echo $!; wait")
				command.Stdout, command.Timeout = w, wait
				done := make(chan error, 1)
				go func() {
					_, err := Run(ctx, command)
					w.Close()
					done <- err
				}()
				line, _ = bufio.NewReader(r).ReadString('\n')
				go func() { _, _ = io.Copy(io.Discard, r) }()
				if c.want == context.Canceled {
					cancel()
				}
				var err error
				select {
				case err = <-done:
				case <-time.After(patience):
					t.Fatal("Run does not return")
				}
				if !errors.Is(err, c.want) {
					t.Fatalf("got %v; want %v", err, c.want)
				}
			}
			pid, _ := strconv.Atoi(strings.TrimSpace(line))
			gone(t, pid)
		})
	}
}

// TestLeftBehind: a program that ends well while a child of its own holds the output.
func TestLeftBehind(t *testing.T) {
	t.Parallel()
	out, err := Run(t.Context(), sh("sleep 1000 & echo $!"))
	if err == nil {
		t.Fatal("no error")
	}
	pid, _ := strconv.Atoi(strings.TrimSpace(string(out.Stdout)))
	gone(t, pid)
}

func TestLimits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, script, problem string
		limits                Limits
	}{
		{"file size", "head -c 100000 /dev/zero > \"$1\"", "File size limit", Limits{FileSize: 4096}},
		{"memory", "ulimit -v", "", Limits{Memory: 512 * seedbed.MiB}},
		{"cpu", "while :; do :; done", "", Limits{CPU: time.Second}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			command := sh(c.script, t.TempDir()+"/file")
			command.Limits = c.limits
			out, err := Run(t.Context(), command)
			if c.name == "memory" {
				if err != nil || strings.TrimSpace(string(out.Stdout)) != "524288" {
					t.Fatalf("limit %q, %v", out.Stdout, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.problem) {
				t.Fatalf("got %v", err)
			}
		})
	}
}

const childVariable = "COMMAND_TEST_CHILD"

// TestDeath starts this test program again as a parent that runs a command, kills
// the parent, and sees the command die with it.
func TestDeath(t *testing.T) {
	if os.Getenv(childVariable) != "" {
		go func() {
			for { // let the runtime move goroutines between its threads
				runtime.Gosched()
			}
		}()
		_, err := Run(context.Background(),
			Command{Name: "sh", Args: []string{"-c", "echo $$; exec sleep 1000"}, Timeout: time.Minute, Stdout: os.Stdout})
		t.Fatal(err)
	}
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	parent := exec.Command(self, "-test.run=^TestDeath$")
	parent.Env = append(os.Environ(), childVariable+"=1")
	stdout, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Fscan(stdout, &pid); err != nil {
		t.Fatal(err)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()
	gone(t, pid)
}

// gone waits until a process has ended; a zombie that nobody has reaped yet counts as ended.
func gone(t *testing.T, pid int) {
	t.Helper()
	if pid <= 1 {
		t.Fatalf("pid %d", pid)
	}
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); <-poll.C {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || bytes.Contains(stat, []byte(") Z ")) {
			return
		}
	}
	_ = syscall.Kill(pid, syscall.SIGKILL)
	t.Fatalf("process %d still runs", pid)
}
