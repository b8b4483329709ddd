package httpserve

import (
	"testing"
	"testing/synctest"
)

func TestGate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var g Gate
		if !g.Enter() {
			t.Fatal("an open gate let no one in")
		}
		drained := false
		go func() { g.Drain(); drained = true }()
		synctest.Wait()
		if drained || g.Enter() {
			t.Errorf("drained %t with a request in hand, or one more let in", drained)
		}
		g.Leave()
		synctest.Wait()
		if !drained {
			t.Error("not drained after the last request has left")
		}
	})
}
