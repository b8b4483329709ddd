package server

import (
	"crypto/sha256"
	"testing"
	"time"
)

func TestSessionEnds(t *testing.T) {
	t.Parallel()
	s, now := newSessions(), time.Now()
	sum := sha256.Sum256([]byte("x"))
	cookie := s.seal(sum, now.Add(time.Minute))
	if got, ok := s.open(cookie, now); !ok || got != sum {
		t.Errorf("%x, %t", got, ok)
	}
	if _, ok := s.open(cookie, now.Add(2*time.Minute)); ok {
		t.Error("a session that is over counts")
	}
	if _, ok := newSessions().open(cookie, now); ok {
		t.Error("another process's session counts")
	}
	for _, junk := range []string{"", "x", "%", cookie[1:], cookie + "A"} {
		if _, ok := s.open(junk, now); ok {
			t.Errorf("%q counts", junk)
		}
	}
}
