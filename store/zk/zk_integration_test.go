//go:build integration

package zk

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"seedbed"
	"seedbed/internal/lab"
	"seedbed/store/coordtest"
)

func TestContract(t *testing.T) {
	t.Parallel()
	zoo := lab.ZooKeeper(t)
	var n atomic.Int32
	coordtest.Run(t, func(*testing.T) func(*testing.T) coordtest.Coordination {
		root := fmt.Sprintf("/contract/%d", n.Add(1))
		return func(t *testing.T) coordtest.Coordination { return participant(t, root, zoo.Addr) }
	})
}

// The timeout that the servers grant applies, whatever was requested.
func TestTimeoutOfTheServer(t *testing.T) {
	t.Parallel()
	c := New(Config{Servers: []string{lab.ZooKeeper(t).Addr}, SessionTimeout: time.Minute, Root: "/seedbed"})
	background(t, c.Run)
	s, err := c.session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if s.timeout() != 10*time.Second {
		t.Errorf("timeout %s, want the 20 ticks that the server grants", s.timeout())
	}
}

// A leader that is cut off gives up before another one leads, although no one notifies it. When its
// connection is back, it joins the queue again.
func TestLeaderCutOff(t *testing.T) {
	t.Parallel()
	zoo := lab.ZooKeeper(t)
	p := newProxy(t, zoo.Addr)
	var w witness
	a, b := participant(t, "/seedbed", p.addr), participant(t, "/seedbed", zoo.Addr)
	stopA := w.lead(t, "a", a)
	lab.Await(t, lab.Patience, "a leads", func() bool { return w.leader() == "a" })
	stopB := w.lead(t, "b", b)
	joined := background(t, func(ctx context.Context) error { return a.Join(ctx, seedbed.Member{Node: "a"}) })
	awaitMembers(t, b, 1)

	p.freeze()
	lab.Await(t, lab.Patience, "b leads", func() bool { return w.leader() == "b" })
	awaitMembers(t, b, 0) // its membership ended with its session
	p.thaw()
	awaitMembers(t, b, 1)
	stopB()
	lab.Await(t, lab.Patience, "a leads again", func() bool { return w.leader() == "a" })
	joined()
	stopA()
	w.check(t)
}

func awaitMembers(t *testing.T, c *Client, want int) {
	t.Helper()
	lab.Await(t, lab.Patience, fmt.Sprintf("%d members", want), func() bool {
		members, err := c.Members(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return len(members) == want
	})
}

// A connection that is lost for less than the session timeout has no effect.
func TestConnectionLost(t *testing.T) {
	t.Parallel()
	zoo := lab.ZooKeeper(t)
	p := newProxy(t, zoo.Addr)
	var w witness
	c, other := withSession(t, long, "/seedbed", p.addr), participant(t, "/seedbed", zoo.Addr)
	stop := w.lead(t, "c", c)
	lab.Await(t, lab.Patience, "c leads", func() bool { return w.leader() == "c" })
	w.lead(t, "other", other)
	s, err := c.session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		p.cut()
		time.Sleep(short) // time in which nothing must happen
	}
	if again, err := c.session(t.Context()); err != nil || again != s || w.count() != 1 || w.leader() != "c" {
		t.Errorf("session kept: %t, leaders %d (%v)", again == s, w.count(), err)
	}
	stop()
	lab.Await(t, lab.Patience, "the other leads", func() bool { return w.leader() == "other" })
}

// A candidate's znode was created, but the answer was lost.
func TestHalfMadeCandidate(t *testing.T) {
	t.Parallel()
	zoo := lab.ZooKeeper(t)
	p := newProxy(t, zoo.Addr)
	c, other := withSession(t, long, "/seedbed", p.addr), withSession(t, long, "/seedbed", zoo.Addr)
	watch, err := other.session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := watch.makeDir(t.Context(), "/seedbed/leader/cron"); err != nil {
		t.Fatal(err)
	}
	all := newCandidate(watch, "/seedbed/leader/cron")
	made := func() int {
		nodes, err := all.nodes(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return len(nodes)
	}
	half := func() *candidate {
		s, err := c.session(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		cand := newCandidate(s, "/seedbed/leader/cron")
		p.hold(toClient, true)
		answer := make(chan error, 1)
		go func() { answer <- cand.make(t.Context()) }()
		lab.Await(t, lab.Patience, "the node is made", func() bool { return made() == 1 })
		p.cut()
		p.hold(toClient, false)
		if err := <-answer; !errors.Is(err, seedbed.ErrUnavailable) {
			t.Fatalf("make: %v", err)
		}
		return cand
	}
	cand := half()
	if err := cand.elect(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := made(); n != 1 || cand.s.why() != nil {
		t.Errorf("%d nodes of one candidate (%v)", n, cand.s.why())
	}
	cand.withdraw(t.Context())
	lab.Await(t, lab.Patience, "nothing is left", func() bool { return made() == 0 })
	half().withdraw(t.Context())
	lab.Await(t, lab.Patience, "nothing is left of the other", func() bool { return made() == 0 })
}

// An operator removes the leader's znode. The leader stops, and stands for election again.
func TestNodeRemoved(t *testing.T) {
	t.Parallel()
	c := participant(t, "/seedbed", lab.ZooKeeper(t).Addr)
	var w witness
	stop := w.lead(t, "c", c)
	lab.Await(t, lab.Patience, "c leads", func() bool { return w.leader() == "c" })
	s, err := c.session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := newCandidate(s, "/seedbed/leader/cron").nodes(t.Context())
	if err != nil || len(nodes) != 1 {
		t.Fatal(nodes, err)
	}
	if err := s.remove(t.Context(), "/seedbed/leader/cron/"+nodes[0]); err != nil {
		t.Fatal(err)
	}
	lab.Await(t, lab.Patience, "c leads anew", func() bool { return w.count() >= 2 })
	stop()
	w.check(t)
}
