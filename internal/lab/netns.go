package lab

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

var namespaces atomic.Int32

// Netns makes a network namespace with its loopback up, removed with the test.
func Netns(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("sblab-%d-%d", os.Getpid(), namespaces.Add(1))
	IP(t, "netns", "add", name)
	t.Cleanup(func() { exec.Command("ip", "netns", "del", name).Run() })
	IP(t, "-n", name, "link", "set", "lo", "up")
	return name
}

// IP runs ip(8) and fails the test when it fails.
func IP(t testing.TB, args ...string) {
	t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		t.Fatalf("ip %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// In runs a command inside a namespace for at most timeout and returns its output.
func In(t testing.TB, netns string, timeout time.Duration, name string, args ...string) (string, error) {
	t.Helper()
	return try(timeout, "ip", append([]string{"netns", "exec", netns, name}, args...)...)
}
