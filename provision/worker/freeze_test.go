package worker

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"seedbed"
	"seedbed/provision/effects"
)

// freezable is the agent of a guest that refuses to freeze twice.
type freezable struct{ frozen, silent atomic.Bool }

func (g *freezable) AskAgent(_ context.Context, _ seedbed.InstanceID, request []byte) ([]byte, error) {
	freeze := strings.Contains(string(request), "guest-fsfreeze-freeze")
	switch {
	case g.silent.Load():
		return nil, seedbed.Errorf(seedbed.ErrUnavailable, "it does not answer")
	case freeze && g.frozen.Load():
		return nil, errors.New("it is frozen already")
	case g.frozen.Swap(freeze) == freeze:
		return []byte(`{"return":0}`), nil
	}
	return []byte(`{"return":2}`), nil
}

// TestGuestThawsByItself checks that a guest whose caller is gone thaws, and that one whose caller has thawed it is left alone.
func TestGuestThawsByItself(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := &freezable{}
		const id = "ec2aaaaa-0000-4000-8000-000000000001"
		f := &freezes{agents: agents{agent: g}, limit: effects.FreezeTime, log: slog.New(slog.DiscardHandler),
			left: map[seedbed.InstanceID]*time.Timer{}}
		frozen := func(want bool) {
			t.Helper()
			synctest.Wait()
			if now := g.frozen.Load(); now != want {
				t.Errorf("frozen: %t, want %t", now, want)
			}
		}
		for range 2 { // the second call is that of a stage that runs again
			if err := f.freeze(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			time.Sleep(effects.FreezeTime / 2)
			frozen(true)
		}
		if n, err := f.thaw(t.Context(), id); n == 0 || err != nil {
			t.Fatal(n, err)
		}
		frozen(false)
		if err := f.freeze(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		g.silent.Store(true) // it does not answer when its time is over
		time.Sleep(effects.FreezeTime + thawAgain/2)
		frozen(true)
		g.silent.Store(false)
		time.Sleep(thawAgain)
		frozen(false)
	})
}
