package store

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"seedbed"
)

// A stride came when nobody was to be told of it. Who is to be told by the time that
// it is written has the event, which the long way alone writes.
func TestStrideThatIsToldMeanwhile(t *testing.T) {
	t.Parallel()
	gone, leave := context.WithCancel(t.Context())
	leave()
	of := func(ctx context.Context, job seedbed.JobID, ends bool) *ask {
		return &ask{ctx: ctx, stride: &stride{ref: seedbed.JobRef{ID: job, Epoch: 1}, ends: ends}}
	}
	batch := []*ask{of(t.Context(), "a", false), of(t.Context(), "b", true), of(gone, "c", false), of(t.Context(), "a", false), of(t.Context(), "d", false)}
	for name, c := range map[string]struct {
		events []string
		sent   []string
	}{
		"nobody":    {nil, []string{"a", "b", "d"}},
		"others":    {[]string{seedbed.EventNodeDown}, []string{"a", "b", "d"}},
		"of stages": {[]string{seedbed.EventJobStage}, []string{"b"}},
		"of ends":   {[]string{seedbed.EventJobSucceeded}, []string{"a", "d"}},
		"of guests": {[]string{seedbed.EventInstanceReady}, []string{"a", "d"}},
		"of all":    {[]string{"*"}, nil},
	} {
		known := told{text: name}
		if c.events != nil {
			known.endpoints = []seedbed.Endpoint{{Name: "ci", Events: c.events}}
		}
		args := strideArgs(known, batch)
		if d := cmp.Diff(c.sent, args[3]); d != "" || args[0] != name {
			t.Errorf("%s: by %v (-want +got):\n%s", name, args[0], d)
		}
	}
}
