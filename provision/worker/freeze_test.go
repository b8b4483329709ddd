package worker

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
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
		f := newFreezes(g, "", slog.New(slog.DiscardHandler))
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

// TestGuestThawsAfterRestart checks that a worker thaws at its start the guests that a former one left frozen, and none that it froze
// itself since, and that one that stops thaws those that are frozen.
func TestGuestThawsAfterRestart(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "frozen")
	synctest.Test(t, func(t *testing.T) {
		g := &freezable{}
		const id = "ec2aaaaa-0000-4000-8000-000000000001"
		start := func() *freezes { return newFreezes(g, dir, slog.New(slog.DiscardHandler)) }
		frozen := func(want bool, records int) {
			t.Helper()
			synctest.Wait()
			all, err := os.ReadDir(dir)
			if now := g.frozen.Load(); now != want || len(all) != records || err != nil {
				t.Errorf("frozen: %t, want %t; %d records, want %d; %v", now, want, len(all), records, err)
			}
		}
		freeze := func(f *freezes) {
			t.Helper()
			if err := f.freeze(t.Context(), id); err != nil {
				t.Fatal(err)
			}
		}
		killed := start()
		freeze(killed)
		killed.left[id].timer.Stop() // it is no more
		frozen(true, 1)
		g.silent.Store(true)
		next := start()
		next.begin()
		frozen(true, 1)
		g.silent.Store(false)
		freeze(next) // the job goes on
		time.Sleep(effects.FreezeTime / 2)
		frozen(true, 1)
		next.end(t.Context())
		frozen(false, 0)

		freeze(killed)
		killed.left[id].timer.Stop()
		next = start()
		next.begin()
		frozen(false, 0)
	})
}
