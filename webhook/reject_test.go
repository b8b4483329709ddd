package webhook

import (
	"context"
	"fmt"
	"log/slog"
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
		if got.status != 401 || got.problem(t).Detail != "the signature or its timestamp was not accepted" {
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
