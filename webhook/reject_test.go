package webhook

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"seedbed"
)

// TestRejectionsAreCounted checks that the reason for refusing a sender is counted and not answered.
func TestRejectionsAreCounted(t *testing.T) {
	t.Parallel()
	m := &memory{}
	s := start(t, Config{Hooks: testDirectory(t), History: m, Intake: &ledger{}})
	want := map[string]int64{"no signature matches": 2, "timestamp is too old": 1, "timestamp is in the future": 1}
	now := time.Now()
	for _, headers := range []map[string]string{
		signed([]byte("another key"), "msg_1", now, create), signed([]byte("another key"), "msg_2", now, create),
		signed(vectorKey(t), "msg_3", now.Add(-time.Hour), create), signed(vectorKey(t), "msg_4", now.Add(time.Hour), create),
	} {
		got := s.raw(t, message("POST", "/hooks/ci", headers, create))
		if got.status != 401 || got.problem(t).Detail != unproven.Detail {
			t.Errorf("answer %+v", got)
		}
	}
	s.raw(t, message("POST", "/hooks/none", signed(vectorKey(t), "msg_5", now, create), create))
	if err := s.stop(); err != nil {
		t.Error(err)
	}
	counted := map[string]int64{}
	for _, r := range m.rejected {
		if counted[r.Reason] += r.Times; r.Hook != "ci" || r.Peer != "127.0.0.1" {
			t.Errorf("counted %+v", r)
		}
	}
	if fmt.Sprint(counted) != fmt.Sprint(want) {
		t.Errorf("counted %v, want %v", counted, want)
	}
}

// TestHooksAreNotTold sends strangers' deliveries to hooks of all kinds, and to none. The answers must be the same:
// they tell neither which hooks there are, nor what they are like.
func TestHooksAreNotTold(t *testing.T) {
	t.Parallel()
	none := []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
	all := map[string]seedbed.Hook{}
	for name, change := range map[string]func(*seedbed.Hook){
		"plain": func(*seedbed.Hook) {}, "elsewhere": func(h *seedbed.Hook) { h.CIDRs = none },
		"small": func(h *seedbed.Hook) { h.MaxBody = 10 }, "mapped": func(h *seedbed.Hook) { h.Mapping = "body" },
		"github": func(h *seedbed.Hook) { h.Scheme = seedbed.SchemeGitHub }, "gitlab": func(h *seedbed.Hook) { h.Scheme = seedbed.SchemeGitLab },
		"certified": func(h *seedbed.Hook) { h.Subjects = []string{"a.example"} },
	} {
		h := seedbed.Hook{Name: name}
		h.Keys, h.Scheme = keys(vectorKey(t)), seedbed.SchemeStandard
		change(&h)
		all[name] = h
	}
	s := start(t, Config{Hooks: directory{hooks: all}, Intake: &ledger{}})
	wrong := signed([]byte("another key"), "msg_1", time.Now(), create)
	with := func(name, value string) map[string]string {
		h := maps.Clone(wrong)
		h[name] = value
		return h
	}
	for what, headers := range map[string]map[string]string{
		"wrong":       wrong,
		"no id":       with("webhook-id", ""),
		"malformed":   with("webhook-timestamp", "now"),
		"github":      {"Content-Type": "application/json", "X-Hub-Signature-256": "sha256=" + strings.Repeat("0", 64)},
		"gitlab":      {"Content-Type": "application/json", "X-Gitlab-Token": "guess"},
		"unsigned":    {"Content-Type": "application/json"},
		"a form":      {"Content-Type": "application/x-www-form-urlencoded"},
		"no document": {"Content-Type": "text/plain"},
		"compressed":  with("Content-Encoding", "gzip"),
	} {
		want := deliver(t, s, "nobody", headers, create)
		for name := range all {
			if got := deliver(t, s, name, headers, create); got.status != want.status || got.body != want.body {
				t.Errorf("%s to the hook %s: %d %s; to none: %d %s", what, name, got.status, got.body, want.status, want.body)
			}
		}
	}
}

// TestRejectionsAreFew checks that many strangers cause few writes of few counts.
func TestRejectionsAreFew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := &memory{}
		r := rejections{seen: map[rejected]*seedbed.Rejection{}, more: make(chan struct{}, 1)}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { r.run(ctx, m, slog.New(slog.DiscardHandler)); close(done) }()
		const strangers = 10000
		for n := range strangers {
			r.add(rejected{"ci", fmt.Sprint(n), "no signature matches"}, time.Now())
		}
		cancel()
		<-done
		var times int64
		for _, of := range m.rejected {
			times += of.Times
		}
		if times != strangers || len(m.rejected) > 2*(maxRejected+1) {
			t.Errorf("%d counts of %d deliveries", len(m.rejected), times)
		}
	})
}
