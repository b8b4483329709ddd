//go:build integration

package zk

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"
)

// short is the session timeout of the tests. Two ticks of the lab's servers are 1 s.
const short = 3 * time.Second

// long is a session timeout that does not pass on a busy computer while a connection is restored. It
// is the longest that the lab's servers grant.
const long = 10 * time.Second

// participant runs a client with a short session until its test ends.
func participant(t *testing.T, root string, servers ...string) *Client {
	return withSession(t, short, root, servers...)
}

func withSession(t *testing.T, timeout time.Duration, root string, servers ...string) *Client {
	c := New(Config{Servers: servers, SessionTimeout: timeout, Root: root, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	background(t, c.Run)
	return c
}

// background runs a task until its test ends or stop is called.
func background(t *testing.T, task func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := task(ctx); err != nil {
			t.Errorf("task: %v", err)
		}
	}()
	stop = sync.OnceFunc(func() { cancel(); <-done })
	t.Cleanup(stop)
	return stop
}

// span is how long a participant's leader context lasted, as do saw it.
type span struct {
	who        string
	start, end time.Time // end is zero while it lasts
	token      int64
}

// witness records who led when.
type witness struct {
	mu    sync.Mutex
	spans []*span
}

// lead lets c lead until its test ends or stop is called.
func (w *witness) lead(t *testing.T, who string, c *Client) (stop func()) {
	return w.leadRole(t, "cron", who, c)
}

func (w *witness) leadRole(t *testing.T, role, who string, c *Client) (stop func()) {
	return background(t, func(ctx context.Context) error {
		return c.Lead(ctx, role, func(ctx context.Context) error {
			s := w.begin(who)
			c.mu.Lock()
			s.token = c.tokens[role]
			c.mu.Unlock()
			<-ctx.Done()
			w.mu.Lock()
			s.end = time.Now()
			if l := ctx.(leaseContext).lease; errors.Is(context.Cause(ctx), errSilent) && l.until().Before(s.end) {
				s.end = l.until() // this goroutine may have been woken late
			}
			w.mu.Unlock()
			return nil
		})
	})
}

func (w *witness) begin(who string) *span {
	s := &span{who: who, start: time.Now()}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.spans = append(w.spans, s)
	return s
}

// leader returns who leads now, or an empty string.
func (w *witness) leader() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.spans {
		if s.end.IsZero() {
			return s.who
		}
	}
	return ""
}

func (w *witness) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.spans)
}

// check checks that no two led at the same time, and that tokens grow. All participants have
// stopped.
func (w *witness) check(t *testing.T) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	story := ""
	for _, s := range w.spans {
		story += fmt.Sprintf("%s %s..%s token %#x\n", s.who, s.start.Format("05.000"), s.end.Format("05.000"), s.token)
	}
	t.Log("leaders:\n" + story)
	slices.SortFunc(w.spans, func(a, b *span) int { return a.start.Compare(b.start) })
	for i, s := range w.spans[:max(0, len(w.spans)-1)] {
		next := w.spans[i+1]
		if s.end.IsZero() || s.end.After(next.start) {
			t.Errorf("%s led until %s, and %s from %s", s.who, s.end, next.who, next.start)
		}
		if next.token <= s.token {
			t.Errorf("token %#x of %s comes after %#x", next.token, next.who, s.token)
		}
	}
}
