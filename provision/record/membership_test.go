package record

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"seedbed"
)

// hosts is a coordination and a MemberStore in memory.
type hosts struct {
	leads
	mu      sync.Mutex
	present []string
	known   []string
	told    []string
	down    bool
}

func (h *hosts) Members(context.Context) (all []seedbed.Member, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, name := range h.present {
		all = append(all, seedbed.Member{Node: name})
	}
	if h.down {
		err = seedbed.Errorf(seedbed.ErrUnavailable, "no session")
	}
	return all, err
}

func (h *hosts) KnownMembers(context.Context) ([]string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.known), nil
}

func (h *hosts) ChangeMembers(_ context.Context, joined []seedbed.Member, left []string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, m := range joined {
		h.known, h.told = append(h.known, m.Node), append(h.told, "+"+m.Node)
	}
	for _, name := range left {
		h.known = slices.DeleteFunc(h.known, func(k string) bool { return k == name })
		h.told = append(h.told, "-"+name)
	}
	return nil
}

// after lets time pass with those hosts present.
func (h *hosts) after(d time.Duration, down bool, present ...string) {
	h.mu.Lock()
	h.present, h.down = present, down
	h.mu.Unlock()
	time.Sleep(d) // in the test's bubble: no real time passes
	synctest.Wait()
}

func TestMembership(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &hosts{known: []string{"old"}}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- NewMembership(h, h, slog.New(slog.DiscardHandler)).Run(ctx) }()
		h.after(10*time.Second, false, "a", "b")
		h.after(20*time.Second, false, "a")   // b restarts
		h.after(time.Minute, false, "a", "b") // old has left
		h.after(20*time.Second, false, "a")   // b is gone,
		h.after(time.Hour, true)              // then no one can be seen,
		h.after(20*time.Second, false, "a")   // and b is gone for only 20 s
		h.after(time.Minute, false, "a", "b") // when it comes back
		h.after(time.Minute, false, "b", "c") // a is replaced
		h.after(time.Minute, false, "a", "b", "c")
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(fmt.Sprint([]string{"+a", "+b", "-old", "+c", "-a", "+a"}), fmt.Sprint(h.told)); diff != "" {
			t.Error(diff)
		}
	})
}

// leads is a leadership that every member has.
type leads struct{}

func (leads) Lead(ctx context.Context, _ string, do func(context.Context) error) error {
	return do(ctx)
}
