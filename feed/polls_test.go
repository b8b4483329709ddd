package feed

import (
	"testing"
	"testing/synctest"
	"time"

	"seedbed"
)

// TestWaitingPolls: of one node two polls wait, the last that came, and whatever else asks does
// not make the store work at every write.
func TestWaitingPolls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &counting{memory: newMemory()}
		s := NewServer(c, quiet)
		type end struct {
			poll int
			page seedbed.FeedPage
		}
		ended := make(chan end, 32)
		ask := func(poll int, node string, wait time.Duration) {
			go func() {
				page, err := s.poll(t.Context(), node, position{"g1", 0, noPeers}, wait)
				if err != nil {
					t.Error(err)
				}
				ended <- end{poll, page}
			}()
			synctest.Wait()
		}
		began := time.Now()
		ask(100, "node2", time.Minute)
		const polls = 16
		for n := range polls {
			ask(n, "node1", time.Minute)
		}
		ask(polls, "node1", 0) // it does not wait, and takes nobody's place
		var gone []int
		for len(ended) > 0 {
			e := <-ended
			gone = append(gone, e.poll)
			if len(e.page.Changes) != 0 || e.page.Generation != "g1" {
				t.Errorf("poll %d: %+v", e.poll, e.page)
			}
		}
		if len(gone) != polls-maxPolls+1 {
			t.Fatalf("ended: %v, want all but the last %d", gone, maxPolls)
		}
		for n, poll := range gone[:polls-maxPolls] {
			if poll != n {
				t.Errorf("ended: %v, want the oldest", gone)
			}
		}
		c.asked.Store(0)
		c.mu.Lock()
		c.wrote() // something of another node
		c.mu.Unlock()
		time.Sleep(2 * settle)
		if n := c.asked.Load(); n != maxPolls+1 || len(ended) != 0 {
			t.Errorf("a write made %d questions of %d polls that wait", n, maxPolls+1)
		}
		if took := time.Since(began); took >= pollEvery {
			t.Fatalf("polls asked by themselves after %s", took)
		}
		c.publish(guest(1), nil)
		for range maxPolls + 1 {
			if e := <-ended; len(e.page.Changes) != 1 {
				t.Errorf("poll %d: %+v", e.poll, e.page)
			}
		}
		if len(s.polls.byNode) != 0 {
			t.Errorf("places are kept: %v", s.polls.byNode)
		}
		// Each that has ended has left its place to another.
		for n := range maxPolls {
			go func() {
				_, _ = s.poll(t.Context(), "node1", position{"g1", 1, noPeers}, time.Second)
				ended <- end{poll: n}
			}()
		}
		synctest.Wait()
		if len(ended) != 0 {
			t.Errorf("%d polls do not wait", len(ended))
		}
		time.Sleep(2 * time.Second)
	})
}
