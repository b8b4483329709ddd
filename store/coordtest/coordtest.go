// Package coordtest is the contract suite of the coordination between control hosts. The in-process
// implementation and the one with ZooKeeper pass it.
package coordtest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"seedbed"
)

// Coordination is what a control host uses to find the other control hosts.
type Coordination interface {
	Lead(ctx context.Context, role string, do func(context.Context) error) error
	Join(context.Context, seedbed.Member) error
	Members(context.Context) ([]seedbed.Member, error)
	Check(context.Context) []seedbed.Check
}

// Run runs the contract suite. newInstallation creates a separate installation and returns a
// function that adds one participant to it. The participant works until its test ends.
func Run(t *testing.T, newInstallation func(*testing.T) func(*testing.T) Coordination) {
	for name, test := range map[string]func(*testing.T, func(*testing.T) Coordination){
		"one leads at a time":            oneLeads,
		"the leader is told to stop":     stops,
		"what do returns comes back":     result,
		"roles are led apart":            rolesApart,
		"names are checked":              names,
		"members come and go":            members,
		"the later of one node's counts": sameNode,
		"the doctor is satisfied":        check,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newInstallation(t))
		})
	}
}

// patience is how long a test waits for something that should happen soon.
const patience = 2 * time.Minute

func await(t *testing.T, what string, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatalf("not within %s: %s", patience, what)
	}
}

func oneLeads(t *testing.T, add func(*testing.T) Coordination) {
	var (
		leading atomic.Int32
		all     sync.WaitGroup
	)
	for range 3 {
		c := add(t)
		all.Go(func() {
			for range 3 {
				err := c.Lead(t.Context(), "cron", func(ctx context.Context) error {
					if n := leading.Add(1); n != 1 {
						t.Errorf("%d lead", n)
					}
					defer leading.Add(-1)
					select {
					case <-ctx.Done():
						return ctx.Err()
					case <-time.After(5 * time.Millisecond): // lets the others lead too, if they do
						return nil
					}
				})
				if err != nil {
					t.Errorf("lead: %v", err)
				}
			}
		})
	}
	all.Wait()
}

func stops(t *testing.T, add func(*testing.T) Coordination) {
	first, second := add(t), add(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	leads, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		err := first.Lead(ctx, "cron", func(ctx context.Context) error {
			close(leads)
			<-ctx.Done()
			return ctx.Err()
		})
		if err != nil {
			t.Errorf("lead: %v", err)
		}
	}()
	await(t, "the first leads", leads)

	waits, give := context.WithCancel(t.Context())
	waited := make(chan struct{})
	go func() {
		defer close(waited)
		if err := second.Lead(waits, "cron", func(context.Context) error { t.Error("two lead"); return nil }); err != nil {
			t.Errorf("a candidate that was told to stop: %v", err)
		}
	}()
	give()
	await(t, "the candidate stops waiting", waited)
	cancel()
	await(t, "the leader stops", ended)
	if err := second.Lead(t.Context(), "cron", func(context.Context) error { return nil }); err != nil {
		t.Errorf("lead after the first: %v", err)
	}
}

func result(t *testing.T, add func(*testing.T) Coordination) {
	wrong := errors.New("wrong")
	if err := add(t).Lead(t.Context(), "cron", func(context.Context) error { return wrong }); !errors.Is(err, wrong) {
		t.Errorf("lead: %v, want do's error", err)
	}
}

func rolesApart(t *testing.T, add func(*testing.T) Coordination) {
	one, other := add(t), add(t)
	err := one.Lead(t.Context(), "cron", func(ctx context.Context) error {
		return other.Lead(ctx, "placement", func(ctx context.Context) error {
			return one.Lead(ctx, "third", func(ctx context.Context) error { return ctx.Err() })
		})
	})
	if err != nil {
		t.Errorf("lead: %v", err)
	}
}

func names(t *testing.T, add func(*testing.T) Coordination) {
	c := add(t)
	for _, name := range []string{"", ".", "a/b", "../x", "ä"} {
		if err := c.Lead(t.Context(), name, nil); !errors.Is(err, seedbed.ErrInvalid) {
			t.Errorf("role %q: %v", name, err)
		}
		if err := c.Join(t.Context(), seedbed.Member{Node: name}); !errors.Is(err, seedbed.ErrInvalid) {
			t.Errorf("node %q: %v", name, err)
		}
	}
}

// join joins until leave is called.
func join(t *testing.T, c Coordination, m seedbed.Member) (leave func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := c.Join(ctx, m); err != nil {
			t.Errorf("join: %v", err)
		}
	}()
	leave = func() { cancel(); <-done }
	t.Cleanup(leave)
	return leave
}

func awaitMembers(t *testing.T, c Coordination, want ...seedbed.Member) {
	t.Helper()
	if want == nil {
		want = []seedbed.Member{}
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		got, err := c.Members(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		diff := cmp.Diff(want, got)
		if diff == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("members (-want +got):\n%s", diff)
		}
	}
}

func members(t *testing.T, add func(*testing.T) Coordination) {
	one, two := add(t), add(t)
	a := seedbed.Member{Node: "a", Version: "1.2.3", CPUs: 8, Memory: 64 * seedbed.GiB}
	b := seedbed.Member{Node: "b", Version: "1.2.4-rc1", CPUs: 2, Memory: seedbed.GiB}
	awaitMembers(t, one)
	leave := join(t, two, b)
	awaitMembers(t, one, b)
	join(t, one, a)
	awaitMembers(t, one, a, b)
	awaitMembers(t, two, a, b)
	leave()
	awaitMembers(t, two, a)
}

func sameNode(t *testing.T, add func(*testing.T) Coordination) {
	one, two := add(t), add(t)
	older, newer := seedbed.Member{Node: "a", Version: "1"}, seedbed.Member{Node: "a", Version: "2"}
	join(t, one, older)
	awaitMembers(t, one, older)
	leave := join(t, two, newer)
	awaitMembers(t, one, newer)
	leave()
	awaitMembers(t, one, older)
}

func check(t *testing.T, add func(*testing.T) Coordination) {
	c := add(t)
	m := seedbed.Member{Node: "a", Version: "1"}
	join(t, c, m)
	awaitMembers(t, c, m)
	for _, got := range c.Check(t.Context()) {
		if !got.OK || got.Name != "coordination" || got.Detail == "" || got.Hint != "" {
			t.Errorf("check: %+v", got)
		}
	}
}
