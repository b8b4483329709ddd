// Package command starts processes, and is the only place that does: tools
// without a library, such as qemu-img, run through Run with an argument list,
// a deadline, bounded output, a minimal environment, and limits of their own.
package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"seedbed"
)

// OutputLimit is how much of each output stream is kept: the end of it.
const OutputLimit = 64 * seedbed.KiB

// killGrace is how long a killed or finished process's output is waited for.
const killGrace = 2 * time.Second

// opened is the path of the one descriptor that a program is given.
const opened = "/proc/self/fd/3"

const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Command is one process to run.
type Command struct {
	// Name is a program found in PATH, or its absolute path.
	Name string
	// Args are the arguments after the name. They are visible to every user of the host: no secrets.
	Args []string
	// Dir is the working directory; empty means "/".
	Dir string
	// Timeout is the longest that it may run, besides what the context allows. It must be positive.
	Timeout time.Duration
	// Limits bound what it may use; the zero value bounds nothing.
	Limits Limits
	// Stdout, when set, gets all of the standard output as it comes; its end is kept too.
	Stdout io.Writer
	// Stderr does so of the standard error. Who sets it tells of the command itself:
	// nothing goes to where the context has output go.
	Stderr io.Writer
	// File, when set, is the program, opened, so that what was looked at is what
	// runs; Name is then only for messages. The program has it as descriptor 3.
	File *os.File
	// Stdin is the standard input.
	Stdin []byte
	// Env are variables besides PATH and LC_ALL, as name=value.
	Env []string
	// EndGroup ends what the program has started and left behind in its process
	// group, once it has ended itself.
	EndGroup bool
}

// Limits are resource limits (setrlimit(2)) that hold from the program's first
// instruction on; zero means none.
type Limits struct {
	// Memory bounds the address space (RLIMIT_AS).
	Memory seedbed.Bytes
	// CPU bounds the processor time, rounded up to seconds (RLIMIT_CPU).
	CPU time.Duration
	// FileSize bounds each file that it writes (RLIMIT_FSIZE).
	FileSize seedbed.Bytes
	// Files bounds how many it has open (RLIMIT_NOFILE).
	Files int
}

// Output is what a process wrote: the last OutputLimit bytes of each stream.
type Output struct {
	Stdout, Stderr []byte
	// Cut is true when there was more on standard output than is kept.
	Cut bool
}

// Run starts the process in a group of its own and waits for its end. When ctx
// or the timeout ends first, the whole group is killed; it is killed as well
// when this program dies. Standard input is empty and the environment is PATH and
// LC_ALL=C, but for what c says. The output is returned in any case, and what the
// program is, put out for people, and came to goes to where the context has it go
// ([seedbed.WithOutput]).
//
// Errors: ErrUnavailable when the program is not installed; an *Error when it
// did not exit with status 0, which is also the context's error (or
// context.DeadlineExceeded for the timeout) when that ended it.
func Run(ctx context.Context, c Command) (Output, error) {
	path, args, err := c.resolve()
	if err != nil {
		return Output{}, err
	}
	if c.Timeout <= 0 {
		return Output{}, fmt.Errorf("run %s: no timeout given", c.Name)
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	if err := ctx.Err(); err != nil {
		return Output{}, fmt.Errorf("run %s: %w", c.Name, err)
	}

	var stdout, stderr tail
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = c.Dir
	if cmd.Dir == "" {
		cmd.Dir = "/"
	}
	cmd.Env = append([]string{"PATH=" + searchPath(), "LC_ALL=C"}, c.Env...)
	cmd.Stdout, cmd.Stderr = io.Writer(&stdout), io.Writer(&stderr)
	if c.Stdout != nil {
		cmd.Stdout = io.MultiWriter(&stdout, c.Stdout)
	}
	told := tell(ctx, c)
	if c.Stderr != nil {
		cmd.Stderr = io.MultiWriter(&stderr, c.Stderr)
	} else if told != nil {
		cmd.Stderr = io.MultiWriter(&stderr, told)
	}
	if c.Stdin != nil {
		cmd.Stdin = bytes.NewReader(c.Stdin)
	}
	if c.File != nil {
		cmd.ExtraFiles = []*os.File{c.File}
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = killGrace

	// The kernel sends the death signal when the thread that forked ends, not the process: hold the thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err = cmd.Start(); err == nil {
		if c.EndGroup {
			endGroup(cmd)
		}
		err = cmd.Wait()
	}
	if errors.Is(err, exec.ErrWaitDelay) {
		// Something of the group outlived its leader and holds the output.
		_ = cmd.Cancel()
	}
	out := Output{Stdout: stdout.bytes(), Stderr: stderr.bytes(), Cut: stdout.cut}
	if err != nil {
		err = failure(ctx, c, cmd, err, out.Stderr)
	}
	told.end(c, out, err)
	return out, err
}

// endGroup waits for the end of a process, and kills the rest of its group while
// the process is not reaped: until then its number is no other group's.
func endGroup(cmd *exec.Cmd) {
	for unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
}

// resolve finds the program, and puts prlimit(1) before it when there are
// limits: set from outside they would come after the program's start.
func (c Command) resolve() (path string, args []string, err error) {
	if path = opened; c.File == nil {
		if path, err = find(c.Name); err != nil {
			return "", nil, err
		}
	}
	limits := c.Limits.args()
	if limits == nil {
		return path, c.Args, nil
	}
	wrapper, err := find("prlimit")
	if err != nil {
		return "", nil, err
	}
	args = append(append(limits, "--", path), c.Args...)
	return wrapper, args, nil
}

func (l Limits) args() []string {
	var args []string
	if l.Memory > 0 {
		args = append(args, fmt.Sprintf("--as=%d", l.Memory))
	}
	if l.CPU > 0 {
		args = append(args, fmt.Sprintf("--cpu=%d", (l.CPU+time.Second-1)/time.Second))
	}
	if l.FileSize > 0 {
		args = append(args, fmt.Sprintf("--fsize=%d", l.FileSize))
	}
	if l.Files > 0 {
		args = append(args, fmt.Sprintf("--nofile=%d", l.Files))
	}
	if args != nil {
		args = append(args, "--core=0")
	}
	return args
}

// Installed reports whether the program is in PATH; if not, the error is ErrUnavailable and says so.
func Installed(name string) error {
	_, err := find(name)
	return err
}

func find(name string) (string, error) {
	if !strings.Contains(name, "/") {
		for dir := range strings.SplitSeq(searchPath(), ":") {
			if path := dir + "/" + name; strings.HasPrefix(dir, "/") && executable(path) {
				return path, nil
			}
		}
	} else if strings.HasPrefix(name, "/") && executable(name) {
		return name, nil
	}
	return "", seedbed.Errorf(seedbed.ErrUnavailable, "the program %s is not installed on this host (looked in %s)", name, searchPath())
}

func executable(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0
}

func searchPath() string {
	if p := os.Getenv("PATH"); p != "" {
		return p
	}
	return defaultPath
}
