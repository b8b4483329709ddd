package lab

import (
	"bufio"
	"errors"
	"io"
	"os/exec"
	"strings"
)

// HoldOpen has a process hold the qcow2 file open and locked, as a domain does, until the
// function that it returns is called, or the end of the test.
func HoldOpen(t T, path string) (release func()) {
	t.Helper()
	user := exec.Command("qemu-io", "-f", "qcow2", path) // waits for commands
	stdin, err := user.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := user.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := user.Start(); err != nil {
		t.Fatal(err)
	}
	released := false
	release = func() {
		t.Helper()
		if released {
			return
		}
		released = true
		if err := errors.Join(stdin.Close(), user.Wait()); err != nil {
			t.Fatalf("qemu-io, which held %s open: %v", path, err)
		}
	}
	t.Cleanup(release)
	// Its first answer comes once it has the file open. Who looked at the file instead would be in its way.
	if _, err := io.WriteString(stdin, "length\n"); err != nil {
		t.Fatal(err)
	}
	answers := bufio.NewScanner(stdout)
	for answers.Scan() && !strings.Contains(answers.Text(), "iB") {
	}
	if !strings.Contains(answers.Text(), "iB") {
		t.Fatalf("qemu-io does not open %s", path)
	}
	return release
}
