package worker

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"seedbed"
	"seedbed/provision/effects"
)

// TestIncarnation checks that a worker whose node was fenced does nothing before it is admitted, also after a restart, and that one that
// heard nothing for a while starts no guest.
func TestIncarnation(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "incarnation")
	open := func() (*Incarnation, *Server) {
		i, err := OpenIncarnation(path)
		if err != nil {
			t.Fatal(err)
		}
		return i, &Server{incarnation: i, log: slog.New(slog.DiscardHandler)}
	}
	i, s := open()
	now := time.Now()
	i.now = func() time.Time { return now }
	want := func(what string, err, kind error) {
		t.Helper()
		if !errors.Is(err, kind) {
			t.Errorf("%s: %v, want %v", what, err, kind)
		}
	}
	i.hear(0)
	want("a job", i.current(0), nil)
	want("a start", i.awake(), nil)
	now = now.Add(heardWithin + time.Second)
	want("a start after a freeze", i.awake(), seedbed.ErrUnavailable)
	i.hear(1)
	want("a job after a fence", i.current(1), seedbed.ErrUnavailable)
	want("a start after a fence", i.awake(), seedbed.ErrUnavailable)
	_, err := s.admit(t.Context(), effects.Admission{Incarnation: 1})
	want("the admission", err, nil)
	want("a job", i.current(1), nil)
	want("a job of a control host that knows nothing of it", i.current(0), seedbed.ErrUnavailable)
	_, err = s.admit(t.Context(), effects.Admission{})
	want("an older admission", err, seedbed.ErrStale)
	again, _ := open()
	if again.admitted() != 1 {
		t.Errorf("after a restart: %d", again.admitted())
	}
}

// statuses are fence agents that end with these statuses.
type statuses map[string]int

func (a statuses) RunFence(_ context.Context, _ seedbed.FenceCall, action string) (int, string, error) {
	return a[action], "said " + action, nil
}

// TestFenceNode checks that a node counts as off only if the status of its agent says so.
func TestFenceNode(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		off, status int
		err         string
	}{
		{0, 2, ""}, {1, 2, ""}, {0, 0, "says that it is on"}, {1, 1, "failed with status 1: said off"}, {0, 1, "does not know"},
	} {
		s := &Server{fences: statuses{"off": tt.off, "status": tt.status}}
		err := s.fenceNode(t.Context(), seedbed.FenceCall{Agent: "fence_x"})
		if tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
			t.Errorf("off %d, status %d: %v, want %q", tt.off, tt.status, err, tt.err)
		}
	}
}
