package dhcp

import (
	"net/netip"
	"testing"
	"time"

	"seedbed"
)

func TestSessionAllow(t *testing.T) {
	t.Parallel()
	s := newSessions()
	now := time.Unix(1000, 0)
	for i := range requestBurst {
		if !s.allow(mac1, now) {
			t.Fatalf("request %d of a burst was refused", i)
		}
	}
	if s.allow(mac1, now) {
		t.Error("one more than the burst was allowed")
	}
	if !s.allow(seedbed.MAC{2}, now) {
		t.Error("another client pays for it")
	}
	if !s.allow(mac1, now.Add(requestPause)) || s.allow(mac1, now.Add(requestPause)) {
		t.Error("a pause must allow one request")
	}
	if s.allow(mac1, now.Add(-time.Hour)) {
		t.Error("a clock that goes back allowed a request")
	}
}

func TestSessionBound(t *testing.T) {
	t.Parallel()
	s := newSessions()
	for i := range maxSessions + 10 {
		s.allow(seedbed.MAC{2, 0, byte(i >> 16), byte(i >> 8), byte(i)}, time.Unix(0, 0))
	}
	if got := len(s.clients); got > maxSessions {
		t.Errorf("%d sessions are remembered, want at most %d", got, maxSessions)
	}
}

func TestSessionNews(t *testing.T) {
	t.Parallel()
	s := newSessions()
	now := time.Unix(1000, 0)
	s.allow(mac1, now)
	other := netip.MustParseAddr("10.213.0.12")
	for i, tt := range []struct {
		addr  netip.Addr
		after time.Duration
		want  bool
	}{
		{addr1, 0, true},
		{addr1, 0, false},
		{addr1, 50 * time.Second, false},
		{addr1, 60 * time.Second, true},
		{addr1, 61 * time.Second, false},
		{other, 61 * time.Second, true},
	} {
		if got := s.news(mac1, tt.addr, now.Add(tt.after), 10*time.Minute); got != tt.want {
			t.Errorf("step %d: news = %v, want %v", i, got, tt.want)
		}
	}
	if !s.end(mac1) || s.end(mac1) {
		t.Error("a lease ends once")
	}
	if !s.news(mac1, other, now, 10*time.Minute) {
		t.Error("a lease after a release is news")
	}
	if !s.complaint(mac1, now) || s.complaint(mac1, now.Add(time.Second)) || !s.complaint(mac1, now.Add(time.Hour)) {
		t.Error("a decline is logged once a minute")
	}
}
