package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"seedbed"
)

func TestScheduleChecks(t *testing.T) {
	t.Parallel()
	run := func(jobs int, why ...string) *seedbed.ScheduleRun {
		r := &seedbed.ScheduleRun{Time: time.Unix(0, 0).UTC(), Jobs: jobs, Refused: len(why)}
		for _, w := range why {
			r.Items = append(r.Items, seedbed.ScheduleItem{Instance: "web1", Problem: w})
		}
		return r
	}
	nightly := seedbed.Schedule{Kind: seedbed.ScheduleBackup, Name: "nightly", Project: seedbed.DefaultProject}
	hourly := seedbed.Schedule{Kind: seedbed.ScheduleSnapshot, Name: "acme/hourly", Project: "acme"}
	with := func(s seedbed.Schedule, r *seedbed.ScheduleRun) seedbed.Schedule { s.Last = r; return s }
	for name, test := range map[string]struct {
		all    []seedbed.Schedule
		failed int
		ok     bool
		want   []string
	}{
		"none": {},
		"new":  {all: []seedbed.Schedule{nightly}, ok: true, want: []string{"1, the last runs"}},
		"well": {all: []seedbed.Schedule{with(nightly, run(3))}, ok: true, want: []string{"1, the last runs"}},
		"refused": {all: []seedbed.Schedule{with(nightly, run(3, "it runs"))},
			want: []string{"refused for 1 of 4 instances (it runs)", "backup schedule show nightly"}},
		"failed": {all: []seedbed.Schedule{with(hourly, run(3))}, failed: 2,
			want: []string{"snapshot schedule acme/hourly", "2 of its jobs failed", "vm snapshot schedule show hourly", "--project acme"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checks := scheduleChecks(func(context.Context) ([]seedbed.Schedule, error) { return test.all, nil },
				func(context.Context, seedbed.Schedule) ([]seedbed.Job, error) {
					all := make([]seedbed.Job, test.failed)
					for i := range all {
						all[i].ID = seedbed.NewJobID()
					}
					return all, nil
				})(t.Context())
			if test.want == nil {
				if len(checks) > 0 {
					t.Errorf("checks %+v", checks)
				}
				return
			}
			if len(checks) != 1 || checks[0].OK != test.ok {
				t.Fatalf("checks %+v", checks)
			}
			for _, want := range test.want {
				if !strings.Contains(checks[0].Detail+checks[0].Hint, want) {
					t.Errorf("%q is not in %+v", want, checks[0])
				}
			}
		})
	}
}
