package lab

import (
	"strings"
	"testing"
	"time"
)

// place is where programs run: a [Host], or a [namespace].
type place interface {
	// start runs a program until the test is over.
	start(logfile, name string, args ...string) *Process
	// try runs a command, and gives its output and standard error together.
	try(timeout time.Duration, name string, args ...string) (string, error)
}

// namespace is this machine itself, in one of its network namespaces; an empty
// name is the test's own.
type namespace struct {
	t    testing.TB
	name string
}

func (n namespace) start(logfile, name string, args ...string) *Process {
	n.t.Helper()
	if n.name == "" {
		return Start(n.t, logfile, name, args...)
	}
	return Start(n.t, logfile, "ip", append([]string{"netns", "exec", n.name, name}, args...)...)
}

func (n namespace) try(timeout time.Duration, name string, args ...string) (string, error) {
	n.t.Helper()
	if n.name == "" {
		return try(timeout, name, args...)
	}
	return In(n.t, n.name, timeout, name, args...)
}

// shell runs commands in one place.
type shell struct {
	t  testing.TB
	at place
}

// Try runs a command there, and gives its output and standard error together.
func (s shell) Try(name string, args ...string) (string, error) {
	s.t.Helper()
	return s.at.try(2*time.Minute, name, args...)
}

// Run is Try for a command that must succeed.
func (s shell) Run(name string, args ...string) string {
	s.t.Helper()
	out, err := s.Try(name, args...)
	if err != nil {
		s.t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return out
}

// Virsh runs a command of the libvirt that is there, which must succeed.
func (s shell) Virsh(args ...string) string {
	s.t.Helper()
	return strings.TrimSpace(s.Run("virsh", append([]string{"-q", "-c", "qemu:///system"}, args...)...))
}

// Domains are the names of all domains of that libvirt, running or not.
func (s shell) Domains() []string {
	s.t.Helper()
	return strings.Fields(s.Virsh("list", "--all", "--name"))
}
