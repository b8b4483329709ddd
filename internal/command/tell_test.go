package command

import (
	"context"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"seedbed"

	"github.com/google/go-cmp/cmp"
)

// listen is ctx with what commands put out going to the list that all gives.
func listen(ctx context.Context) (_ context.Context, all func() []string) {
	var mu sync.Mutex
	var lines []string
	ctx = seedbed.WithOutput(ctx, func(l seedbed.OutputLine) {
		mu.Lock()
		defer mu.Unlock()
		text := l.Text
		if before, _, ok := strings.Cut(text, " after "); ok && l.Stream == seedbed.OutputNote {
			text = before + " after …"
		}
		lines = append(lines, l.Stream+": "+text)
	})
	return ctx, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return lines
	}
}

func TestTell(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, script string
		change       func(*Command)
		want         []string
	}{
		{"well", "echo out; echo err >&2", nil, []string{"stderr: err", "stdout: out", "note: sh: ended well after …"}},
		{"failed", "printf 'one\\rtwo\\n\\nthree' >&2; exit 3", nil,
			[]string{"stderr: one", "stderr: two", "stderr: three", "note: sh: exit status 3 after …"}},
		{"killed", "kill -KILL $$", nil, []string{"note: sh: ended by signal: killed after …"}},
		{"for programs", `echo ' {"a": 1}'`, nil, []string{"note: sh: ended well after …"}},
		{"progress", "echo 50", func(c *Command) { c.Stdout = io.Discard }, []string{"note: sh: ended well after …"}},
		{"no text", `printf 'a\377b\n' >&2`, nil, []string{"stderr: a\ufffdb", "note: sh: ended well after …"}},
		{"the caller tells", "echo err >&2", func(c *Command) { c.Stderr = io.Discard }, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ctx, all := listen(t.Context())
			command := sh(c.script, "a b", "")
			want := c.want
			if want != nil {
				want = append([]string{"note: " + command.line()}, want...)
			}
			if c.change != nil {
				c.change(&command)
			}
			_, _ = Run(ctx, command)
			if d := cmp.Diff(want, all()); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestTellsWhatWasStopped(t *testing.T) {
	t.Parallel()
	command := sh("echo begun >&2; sleep 1000")
	want := []string{"note: " + command.line(), "stderr: begun", "note: sh: context deadline exceeded after …"}
	for command.Timeout = 300 * time.Millisecond; ; command.Timeout *= 4 { // until the program has had the time to begin
		ctx, all := listen(t.Context())
		if _, err := Run(ctx, command); err == nil {
			t.Fatal("no error")
		}
		if got := all(); slices.Contains(got, "stderr: begun") || command.Timeout > patience {
			if d := cmp.Diff(want, got); d != "" {
				t.Error(d)
			}
			return
		}
	}
}

func TestTellIsBounded(t *testing.T) {
	t.Parallel()
	ctx, all := listen(t.Context())
	if _, err := Run(
		ctx, sh("head -c 20000 /dev/zero | tr '\\0' x >&2; echo >&2; i=0; while [ $i -lt 10000 ]; do echo line $i >&2; i=$((i+1)); done"),
	); err != nil {
		t.Fatal(err)
	}
	lines, size := all(), 0
	for _, l := range lines {
		size += len(l)
		if len(l) > int(seedbed.MaxOutputLine)+len("stderr: ") {
			t.Errorf("a line of %d bytes", len(l))
		}
	}
	if size > 4*int(toldLimit) {
		t.Errorf("%d bytes were told of", size)
	}
	if note := lines[len(lines)-2]; !strings.HasSuffix(note, "more of the output of sh are left out") {
		t.Errorf("last line but one: %q", note)
	}
}

func TestLine(t *testing.T) {
	t.Parallel()
	c := Command{Name: "qemu-img", Args: []string{"convert", "-p", "", "/srv/a b.qcow2", "x\"y\n"}}
	if d := cmp.Diff(`qemu-img convert -p "" "/srv/a b.qcow2" "x\"y\n"`, c.line()); d != "" {
		t.Error(d)
	}
	c.Args = []string{strings.Repeat("x", 10000)}
	if n := len(c.line()); n > int(seedbed.MaxOutputLine) {
		t.Errorf("a line of %d bytes", n)
	}
}
