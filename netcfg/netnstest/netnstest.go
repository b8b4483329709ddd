// Package netnstest gives tests hosts and guests that are network namespaces.
// The whole test binary runs in a fresh one, which plays the host, so that the
// machine's own is never touched. It needs root.
package netnstest

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const marker = "SEEDBED_NETNSTEST"

// limit is the time that any step may take.
const limit = time.Minute

// Main is for TestMain: it runs the tests in a child with a network namespace
// and mounts of its own, where /etc/resolv.conf is a copy, and returns the
// exit status.
func Main(m *testing.M) int {
	if os.Getenv(marker) != "" {
		if err := prepare(); err != nil {
			fmt.Fprintln(os.Stderr, "netnstest:", err)
			return 1
		}
		return m.Run()
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), marker+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &unix.SysProcAttr{Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWNS | unix.CLONE_NEWUTS, Pdeathsig: unix.SIGKILL}
	runtime.LockOSThread() // Pdeathsig is about the thread
	if err := cmd.Run(); err != nil {
		if cmd.ProcessState == nil {
			fmt.Fprintln(os.Stderr, "netnstest: these tests need root:", err)
			return 1
		}
		return max(1, cmd.ProcessState.ExitCode())
	}
	return 0
}

func prepare() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	f, err := os.CreateTemp("", "resolv.conf")
	if err != nil {
		return err
	}
	f.Close()
	defer os.Remove(f.Name()) // the mount keeps it
	if err := unix.Mount(f.Name(), "/etc/resolv.conf", "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("cover /etc/resolv.conf: %w", err)
	}
	return exec.Command("ip", "link", "set", "lo", "up").Run()
}

// Namespace is a network namespace that lives in one thread of the test.
type Namespace struct {
	tid  int
	work chan func()
}

// New makes a namespace that ends with the test.
func New(t testing.TB) *Namespace {
	t.Helper()
	n := &Namespace{work: make(chan func())}
	ready := make(chan error)
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread dies with the goroutine, and the namespace with it
		n.tid = unix.Gettid()
		err := unix.Unshare(unix.CLONE_NEWNET)
		ready <- err
		if err != nil {
			return
		}
		for f := range n.work {
			f()
		}
	}()
	if err := <-ready; err != nil {
		t.Fatalf("make a network namespace: %v", err)
	}
	t.Cleanup(func() { close(n.work); <-done })
	n.Run(t, "ip", "link", "set", "lo", "up")
	return n
}

// PID names the namespace for ip link … netns.
func (n *Namespace) PID() string { return strconv.Itoa(n.tid) }

// Do runs f in the namespace: its own system calls and the processes that it starts.
func (n *Namespace) Do(f func()) {
	done := make(chan struct{})
	n.work <- func() { defer close(done); f() }
	<-done
}

// Run runs a program in the namespace and returns what it printed; it must succeed.
func (n *Namespace) Run(t testing.TB, name string, args ...string) string {
	t.Helper()
	var out string
	var err error
	n.Do(func() { out, err = run(name, args...) })
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return out
}

// Run runs a program in the host's namespace; it must succeed.
func Run(t testing.TB, name string, args ...string) string {
	t.Helper()
	out, err := run(name, args...)
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return out
}

// Try runs a program in the host's namespace, and returns an error if it fails.
func Try(name string, args ...string) error {
	_, err := run(name, args...)
	return err
}

func run(name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

// Veth joins the host and a namespace: name is the host's end, and eth0 with
// the given MAC the other. Both are up, and gone with the test.
func Veth(t testing.TB, name string, n *Namespace, mac string) {
	t.Helper()
	Run(t, "ip", "link", "add", name, "type", "veth", "peer", "name", "eth0", "address", mac, "netns", strconv.Itoa(n.tid))
	t.Cleanup(func() { run("ip", "link", "del", name) })
	Run(t, "ip", "link", "set", name, "up")
	n.Run(t, "ip", "link", "set", "eth0", "up")
	// The kernel passes frames on a little after that.
	up := func() bool {
		return isUp(Run(t, "ip", "link", "show", name)) && isUp(n.Run(t, "ip", "link", "show", "eth0"))
	}
	for end := time.Now().Add(limit); !up(); {
		if time.Now().After(end) {
			t.Fatalf("%s does not come up", name)
		}
		time.Sleep(time.Millisecond)
	}
}

func isUp(link string) bool { return strings.Contains(link, " state UP ") }

// Process is a program that runs beside the test.
type Process struct {
	PID  int
	Stop func() // ends its input and waits for it
}

// Background starts a program in the host's namespace that prints a line once
// it is ready, and ends when its input does. It is stopped with the test.
func Background(t testing.TB, name string, args ...string) Process {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop := sync.OnceFunc(func() { in.Close(); cmd.Wait() })
	t.Cleanup(stop)
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("%s said %q, %v", name, line, err)
	}
	return Process{PID: cmd.Process.Pid, Stop: stop}
}
