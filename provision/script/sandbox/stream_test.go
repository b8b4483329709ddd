package sandbox

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"seedbed"
)

// printer is an output with the program's ends of its pipes.
func printer(t *testing.T, o *output) (stdout, stderr *os.File) {
	t.Helper()
	stdout, stderr, err := o.pipes(uint32(os.Getuid()))
	if err != nil {
		t.Fatal(err)
	}
	return stdout, stderr
}

// TestDrain has nobody follow the pipes: what has been taken, drain has taken.
func TestDrain(t *testing.T) {
	t.Parallel()
	o, got := gather(seedbed.MiB)
	stdout, stderr := printer(t, o)
	for _, step := range []struct {
		name, out, err string
		rest           bool
		want           []string
	}{
		{"nothing", "", "", true, nil},
		{"lines", "a\nb\n", "c\n", false, []string{"stdout: a", "stdout: b", "stderr: c"}},
		{"within a line", "d\ne", "", false, []string{"stdout: d"}},
		{"the line goes on", "f\n", "g", false, []string{"stdout: ef"}},
		{"the rest", "h", "", true, []string{"stdout: h", "stderr: g"}},
		{"a rest within a character", "i\xc3", "", true, []string{"stdout: i"}},
		{"the character's end", "\xa9\n", "", true, []string{"stdout: é"}},
		{"a beginning", "z", "", false, nil},
		{"more than there is room for", strings.Repeat("x\n", 8*longest), "", false,
			append([]string{"stdout: zx"}, slices.Repeat([]string{"stdout: x"}, 8*longest-1)...)},
	} {
		*got = nil
		fmt.Fprint(stdout, step.out)
		fmt.Fprint(stderr, step.err)
		o.drain(step.rest)
		if diff := cmp.Diff(step.want, *got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.name, diff)
		}
	}
	*got = nil
	fmt.Fprint(stdout, "last")
	stdout.Close()
	stderr.Close()
	o.read()
	o.finish()
	o.drain(true) // after the end it does nothing
	if diff := cmp.Diff([]string{"stdout: last"}, *got); diff != "" {
		t.Errorf("at the end (-want +got):\n%s", diff)
	}
}

// TestDrainFollowed has both readers at work: each line comes once, in order, and
// is there when drain returns.
func TestDrainFollowed(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var got []string
	o := newOutput(Spec{Limits: Limits{Output: seedbed.MiB}, Output: func(_ string, line []byte) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, string(line))
	}})
	stdout, stderr := printer(t, o)
	o.read()
	var want []string
	for n := range 2000 {
		line := fmt.Sprint("line ", n)
		want = append(want, line)
		fmt.Fprintln(stdout, line)
		o.drain(true)
		mu.Lock()
		if len(got) != n+1 || got[n] != line {
			t.Errorf("after %q there are %d lines, the last %q", line, len(got), got[max(0, len(got)-1):])
		}
		mu.Unlock()
		if t.Failed() {
			break
		}
	}
	stdout.Close()
	stderr.Close()
	o.finish()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("in all (-want +got):\n%s", diff)
	}
}

// TestDrainEnds drains a pipe into which somebody prints without an end.
func TestDrainEnds(t *testing.T) {
	t.Parallel()
	o := newOutput(Spec{Limits: Limits{Output: seedbed.MiB}, Output: func(string, []byte) {}})
	stdout, stderr := printer(t, o)
	o.read()
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for text := []byte(strings.Repeat("y\n", longest)); ; {
			select {
			case <-stop:
				return
			default:
				_, _ = stdout.Write(text)
			}
		}
	}()
	for range 100 {
		o.drain(false)
	}
	close(stop)
	<-done
	stdout.Close()
	stderr.Close()
	o.finish()
}
