// Package lab starts the real components that the integration and end-to-end
// tests run against: libvirt, Ceph, PostgreSQL, ZooKeeper, Seedbed's own daemons,
// further hosts with a libvirt of their own, and real guests. Each component
// starts from a function, is waited for by a probe, and is stopped with its test.
// A [Keeper] starts the same for a person, who stops them later. It needs root.
package lab

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"
)

// T is for what a component is started: a test, with which it ends, or a [Keeper].
type T interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Cleanup(func())
}

// Lasting is the T of components that several tests of a package use as they are, because they take
// long to make. They end with [Lasting.End], which TestMain calls after the tests.
type Lasting struct{ cleanups []func() }

// Helper implements [T].
func (*Lasting) Helper() {}

// Fatal implements [T].
func (*Lasting) Fatal(args ...any) { panic(fmt.Sprint(args...)) }

// Fatalf implements [T].
func (*Lasting) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// Cleanup implements [T].
func (l *Lasting) Cleanup(f func()) { l.cleanups = append(l.cleanups, f) }

// End ends the components, the last first.
func (l *Lasting) End() {
	for _, f := range slices.Backward(l.cleanups) {
		f()
	}
}

// Root is the top folder of the source tree.
func Root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..")
}

// Patience is how long a test waits for what takes a moment on an idle computer: on a busy one
// everything takes long at times. It only ends tests that hang.
const Patience = 2 * time.Minute

// Await polls cond every 20 ms until it is true, and fails the test with what after timeout. A condition that takes
// long itself, such as one that runs programs, is polled less often, so that it leaves the processors to what it
// waits for.
func Await(t T, timeout time.Duration, what string, cond func() bool) {
	t.Helper()
	const pause, most, share = 20 * time.Millisecond, time.Second, 4
	deadline := time.Now().Add(timeout)
	for {
		began := time.Now()
		if cond() {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %s still not: %s", timeout, what)
		}
		time.Sleep(min(max(pause, share*time.Since(began)), most))
	}
}

// Dir makes a directory that QEMU's own user can pass through, removed with the test.
func Dir(t T) string {
	t.Helper()
	dir, err := makeDir(t)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func makeDir(t T) (string, error) {
	if k, ok := t.(*Keeper); ok {
		return k.mkdir()
	}
	return os.MkdirTemp(dirRoot, dirPrefix)
}

// The lab's directories are in dirRoot, and their names begin with dirPrefix.
const (
	dirRoot   = "/var/tmp"
	dirPrefix = "seedbed-lab."
)

// Process is a program that a test started.
type Process struct {
	Name string
	Cmd  *exec.Cmd
	Log  string // file that holds its output
	done chan struct{}
}

// Start runs a program with its output in logfile; it is killed with the test
// if it still runs.
func Start(t T, logfile, name string, args ...string) *Process {
	t.Helper()
	cmd := exec.Command(name, args...)
	begin := cmd.Start
	if k, ok := t.(*Keeper); ok {
		begin = func() error { return k.begin(cmd) }
	}
	return launch(t, logfile, cmd, begin)
}

// launch has begin start cmd, which is killed with the test if it still runs.
func launch(t T, logfile string, cmd *exec.Cmd, begin func() error) *Process {
	t.Helper()
	out, err := os.OpenFile(logfile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	p := &Process{Name: filepath.Base(cmd.Path), Cmd: cmd, Log: logfile, done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = out, out
	if err := begin(); err != nil {
		t.Fatal(err)
	}
	go func() { cmd.Wait(); close(p.done) }()
	t.Cleanup(func() { p.Kill() })
	return p
}

// Kill sends SIGKILL and waits for the end.
func (p *Process) Kill() { p.Stop(syscall.SIGKILL) }

// Stop sends sig and waits for the end.
func (p *Process) Stop(sig syscall.Signal) {
	p.Cmd.Process.Signal(sig)
	<-p.done
}

// Alive reports whether the program still runs.
func (p *Process) Alive() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Tail is the end of the program's output, for messages.
func (p *Process) Tail() string {
	out := p.Output()
	return out[max(0, len(out)-4000):]
}

// Output is all that the program, and others before it with the same log, have written.
func (p *Process) Output() string {
	b, _ := os.ReadFile(p.Log)
	return string(b)
}

// try runs a command for at most timeout, and gives its output and standard error together.
func try(timeout time.Duration, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// BlankImage makes a small disk that holds a boot signature and nothing to
// boot: a guest of it starts in a moment and idles.
func BlankImage(t testing.TB, dir string) string {
	t.Helper()
	disk := bytes.Repeat([]byte{0}, 1<<20)
	copy(disk, []byte{0xfa, 0xf4, 0xeb, 0xfc}) // cli; hlt; jmp back to hlt
	disk[510], disk[511] = 0x55, 0xaa
	path := filepath.Join(dir, "blank.raw")
	if err := os.WriteFile(path, disk, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}
