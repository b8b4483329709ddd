// Package command starts processes. Only this package does. Run runs a tool that has no library, such
// as qemu-img, with a list of arguments, a deadline, bounded output, a minimal environment and
// resource limits.
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
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"seedbed"
)

// OutputLimit is how many bytes are kept of the end of each output stream.
const OutputLimit = 64 * seedbed.KiB

// killGrace is how long to wait for the output of a process that was killed or has ended. On a host with much to do, the processes that a
// daemon leaves behind while it starts take seconds to end.
const killGrace = 10 * time.Second

// opened is the path of the only descriptor that a program inherits.
const opened = "/proc/self/fd/3"

const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Command is one process to run.
type Command struct {
	// Name is a program found in PATH, or its absolute path.
	Name string
	// Args are the arguments after the name. Every user of the host can see them, so they must not
	// hold secrets.
	Args []string
	// Dir is the working directory; empty means "/".
	Dir string
	// Timeout limits how long it may run, in addition to the context. It must be positive.
	Timeout time.Duration
	// Limits bound its resources. The zero value sets no bounds.
	Limits Limits
	// Stdout, if set, also gets the complete standard output as it arrives.
	Stdout io.Writer
	// Stderr, if set, also gets the complete standard error. The command is then not reported to
	// the output sink of the context.
	Stderr io.Writer
	// File, if set, is the opened program, so that exactly the checked file runs. Name is then only
	// for messages. The program inherits it as descriptor 3.
	File *os.File
	// Stdin is the standard input.
	Stdin []byte
	// Env holds variables in addition to PATH and LC_ALL, as name=value.
	Env []string
	// Confined, if set, takes root's rights from it. File is then not used.
	Confined *Confined
	// Sockets are sockets that the program inherits, as the descriptors after those of File or of
	// Confined.
	Sockets []*os.File
	// EndGroup kills what is left of its process group once the program has ended.
	EndGroup bool
}

// Limits are resource limits (setrlimit(2)). They hold from the first instruction of the program.
// Zero means no limit.
type Limits struct {
	// Memory bounds the address space (RLIMIT_AS).
	Memory seedbed.Bytes
	// CPU bounds the processor time, rounded up to seconds (RLIMIT_CPU).
	CPU time.Duration
	// FileSize bounds each file that it writes (RLIMIT_FSIZE).
	FileSize seedbed.Bytes
	// Files bounds the number of open files (RLIMIT_NOFILE).
	Files int
}

// Output is what a process wrote: the last OutputLimit bytes of each stream.
type Output struct {
	Stdout, Stderr []byte
	// Cut is true if standard output had more than is kept.
	Cut bool
}

// Run starts the process in its own process group and waits until it has ended. It kills the whole
// group if ctx or the timeout ends first. The group is also killed if this program dies. Unless c
// says otherwise, standard input is empty and the environment is PATH and LC_ALL=C. Run always
// returns the output. It also sends the command line, the standard error and the exit status to the
// output sink of the context ([seedbed.WithOutput]).
//
// Run returns ErrUnavailable if the program is not installed, and an *Error if it did not exit with
// status 0. That is also the error of the context, or context.DeadlineExceeded for the timeout, if
// one of these ended it.
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
	switch {
	case c.Confined != nil:
		cmd.ExtraFiles = slices.Clone(c.Confined.Files)
	case c.File != nil:
		cmd.ExtraFiles = []*os.File{c.File}
	}
	cmd.ExtraFiles = append(cmd.ExtraFiles, c.Sockets...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = killGrace

	err = c.start(cmd)
	if errors.Is(err, exec.ErrWaitDelay) {
		// A process of the group outlived the leader and has the output open.
		_ = cmd.Cancel()
	}
	out := Output{Stdout: stdout.bytes(), Stderr: stderr.bytes(), Cut: stdout.cut}
	if err != nil {
		err = failure(ctx, c, cmd, err, out.Stderr)
	}
	told.end(c, out, err)
	return out, err
}

// start starts the process and waits for its end.
func (c Command) start(cmd *exec.Cmd) error {
	run := func() error {
		if err := cmd.Start(); err != nil {
			return err
		}
		if c.EndGroup {
			endGroup(cmd)
		}
		return cmd.Wait()
	}
	if c.Confined != nil {
		program, err := find(c.Name)
		if err != nil {
			return err
		}
		return c.Confined.start(cmd, program, run)
	}
	// The kernel sends the death signal when the forking thread ends, so keep that thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return run()
}

// endGroup waits until a process has ended, and kills the rest of its group before the process is
// reaped. Until then its number cannot become that of another group.
func endGroup(cmd *exec.Cmd) {
	for unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
}

// resolve finds the program. If there are limits, it runs the program by prlimit(1), since limits set
// from outside would come after the start of the program.
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

// Installed returns ErrUnavailable unless the program is in PATH.
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
