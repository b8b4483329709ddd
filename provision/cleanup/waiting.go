package cleanup

import (
	"context"
	"errors"
	"slices"
	"time"

	"seedbed"
)

// longestWait bounds how long a run of a schedule waits for other jobs.
const longestWait = 24 * time.Hour

// waiting is a run of a schedule, and what it asks for again until a time because another job works on the instance.
type waiting struct {
	run   seedbed.ScheduleRun
	again []seedbed.Request
	until time.Time
}

// again asks again for what the last run of a schedule was refused because of other jobs.
func (s *Scheduler) again(ctx context.Context, of seedbed.Schedule, now time.Time) error {
	key := keyOf(of)
	w, ok := s.waiting[key]
	if !ok {
		return nil
	}
	if len(w.again) == 0 || now.After(w.until) || of.Last == nil || !of.Last.Time.Equal(w.run.Time) { // or it has run since
		delete(s.waiting, key)
		return nil
	}
	var still []seedbed.Request
	for n, req := range w.again {
		receipt, err := s.intake.Submit(onSchedule(ctx, of), req, nil)
		if errors.Is(err, seedbed.ErrInUse) {
			still = append(still, req)
			continue
		}
		if err != nil && ctx.Err() != nil { // this host no longer leads, or ends
			still = append(still, w.again[n:]...)
			break
		}
		at := slices.IndexFunc(w.run.Items, func(i seedbed.ScheduleItem) bool { return i.Instance == req.Name })
		if err != nil {
			w.run.Items[at].Problem = problemOf(err)
			continue
		}
		w.run.Items[at].Job, w.run.Items[at].Problem = receipt.Job, ""
		w.run.Jobs, w.run.Refused = w.run.Jobs+1, w.run.Refused-1
	}
	if len(still) == len(w.again) {
		return nil
	}
	w.again = still
	s.waiting[key] = w
	return s.note(ctx, of, w.run)
}

func keyOf(of seedbed.Schedule) string { return string(of.Kind) + " " + of.Name }
