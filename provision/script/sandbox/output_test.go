package sandbox

import (
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"seedbed"
)

func gather(limit seedbed.Bytes) (*output, *[]string) {
	var got []string
	return newOutput(Spec{Limits: Limits{Output: limit}, Output: func(stream string, line []byte) {
		got = append(got, stream+": "+string(line))
	}}), &got
}

// readAll has a stream read something other than its pipe.
func readAll(o *output, r io.Reader) {
	s := newStream(o, Stdout, nil)
	for err := error(nil); err == nil; {
		_, err = s.pull(r.Read, cap(s.buf))
	}
	s.rest(len(s.buf))
}

func TestOutput(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", longest/2-1) + "x" // its last é would be cut in two
	for _, tt := range []struct {
		name, in string
		limit    seedbed.Bytes
		want     []string
	}{
		{"nothing", "", seedbed.MiB, nil},
		{"lines", "a\r\n\nb\n", seedbed.MiB, []string{"stdout: a", "stdout: ", "stdout: b"}},
		{"no end", "a\nb", seedbed.MiB, []string{"stdout: a", "stdout: b"}},
		{"not UTF-8", "a\xff\xfeb\x00c\n", seedbed.MiB, []string{"stdout: a\uFFFDb\uFFFDc"}},
		{"a long line", long + "éz\n", seedbed.MiB, []string{"stdout: " + long, "stdout: éz"}},
		{"longer by replacement", strings.Repeat("a\xff", longest/2) + "\n", seedbed.MiB,
			[]string{"stdout: " + strings.Repeat("a\uFFFD", longest/4), "stdout: " + strings.Repeat("a\uFFFD", longest/4)}},
		{"its limit", "12345\n12345\n12345\n", 13,
			[]string{"stdout: 12345", "stdout: 12345", "sandbox: the output is longer than 13, its limit: the rest is dropped"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, r := range []io.Reader{strings.NewReader(tt.in), iotest.OneByteReader(strings.NewReader(tt.in)),
				iotest.DataErrReader(strings.NewReader(tt.in))} {
				o, got := gather(tt.limit)
				readAll(o, r)
				if diff := cmp.Diff(tt.want, *got); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
}

func TestNotes(t *testing.T) {
	t.Parallel()
	o, got := gather(seedbed.MiB)
	for range 3 * maxNotes {
		o.note("a\nb" + strings.Repeat("x", 2*longest))
	}
	if len(*got) != maxNotes {
		t.Errorf("%d notes, want %d", len(*got), maxNotes)
	}
	if first := (*got)[0]; !strings.HasPrefix(first, "sandbox: a bx") || len(first) != len("sandbox: ")+longest {
		t.Errorf("note of %d bytes: %.20s", len(first), first)
	}
}

func FuzzOutput(f *testing.F) {
	f.Add([]byte("a\nb\xff\x00\r\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		o := newOutput(Spec{Limits: Limits{Output: seedbed.MiB}, Output: func(_ string, line []byte) {
			if len(line) > longest || !utf8.Valid(line) || strings.ContainsAny(string(line), "\x00\n") {
				t.Errorf("line %q", line)
			}
		}})
		readAll(o, strings.NewReader(strings.Repeat(string(in), 64)))
	})
}
