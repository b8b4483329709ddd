package server

import (
	"bytes"
	"crypto/sha256"
	"testing"
	"time"
)

func TestSessionEnds(t *testing.T) {
	t.Parallel()
	s, now := newSessions(make([]byte, 32)), time.Now()
	sum := sha256.Sum256([]byte("x"))
	cookie := s.seal("x", now.Add(time.Minute))
	if got, ok := s.open(cookie, now); !ok || got != sum {
		t.Errorf("%x, %t", got, ok)
	}
	if _, ok := s.open(cookie, now.Add(2*time.Minute)); ok {
		t.Error("a session that is over counts")
	}
	if _, ok := newSessions(bytes.Repeat([]byte{1}, 32)).open(cookie, now); ok {
		t.Error("another process's session counts")
	}
	for _, junk := range []string{"", "x", "%", cookie[1:], cookie + "A"} {
		if _, ok := s.open(junk, now); ok {
			t.Errorf("%q counts", junk)
		}
	}
}
