//go:build integration && ceph

package ceph

import (
	"bufio"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"seedbed/internal/lab"
)

// writer is a QEMU that has a volume open, without a guest: qemu-io reads and writes by the block driver of guests.
type writer struct {
	cmd *exec.Cmd
	in  io.Writer
	out chan string // lines
}

func newWriter(t *testing.T, c *lab.CephCluster, source string) *writer {
	t.Helper()
	w := &writer{out: make(chan string, 100)}
	w.cmd = exec.Command("qemu-io", "-f", "raw", "-t", "none",
		fmt.Sprintf("rbd:%s:id=%s:conf=%s:keyring=%s", source, lab.CephUser, c.Conf, c.Keyring))
	var err error
	if w.in, err = w.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	w.cmd.Stderr = w.cmd.Stdout
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(w.out)
		for s := bufio.NewScanner(out); s.Scan(); {
			w.out <- s.Text()
		}
	}()
	t.Cleanup(func() {
		_ = w.cmd.Process.Kill() // also if it is stopped
		_ = w.cmd.Wait()
	})
	return w
}

// does has it run a command, and returns what it says about it within a time.
func (w *writer) does(t *testing.T, within time.Duration, command string) string {
	t.Helper()
	if _, err := fmt.Fprintln(w.in, command); err != nil {
		return err.Error()
	}
	end := time.After(within)
	for {
		select {
		case line, ok := <-w.out:
			switch {
			case !ok:
				return "it has ended"
			case strings.Contains(line, "failed"), strings.Contains(line, "wrote "), strings.Contains(line, "read "):
				return strings.TrimPrefix(line, "qemu-io> ")
			}
		case <-end:
			return fmt.Sprintf("nothing within %s", within)
		}
	}
}

// TestLostOwner: a guest whose node is frozen has the lock of its volume. One that is started with that volume elsewhere breaks it once
// the watch of the first has ended, and the first can then write nothing any more, whenever it wakes up. The rights that
// docs/how-to/nodes.md asks for suffice.
func TestLostOwner(t *testing.T) {
	c := cluster(t)
	p := open(t, config(t, c))
	base(t, p)
	v, err := p.CloneVolume(t.Context(), "job", volume("shared"))
	if err != nil {
		t.Fatal(err)
	}
	first, next := newWriter(t, c, v.Disk.Source), newWriter(t, c, v.Disk.Source)
	if got := first.does(t, time.Minute, "write -P 1 0 64k"); !strings.HasPrefix(got, "wrote") {
		t.Fatalf("the first: %s", got)
	}
	if err := first.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if got := next.does(t, 2*time.Minute, "write -P 2 0 128k"); !strings.HasPrefix(got, "wrote") {
		t.Fatalf("the next, beside a frozen one: %s", got)
	}
	if err := first.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if got := first.does(t, time.Minute, "write -P 3 0 64k"); !strings.Contains(got, "failed") {
		t.Errorf("the first, awake again: %s, want a failure", got)
	}
	if got := next.does(t, time.Minute, "read -P 2 0 128k"); !strings.HasPrefix(got, "read") {
		t.Errorf("what the next has written: %s", got)
	}
}
