package run

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

func TestPercent(t *testing.T) {
	t.Parallel()
	for live, want := range map[uint64]int{0: 800, 1 << 20: 800, 8 << 20: 400, 16 << 20: 200, 32 << 20: 100, 1 << 40: 100} {
		if got := percent(live); got != want {
			t.Errorf("%d bytes: %d, want %d", live, got, want)
		}
	}
}

// TestHeadroom checks that the headroom is set again after each collection, so that a value set in
// between does not stay.
func TestHeadroom(t *testing.T) {
	t.Setenv("GOGC", "")
	before := debug.SetGCPercent(100)
	defer debug.SetGCPercent(before)
	Headroom()
	for range 3 {
		const odd = 12345
		debug.SetGCPercent(odd)
		for end := time.Now().Add(time.Minute); ; {
			runtime.GC()
			if now := debug.SetGCPercent(odd); now != odd {
				break
			}
			if time.Now().After(end) {
				t.Fatal("a collection set nothing")
			}
			runtime.Gosched()
		}
	}
}
