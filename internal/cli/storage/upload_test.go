package storage

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"seedbed"
	"seedbed/internal/cli"
)

func TestUploadBar(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	at := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	a := &cli.App{Out: &out, Err: &out, Terminal: true, Getenv: func(string) string { return "" }, Now: func() time.Time { return at }}
	a.Now = func() time.Time { return at }
	const size = 4 * seedbed.MiB
	bar := newUploadBar(a, bytes.NewReader(make([]byte, size)), size)
	for range 4 {
		at = at.Add(time.Second)
		if _, err := io.CopyN(io.Discard, bar, int64(seedbed.MiB)); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := bar.line(at, 200), strings.Repeat("█", cli.BarWidth)+" 100% upload 4 of 4 MiB, 1 MiB/s, 4s"; got != want {
		t.Errorf("got %q; want %q", got, want)
	}
	bar.end()
	if got := out.String(); !strings.Contains(got, " 25% upload 1 of 4 MiB") || !strings.HasSuffix(got, "\r\x1b[K") {
		t.Errorf("the terminal got %q", got)
	}
	out.Reset()
	a.Flags.Quiet = true
	quiet := newUploadBar(a, bytes.NewReader(make([]byte, 10)), 10)
	if _, err := io.Copy(io.Discard, quiet); err != nil {
		t.Fatal(err)
	}
	if quiet.end(); out.Len() != 0 {
		t.Errorf("a quiet upload wrote %q", out.String())
	}
}
