package zk

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"seedbed"
)

// silent accepts connections and never answers.
func silent(t *testing.T) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	return ln.Addr().String() // the kernel accepts the connections
}

// If no server answers, every call waits, returns an error that says why, and ends with its
// context.
func TestNoServer(t *testing.T) {
	t.Parallel()
	for name, servers := range map[string][]string{
		"refused":      {"127.0.0.1:1"},
		"unknown name": {"zookeeper.invalid:2181", "127.0.0.1:1"},
		"silent":       {silent(t)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := New(Config{Servers: servers, SessionTimeout: 10 * time.Second, Root: "/seedbed"})
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 3)
			go func() { done <- c.Run(ctx) }()
			go func() {
				done <- c.Lead(ctx, "cron", func(context.Context) error { t.Error("led without a server"); return nil })
			}()
			go func() { done <- c.Join(ctx, seedbed.Member{Node: "a"}) }()
			short, stop := context.WithTimeout(ctx, 100*time.Millisecond)
			defer stop()
			for _, check := range c.Check(short) {
				if check.OK || !strings.Contains(check.Detail, servers[0]) || !strings.Contains(check.Hint, "coordination.servers") {
					t.Errorf("check %+v", check)
				}
			}
			cancel()
			for range 3 {
				select {
				case err := <-done:
					if err != nil {
						t.Error(err)
					}
				case <-time.After(2 * time.Minute):
					t.Fatal("does not stop")
				}
			}
		})
	}
}

func TestHosts(t *testing.T) {
	t.Parallel()
	h := &hosts{}
	if err := h.Init([]string{"a:1", "b:1"}); err != nil || h.Len() != 2 {
		t.Fatal(err, h.Len())
	}
	type turn struct {
		server string
		wait   bool
	}
	var got []turn
	for i := range 6 {
		server, wait := h.Next()
		got = append(got, turn{server, wait})
		if i == 3 {
			h.Connected()
		}
	}
	want := []turn{{"a:1", false}, {"b:1", false}, {"a:1", true}, {"b:1", false}, {"a:1", false}, {"b:1", false}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(turn{})); diff != "" {
		t.Error(diff)
	}
}

func TestGrantedTimeout(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		pieces []string
		want   time.Duration
	}{
		{"at once", []string{"\x00\x00\x00\x25\x00\x00\x00\x00\x00\x00\x0f\xa0rest"}, 4 * time.Second},
		{"in pieces", []string{"\x00\x00\x00\x25", "\x00\x00\x00\x00\x00", "\x00\x0f\xa0", "rest", "more"}, 4 * time.Second},
		{"expired", []string{"\x00\x00\x00\x25\x00\x00\x00\x00\x00\x00\x00\x00rest"}, time.Minute},
		{"cut off", []string{"\x00\x00\x00\x25\x00\x00"}, time.Minute},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := time.Minute
			ours, theirs := net.Pipe()
			l := &link{Conn: ours, dialer: dialer{granted: func(d time.Duration) { got = d }}}
			go func() {
				for _, p := range tt.pieces {
					theirs.Write([]byte(p))
				}
				theirs.Close()
			}()
			var read strings.Builder
			buf := make([]byte, 64)
			for {
				n, err := l.Read(buf)
				read.Write(buf[:n])
				if err != nil {
					break
				}
			}
			if got != tt.want || read.String() != strings.Join(tt.pieces, "") {
				t.Errorf("timeout %s, want %s; read %q", got, tt.want, read.String())
			}
		})
	}
}
