package webhook

import (
	"context"
	"errors"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"seedbed"
)

// A key that another control host has just made counts, although what is remembered of the hook is
// without it; strangers cannot have the hook read for each of their guesses.
func TestReadAgain(t *testing.T) {
	t.Parallel()
	old, next := vectorKey(t), []byte("the next key of that hook, 32 b.")
	hook := seedbed.Hook{Name: "ci", HookSettings: of(seedbed.SchemeStandard), Keys: keys(old), Actions: []string{"create"}}
	rotated := func(change func(*seedbed.Hook)) seedbed.Hook {
		h := hook
		h.Keys = append(keys(old), seedbed.HookKey{ID: "k2", Secret: next})
		if change != nil {
			change(&h)
		}
		return h
	}
	for name, test := range map[string]struct {
		now    seedbed.Hook
		err    error
		key    []byte
		status int
		reads  int64
	}{
		"a new key":         {rotated(nil), nil, next, 202, 1},
		"the one before":    {rotated(nil), nil, old, 202, 0},
		"a key of nobody's": {rotated(nil), nil, make([]byte, 32), 401, 1},
		"nothing is new":    {hook, nil, next, 401, 1},
		"the store is down": {hook, errors.New("no connection"), next, 401, 1},
		"removed meanwhile": {hook, seedbed.ErrNotFound, next, 401, 1},
		"from elsewhere now": {rotated(func(h *seedbed.Hook) { h.CIDRs = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")} }),
			nil, next, 401, 1},
		"another scheme now":     {rotated(func(h *seedbed.Hook) { h.Scheme = seedbed.SchemeGitHub }), nil, next, 401, 1},
		"a smaller body now":     {rotated(func(h *seedbed.Hook) { h.MaxBody = 1 }), nil, next, 413, 1},
		"another action now":     {rotated(func(h *seedbed.Hook) { h.Actions = []string{"remove"} }), nil, next, 403, 1},
		"the key begins later":   {rotated(func(h *seedbed.Hook) { h.Keys[1].NotBefore = time.Now().Add(time.Hour) }), nil, next, 401, 1},
		"a certificate is asked": {rotated(func(h *seedbed.Hook) { h.Subjects = []string{"a.example"} }), nil, next, 401, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var reads atomic.Int64
			s := start(t, Config{Intake: &ledger{}, Hooks: directory{hooks: map[string]seedbed.Hook{"ci": hook}},
				HookNow: func(_ context.Context, name string) (seedbed.Hook, error) {
					if name != "ci" {
						t.Errorf("read %q", name)
					}
					reads.Add(1)
					return test.now, test.err
				}})
			got := s.raw(t, message("POST", "/hooks/ci", signed(test.key, "msg_1", time.Now(), create), create))
			if got.status != test.status || reads.Load() != test.reads {
				t.Errorf("%d %s after %d reads, want %d after %d", got.status, got.body, reads.Load(), test.status, test.reads)
			}
			s.raw(t, message("POST", "/hooks/nobody", signed(next, "msg_2", time.Now(), create), create))
			if reads.Load() != test.reads {
				t.Error("a hook that does not exist was read again")
			}
		})
	}
}

func TestRereads(t *testing.T) {
	t.Parallel()
	var r refreshes
	at := time.Now()
	for _, step := range []struct {
		hook  string
		after time.Duration
		want  bool
	}{
		{"a", 0, true}, {"a", 0, false}, {"b", 0, true}, {"a", 999 * time.Millisecond, false}, {"a", time.Second, true},
		{"a", 1999 * time.Millisecond, false}, {"a", 2 * time.Second, true}, {"b", 2 * time.Second, true},
	} {
		if got := r.may(step.hook, at.Add(step.after)); got != step.want {
			t.Errorf("%s after %s: %t, want %t", step.hook, step.after, got, step.want)
		}
	}
}
