package worker

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"seedbed"
)

// idle is a hypervisor without domains.
type idle struct{ Hypervisor }

func (idle) Report(context.Context) (seedbed.NodeReport, error) { return seedbed.NodeReport{}, nil }

// TestReportUnknownKey: a key that cannot be read is reported as one that is not known, and not as none.
func TestReportUnknownKey(t *testing.T) {
	t.Parallel()
	full := seedbed.Tunnel{Key: seedbed.TunnelKey{1}, Port: 51820}
	var problem error
	s := New(Config{Node: "hv1", Hypervisor: idle{}, Log: slog.New(slog.DiscardHandler),
		Tunnel: func() (seedbed.Tunnel, error) { return full, problem }})
	for _, problem = range []error{nil, errors.New("input/output error"), nil} {
		want := full
		if problem != nil {
			want.Key = seedbed.TunnelKey{}
		}
		if r, err := s.report(t.Context()); err != nil || r.Tunnel != want {
			t.Errorf("with %v: %+v, %v", problem, r.Tunnel, err)
		}
	}
}

// TestReportLeftOut: the report has the networks that the node leaves out.
func TestReportLeftOut(t *testing.T) {
	t.Parallel()
	s := New(Config{Node: "hv1", Hypervisor: idle{}, Log: slog.New(slog.DiscardHandler),
		LeftOut: func() (map[string]string, error) { return map[string]string{"lab": "no uplink"}, nil }})
	if r, err := s.report(t.Context()); err != nil || r.LeftOut["lab"] != "no uplink" {
		t.Errorf("%+v, %v", r.LeftOut, err)
	}
}

// TestComplaint: a problem is logged when it is new, and again while it lasts, but not with each report.
func TestComplaint(t *testing.T) {
	t.Parallel()
	var c complaint
	one, two := errors.New("one"), errors.New("two")
	now := time.Now()
	for i, tt := range []struct {
		err   error
		after time.Duration
		want  bool
	}{{nil, 0, false}, {one, 0, true}, {one, time.Minute, false}, {two, time.Minute, true}, {two, 2 * time.Minute, false},
		{two, complainEvery + time.Minute, true}, {nil, complainEvery + time.Minute, false}, {two, complainEvery + time.Minute, true}} {
		if got := c.due(tt.err, now.Add(tt.after)); got != tt.want {
			t.Errorf("%d: %v after %v: due %t", i, tt.err, tt.after, got)
		}
	}
}
