package feed

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"seedbed"
)

// pipes is a listener whose connections are in memory, so that time is the test's own.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func newPipes() pipes { return pipes{make(chan net.Conn), make(chan struct{})} }

func (p pipes) dial(ctx context.Context) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.conns <- there:
		return here, nil
	case <-p.done:
		return nil, errors.New("closed")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p pipes) Close() error { close(p.done); return nil }

func (p pipes) Addr() net.Addr { return &net.UnixAddr{Name: "memory", Net: "unix"} }

// TestPace: a client asks as often as there is something new, and takes longer and longer rests
// from a server that answers at once with nothing, or fails again and again.
func TestPace(t *testing.T) {
	t.Parallel()
	const span = 30*time.Second - 50*time.Millisecond // so that it does not end at the moment of an answer
	page := seedbed.FeedPage{Revision: 1, Generation: "g1", Snapshot: true}
	same := func(since string) seedbed.FeedPage {
		p := page
		p.Snapshot = since != "1"
		return p
	}
	for name, tt := range map[string]struct {
		// answer is what the server says to the n-th question; false is that it fails.
		answer func(n int64, since string, wait time.Duration) (seedbed.FeedPage, bool)
		least  int64
		most   int64
	}{
		"a server that waits": {func(_ int64, since string, wait time.Duration) (seedbed.FeedPage, bool) {
			time.Sleep(wait)
			return same(since), true
		}, 3, 4},
		"one that has something new all the time": {func(n int64, _ string, _ time.Duration) (seedbed.FeedPage, bool) {
			time.Sleep(100 * time.Millisecond)
			return seedbed.FeedPage{Revision: n, Generation: "g1", Snapshot: true}, true
		}, 290, 301},
		"one that does not wait": {func(_ int64, since string, _ time.Duration) (seedbed.FeedPage, bool) {
			return same(since), true
		}, 15, 45},
		"one that answers the first question alone": {func(_ int64, since string, wait time.Duration) (seedbed.FeedPage, bool) {
			return same(since), wait == 0
		}, 30, 90},
		"one that fails":              {func(int64, string, time.Duration) (seedbed.FeedPage, bool) { return page, false }, 15, 45},
		"a snapshot for every answer": {func(int64, string, time.Duration) (seedbed.FeedPage, bool) { return page, true }, 15, 45},
		"two generations in turn": {func(n int64, _ string, _ time.Duration) (seedbed.FeedPage, bool) {
			p := page
			p.Generation = []string{"g1", "g2"}[n%2]
			return p, true
		}, 15, 45},
		"a revision that goes back": {func(n int64, _ string, _ time.Duration) (seedbed.FeedPage, bool) {
			p := page
			p.Revision = max(1, 1000-n)
			return p, true
		}, 15, 45},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				var asked atomic.Int64
				at := newPipes()
				server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.URL.Path != "/v1/feed" {
						w.WriteHeader(http.StatusNoContent)
						return
					}
					wait, err := time.ParseDuration(r.URL.Query().Get("wait"))
					if err != nil {
						t.Error(err)
					}
					p, ok := tt.answer(asked.Add(1), r.URL.Query().Get("since"), wait)
					if !ok {
						http.Error(w, "out of order", http.StatusBadGateway)
						return
					}
					if err := json.NewEncoder(w).Encode(p); err != nil {
						t.Error(err)
					}
				})}
				served := make(chan error, 1)
				go func() { served <- server.Serve(at) }()
				c := NewClient(ClientConfig{Node: "node1", Dir: dir, Applier: &recorder{}, Wait: 10 * time.Second, Log: quiet})
				c.up = &upstream{targets: []target{newTarget("", at.dial)}}
				ctx, cancel := context.WithTimeout(t.Context(), span)
				defer cancel()
				if err := c.Run(ctx); err != nil {
					t.Error(err)
				}
				if n := asked.Load(); n < tt.least || n > tt.most {
					t.Errorf("asked %d times in %s: want %d to %d", n, span, tt.least, tt.most)
				}
				server.Close()
				<-served
				time.Sleep(span) // until the last question is answered
			})
		})
	}
}
