package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"seedbed"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// onTerminal returns an app whose output is a terminal.
func onTerminal(out *bytes.Buffer) *App {
	return &App{Out: out, Err: out, Terminal: true, Getenv: func(string) string { return "" }, Now: func() time.Time { return noon }}
}

func TestPrintable(t *testing.T) {
	t.Parallel()
	const hostile = "a\x1b[31m\x9b1m\u202e\x00\tb\nü"
	if got, want := Printable(hostile), "a\uFFFD[31m\uFFFD1m\uFFFD\uFFFD\tb\nü"; got != want {
		t.Errorf("printable = %q, want %q", got, want)
	}
	if got := OneLine("a\n  b\x1b"); got != "a b\uFFFD" {
		t.Errorf("oneLine = %q", got)
	}
	var out bytes.Buffer
	if n, err := (safeWriter{&out}).Write([]byte("a\r\n\x1bc")); n != 5 || err != nil || out.String() != "a\n\uFFFDc" {
		t.Errorf("safeWriter wrote %q, %d, %v", out.String(), n, err)
	}
}

// TestPrintJSON checks that JSON has no character that could control a terminal, and means the same.
func TestPrintJSON(t *testing.T) {
	t.Parallel()
	const hostile = "a\x1b[31m\u009b1m\x7f\u202e\U000e0001\x00\tb\nü<"
	var out bytes.Buffer
	a := onTerminal(&out)
	for name, test := range map[string]struct {
		print func(any) error
		want  string
	}{
		"indented": {a.PrintJSON, "[\n  \"a\\u001b[31m\\u009b1m\\u007f\\u202e\\udb40\\udc01\\u0000\\tb\\nü<\"\n]\n"},
		"a line":   {a.PrintJSONLine, "[\"a\\u001b[31m\\u009b1m\\u007f\\u202e\\udb40\\udc01\\u0000\\tb\\nü<\"]\n"},
	} {
		out.Reset()
		err := test.print([]string{hostile})
		var back []string
		if err != nil || out.String() != test.want || json.Unmarshal(out.Bytes(), &back) != nil || back[0] != hostile {
			t.Errorf("%s: %s, %v; want %s", name, out.String(), err, test.want)
		}
	}
}

func TestTableColours(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	a := onTerminal(&out)
	a.PrintTable([]string{"name", "state"}, [][]string{{"web1", "running"}, {"a-longer\x1bname", "failed"}}, "")
	want := "\x1b[1mNAME\x1b[0m           \x1b[1mSTATE\x1b[0m\n" +
		"web1           \x1b[32mrunning\x1b[0m\n" +
		"a-longer\uFFFDname  \x1b[31mfailed\x1b[0m\n"
	if got := out.String(); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	out.Reset()
	a.Getenv = func(string) string { return "1" } // NO_COLOR
	a.PrintTable([]string{"state"}, [][]string{{"running"}}, "")
	if got := out.String(); got != "STATE\nrunning\n" {
		t.Errorf("without colours: %q", got)
	}
}

func TestTimes(t *testing.T) {
	t.Parallel()
	a := onTerminal(nil)
	for d, want := range map[time.Duration]string{
		0: "0s ago", 59 * time.Second: "59s ago", 61 * time.Second: "1m01s ago", 90 * time.Minute: "1h30m ago",
		49 * time.Hour: "2d1h ago", -time.Hour: "in 1h00m", -time.Millisecond: "0s ago",
	} {
		if got := a.Ago(noon.Add(-d)); got != want {
			t.Errorf("ago(%s) = %q, want %q", d, got, want)
		}
	}
	if a.Ago(time.Time{}) != "" || a.Moment(time.Time{}) != "" || a.Took(time.Time{}, noon) != "" {
		t.Error("the zero time is not empty")
	}
	if got := a.Took(noon.Add(-time.Minute), time.Time{}); got != "1m00s" {
		t.Errorf("took = %q", got)
	}
}

func TestBar(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	p := onTerminal(&out).newProgress(false)
	job := seedbed.Job{ID: "j", Kind: seedbed.JobCreate, Subject: "web1", State: seedbed.JobRunning,
		Stage: "define", Done: 1, Total: 5, Progress: 50, Created: noon.Add(-3 * time.Second)}
	p.seen(seedbed.Event{Seq: 1, Level: "info", Msg: "hidden"}, job)
	p.seen(seedbed.Event{Seq: 2, Level: "warn", Stage: "define", Msg: "told", At: noon}, job)
	p.seen(seedbed.Event{}, job)
	p.end("", nil)
	got := out.String()
	bar := strings.Repeat("█", 7) + strings.Repeat("░", 17) + "  30% create web1: define 2/5, 3s"
	if !strings.HasPrefix(got, bar+"\r\x1b[K") || !strings.HasSuffix(got, bar+"\r\x1b[K") {
		t.Errorf("terminal got %q, want it to begin with %q and end with it taken away", got, bar)
	}
	if strings.Contains(got, "hidden") || !strings.Contains(got, "\x1b[33mwarn \x1b[0m define   told\n") {
		t.Errorf("terminal got %q, want the warning alone", got)
	}
	p.job = job
	if line := p.line(40); len([]rune(line)) > 39 {
		t.Errorf("line(40) = %q", line)
	}
}

// TestAwaited checks what is shown while a job waits for its guest: for what, since when, and the last
// line of the guest's console.
func TestAwaited(t *testing.T) {
	t.Parallel()
	job := seedbed.Job{ID: "j", Kind: seedbed.JobCreate, Subject: "web1", State: seedbed.JobRunning, Stage: "ready", Done: 4, Total: 5,
		Created: noon.Add(-time.Minute)}
	waiting := seedbed.Event{Seq: 1, Level: "info", Stage: "ready", Msg: "waiting until the guest reports in, for at most 10m0s",
		At: noon.Add(-time.Minute)}
	console := func(_ context.Context, name string, _ seedbed.Bytes) ([]byte, error) {
		if name != "web1" {
			t.Errorf("the console of %s is read", name)
		}
		return []byte("[  OK  ] \x1b[0;32mStarted\x1b[0m nginx\x07.\r\n\r\n"), nil
	}
	since := ": since " + waiting.At.Local().Format(time.TimeOnly) + ", 1m00s"
	for name, of := range map[string]struct {
		a     func(*bytes.Buffer) *App
		wants []string
		not   string
	}{
		"terminal": {onTerminal, []string{
			"80% create web1: ready 5/5, 1m00s\n  " + waiting.Msg + since + "\n  console: [ OK ] Started nginx\ufffd.",
			"\r\x1b[K\x1b[1A\r\x1b[K\x1b[1A\r\x1b[K",
		}, "info"},
		"file": {func(out *bytes.Buffer) *App { a := onTerminal(out); a.Terminal = false; return a },
			[]string{"info  ready    " + waiting.Msg + "\n", "info  ready    console: [ OK ] Started nginx\ufffd.\n"}, "\x1b"},
		"quiet": {func(out *bytes.Buffer) *App { a := onTerminal(out); a.Flags.Quiet = true; return a }, nil, "nginx"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var out bytes.Buffer
				ctx, stop := context.WithCancel(t.Context())
				p := of.a(&out).newProgress(false)
				p.wait.Go(func() { p.follow(ctx, console) })
				p.seen(waiting, job)
				time.Sleep(3 * consoleSeldom)
				stop()
				p.end("", nil)
				for _, want := range of.wants {
					if !strings.Contains(out.String(), want) {
						t.Errorf("%q has no %q", out.String(), want)
					}
				}
				if strings.Contains(out.String(), of.not) || strings.Count(out.String(), "console:") > 1 && !p.a.Terminal {
					t.Errorf("%q has %q, or a line twice", out.String(), of.not)
				}
			})
		})
	}
}

// TestFailureIsSaidOnce checks that the progress of a job that fails leaves out what the error of the
// command says, and nothing else.
func TestFailureIsSaidOnce(t *testing.T) {
	t.Parallel()
	const cause = "stage start: no room"
	left := cause + "; left behind: define: it is in use"
	job := seedbed.Job{ID: "0123abcd-0", Kind: seedbed.JobCreate, Subject: "web1"}
	events := func(last string) []seedbed.Event {
		return []seedbed.Event{
			{Level: "info", Stage: "start", Msg: "starting web1"},
			{Level: "warn", Stage: "start", Msg: cause + "; trying again in 1s (2 of 2)"},
			{Level: "error", Stage: "start", Msg: "Traceback: line 1"},
			{Level: "error", Stage: "start", Msg: cause},
			{Level: "error", Stage: "define", Msg: "undo: it is in use"},
			{Level: "info", Stage: "volumes", Msg: "undone"},
			{Level: "warn", Stage: "start", Msg: last},
		}
	}
	for name, of := range map[string]struct {
		state seedbed.JobState
		last  string
		err   string
		wants []string
	}{
		"rolled back": {seedbed.JobRolledBack, "rolled back, nothing is left behind: " + cause, cause,
			[]string{"starting web1", "trying again", "undone", "Traceback: line 1", "undo: it is in use"}},
		"incomplete": {seedbed.JobIncomplete, "rolled back, but not everything could be undone: " + left, left,
			[]string{"starting web1", "trying again", "undone", "Traceback: line 1"}},
		"interrupted": {seedbed.JobUndoing, "", cause,
			[]string{"starting web1", "trying again", "undone", "", "Traceback: line 1", cause, "undo: it is in use"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			p := (&App{Out: &out, Now: time.Now}).newProgress(false)
			ended := job
			ended.State, ended.Error = of.state, of.err
			for i, e := range events(of.last) {
				e.Seq = int64(i + 1)
				p.seen(e, job)
			}
			var failed error
			if of.state.Terminal() {
				failed = outcome(ended)
			}
			p.end(ended.Error, failed)
			lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
			if len(lines) != len(of.wants) {
				t.Fatalf("%d lines, want %d:\n%s", len(lines), len(of.wants), out.String())
			}
			for i, want := range of.wants {
				if !strings.Contains(lines[i], want) {
					t.Errorf("line %d is %q, want %q", i+1, lines[i], want)
				}
			}
		})
	}
}

func TestFraction(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		j := seedbed.Job{Done: rapid.Int().Draw(t, "done"), Total: rapid.Int().Draw(t, "total"), Progress: rapid.Int().Draw(t, "progress")}
		if f := fraction(j); f < 0 || f > 1 {
			t.Errorf("fraction = %v", f)
		}
	})
}

func TestOutcome(t *testing.T) {
	t.Parallel()
	job := seedbed.Job{ID: "0123abcd-0", Kind: seedbed.JobRemove, Subject: "web1", Error: "no room"}
	for state, want := range map[seedbed.JobState]string{
		seedbed.JobSucceeded: "<nil>",
		seedbed.JobFailed: "remove web1 failed and was not rolled back: no room (seedbed job show 0123abcd; " +
			"seedbed job retry 0123abcd continues from the failed stage)",
		seedbed.JobRolledBack: "remove web1 was rolled back, nothing is left behind: no room (seedbed job show 0123abcd)",
		seedbed.JobIncomplete: "remove web1 failed and its rollback is incomplete: no room (seedbed job show 0123abcd)",
	} {
		job.State = state
		if got := fmt.Sprint(outcome(job)); got != want {
			t.Errorf("outcome of %s = %q, want %q", state, got, want)
		}
	}
}

func TestStatus(t *testing.T) {
	t.Parallel()
	a := &App{started: true}
	for want, errs := range map[int][]error{
		exitDone:     {nil},
		exitFailed:   {errors.New("x"), seedbed.Errorf(seedbed.ErrUnavailable, "x"), context.Canceled},
		exitUsage:    {Usagef("x")},
		exitNotFound: {fmt.Errorf("x: %w", seedbed.ErrNotFound)},
		exitRefused: {seedbed.ErrExists, seedbed.ErrInvalid, seedbed.ErrForbidden, seedbed.ErrFull,
			seedbed.ErrUnauthenticated, seedbed.ErrInUse, seedbed.ErrConflict},
		exitTimedOut: {timedOut{"x"}, context.DeadlineExceeded},
	} {
		for _, err := range errs {
			if got := a.status(err); got != want {
				t.Errorf("status(%v) = %d, want %d", err, got, want)
			}
		}
	}
	if got := (&App{}).status(errors.New("unknown flag")); got != exitUsage {
		t.Errorf("status before the command = %d, want %d", got, exitUsage)
	}
}
