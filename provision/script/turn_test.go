package script

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"seedbed"
)

// What a script has printed by the end of a turn comes with that turn, however
// the turn ends.
func TestSessionOutput(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(r *runner) {
		for n, reply := range []string{
			`{"op":"ready","kind":"class"}`, `{"op":"call","id":1,"name":"add_volume","args":{"pool":"p","name":"n","size":"1"}}`,
			`{"op":"done","step":"setup"}`, `{"op":"failed","step":"create","message":"no"}`, `{"op":"none"}`,
		} {
			r.hear()
			r.print(fmt.Sprint("turn ", n))
			r.say(reply)
		}
	})
	for n, turn := range []seedbed.ScriptTurn{begin, step("setup"), {Answer: &seedbed.ScriptAnswer{ID: 1, OK: true}}, step("create"),
		step("cleanup")} {
		_, lines := b.must(turn)
		if d := cmp.Diff([]seedbed.OutputLine{{Stream: "stdout", Text: fmt.Sprint("turn ", n)}}, lines); d != "" {
			t.Errorf("output of turn %d (-want +got):\n%s", n, d)
		}
	}
}

// No turn finds a session that was cut off, although its end still goes on.
func TestSessionCutOffAtOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(r *runner) {
		r.hear()
		r.say(`{"op":"ready","kind":"class"}`)
		r.hear()
		r.hear()
	})
	held := make(chan struct{})
	b.cfg.Log = slog.New(slog.NewTextHandler(waits(held), nil)) // the first that the end does is to log
	b.must(begin)
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := b.RunScript(ctx, call, step("setup"), nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("cut off: %v", err)
	}
	result, _, err := b.run(step("create"))
	close(held)
	if !errors.Is(err, seedbed.ErrNotFound) {
		t.Errorf("the next turn gave %+v, %v", result, err)
	}
}

// waits is a writer that takes nothing until it is closed.
type waits chan struct{}

func (w waits) Write(p []byte) (int, error) {
	<-w
	return len(p), nil
}

// A turn whose session is closed under it has not failed by the script.
func TestSessionClosedInTurn(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(r *runner) {
		r.hear()
		r.say(`{"op":"ready","kind":"class"}`)
		r.hear()
	})
	b.must(begin)
	s, err := b.find(call)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.close(t.Context()); err != nil { // as the turn begins, which has found it
		t.Error(err)
	}
	if result, _, err := b.run(step("setup")); !errors.Is(err, seedbed.ErrNotFound) {
		t.Errorf("got %+v, %v", result.Failure, err)
	}
}

// TestSessionOffline checks that only the failure of a script without the network says that the
// script tried to reach it.
func TestSessionOffline(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		network bool
		reply   string
		want    bool
	}{
		"tried, without": {false, `{"op":"failed","step":"setup","message":"no","unreached":true}`, true},
		"tried, with":    {true, `{"op":"failed","step":"setup","message":"no","unreached":true}`, false},
		"did not try":    {false, `{"op":"failed","step":"setup","message":"no"}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, func(r *runner) {
				r.hear()
				r.say(`{"op":"ready","kind":"class"}`)
				r.hear()
				r.say(test.reply)
			})
			start := *begin.Start
			start.Options.Network = test.network
			b.must(seedbed.ScriptTurn{Start: &start})
			result, _ := b.must(step("setup"))
			if result.Failure == nil || result.Failure.Offline != test.want {
				t.Errorf("failure %+v; want Offline %t", result.Failure, test.want)
			}
		})
	}
}
