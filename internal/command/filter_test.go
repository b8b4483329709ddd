package command

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestFilter checks that a confined program is refused what it does not need, and that others are not.
func TestFilter(t *testing.T) {
	t.Parallel()
	var script strings.Builder
	for _, call := range refused { // with arguments of which nothing comes
		fmt.Fprintf(&script, "$! = 0; syscall(%d, -1, -1, -1, -1, -1); print 0+$!, \"\\n\";", call)
	}
	tries := map[string]string{
		"calls": script.String(),
		"user space": fmt.Sprintf("$! = 0; my $p = syscall(%d, %d, 0, 0, 0, 0); exit 0 if !$p; print 0+$!", unix.SYS_CLONE,
			unix.CLONE_NEWUSER|int(unix.SIGCHLD)),
		"clone3": fmt.Sprintf("$! = 0; syscall(%d, 0, 0); print 0+$!", unix.SYS_CLONE3),
		"fork":   "my $p = fork; exit 0 if !$p; waitpid $p, 0; print $?",
	}
	run := func(name string, confined *Confined) string {
		t.Helper()
		out, err := Run(t.Context(), Command{Name: "perl", Args: []string{"-e", tries[name]}, Timeout: patience, Confined: confined})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return string(out.Stdout)
	}
	if got, want := run("calls", &Confined{}), strings.Repeat(fmt.Sprintf("%d\n", unix.EPERM), len(refused)); got != want {
		t.Errorf("the calls end with %q", strings.Fields(got))
	}
	for name, want := range map[string]string{"user space": fmt.Sprint(int(unix.EPERM)), "clone3": fmt.Sprint(int(unix.ENOSYS)), "fork": "0"} {
		if got := run(name, &Confined{}); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if got := run("clone3", nil); got == fmt.Sprint(int(unix.ENOSYS)) {
		t.Errorf("clone3 is refused to a program that is not confined")
	}
}
