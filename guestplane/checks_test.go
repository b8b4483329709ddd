package guestplane

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"seedbed"
	"seedbed/feed"
)

// TestFeedChecks: each says what is the case, and what to do when it fails.
func TestFeedChecks(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		status feed.Status
		want   []string
	}{
		{"at the start", feed.Status{}, []string{"feed: false: seedbedd has not answered yet"}},
		{"away", feed.Status{Problem: "no such file"}, []string{"feed: false: no such file"}},
		{"followed", feed.Status{Connected: true, Revision: 7, Guests: 2},
			[]string{"feed: true: seedbedd answers; revision 7 with 2 instance(s) is applied"}},
		{"held", feed.Status{Connected: true, Revision: 7, Guests: 2, Held: "instance x is on network lab"},
			[]string{"feed: true: seedbedd answers; revision 7 with 2 instance(s) is applied",
				"acknowledgement: false: instance x is on network lab"}},
	} {
		var have []string
		for _, c := range FeedChecks(tt.status) {
			ok := "false"
			if c.OK {
				ok = "true"
			}
			have = append(have, strings.Join([]string{c.Name, ok, c.Detail}, ": "))
			if !c.OK && c.Hint == "" {
				t.Errorf("%s: %s has no hint", tt.name, c.Name)
			}
		}
		if d := cmp.Diff(tt.want, have); d != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, d)
		}
	}
}

// TestSpoolChecks: what was lost is mentioned, and only that.
func TestSpoolChecks(t *testing.T) {
	t.Parallel()
	if got := SpoolChecks(feed.SpoolStats{Sent: 7, Waiting: 9}, "/state"); len(got) != 0 {
		t.Errorf("nothing is lost: %+v", got)
	}
	got := SpoolChecks(feed.SpoolStats{Lost: 257, Dropped: 2 << 20}, "/state")
	if len(got) != 1 || !strings.Contains(got[0].Detail, "257 events of guests, and 2MiB") || !strings.Contains(got[0].Hint, "/state") {
		t.Errorf("%+v", got)
	}
}

// TestLogFailures: a failing check is logged once, and again after it passed, was not among the checks, or failed in another way.
func TestLogFailures(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	p := &Plane{log: slog.New(slog.NewTextHandler(&log, nil))}
	logged := map[string]string{}
	other := seedbed.Check{Name: "other", Detail: "broken"}
	fails := seedbed.Check{Name: "floating address 203.0.113.16", Detail: "a host has it"}
	passes, differs := fails, fails
	passes.OK, differs.Detail = true, "another host has it"
	for i, step := range []struct {
		checks []seedbed.Check
		lines  int // so far
	}{
		{[]seedbed.Check{other, fails}, 2},
		{[]seedbed.Check{other, fails}, 2},
		{[]seedbed.Check{other}, 2},
		{[]seedbed.Check{other, fails}, 3},
		{[]seedbed.Check{other, passes}, 3},
		{[]seedbed.Check{other, fails}, 4},
		{[]seedbed.Check{other, differs}, 5},
	} {
		p.logFailures(step.checks, logged)
		if got := strings.Count(log.String(), "check failed"); got != step.lines {
			t.Errorf("after step %d, %d lines, want %d:\n%s", i, got, step.lines, log.String())
		}
	}
}
