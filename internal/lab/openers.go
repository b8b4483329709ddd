package lab

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Opener is a process that has a file open.
type Opener struct {
	PID  int
	Name string
	// User is the number of its user, and Seccomp its mode: 2 if system calls are filtered.
	User, Seccomp string
}

// String implements fmt.Stringer.
func (o Opener) String() string {
	return fmt.Sprintf("%s (process %d, user %s, seccomp %s)", o.Name, o.PID, o.User, o.Seccomp)
}

// Confined reports whether the process runs as nobody and with filtered system calls.
func (o Opener) Confined() bool { return o.User == "65534" && o.Seccomp == "2" }

// Openers returns the processes besides this one that have the file at that path open.
func Openers(t T, path string) []Opener {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	var all []Opener
	for _, link := range links {
		if target, err := os.Readlink(link); err != nil || target != path {
			continue
		}
		dir := filepath.Dir(filepath.Dir(link))
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil || pid == os.Getpid() || len(all) > 0 && all[len(all)-1].PID == pid {
			continue
		}
		if status, err := os.ReadFile(filepath.Join(dir, "status")); err == nil { // it has not ended
			all = append(all, Opener{pid, field(status, "Name"), field(status, "Uid"), field(status, "Seccomp")})
		}
	}
	return all
}

// field returns the first word of a line of /proc/PID/status.
func field(status []byte, name string) string {
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			if words := strings.Fields(rest); len(words) > 0 {
				return words[0]
			}
		}
	}
	return ""
}
