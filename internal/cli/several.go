package cli

import (
	"context"
	"errors"
	"strings"
	"time"

	"seedbed"
	"seedbed/api/client"
)

// Failures are the errors of a command for several objects. They are printed on a line each.
type Failures []error

func (f Failures) Error() string {
	return strings.Join(Each(f, error.Error), "; ")
}

// Unwrap returns the errors.
func (f Failures) Unwrap() []error { return f }

// ForEach calls do for each of several objects, also after a failure. It returns the error of a
// single one unchanged.
func ForEach(names []string, do func(name string) error) error {
	if len(names) == 1 {
		return do(names[0])
	}
	var failed Failures
	for _, name := range names {
		if err := do(name); err != nil {
			failed = append(failed, about(name, err))
		}
	}
	return failed.orNil()
}

func (f Failures) orNil() error {
	if len(f) == 0 {
		return nil
	}
	return f
}

// about returns err with the name of the object, unless it is in the message already.
func about(name string, err error) error {
	if strings.Contains(err.Error(), name) {
		return err
	}
	return &named{name, err}
}

// named is an error of one object of several.
type named struct {
	name string
	err  error
}

func (n *named) Error() string { return n.name + ": " + n.err.Error() }

func (n *named) Unwrap() error { return n.err }

// FinishEach ends a command that starts a job for each of several objects: it starts all jobs and
// then follows them, as Finish does. For a single object it is Finish, unless that was selected: the
// JSON of a selection is always an array.
func (a *App) FinishEach(
	ctx context.Context, c *client.Client, w *WaitFlags, names []string, selected bool, begin func(name string) (seedbed.Receipt, error),
) error {
	if len(names) == 1 && !selected {
		receipt, err := begin(names[0])
		return a.Finish(ctx, c, w, receipt, err)
	}
	var (
		failed  Failures
		started []string
	)
	receipts := []seedbed.Receipt{}
	for _, name := range names {
		r, err := begin(name)
		if err != nil {
			failed = append(failed, about(name, err))
			continue
		}
		receipts, started = append(receipts, r), append(started, name)
	}
	switch {
	case w.Wanted():
		failed = append(failed, a.followEach(ctx, c, w.Timeout, started, receipts)...)
	case a.JSON():
		failed = append(failed, nonNil(a.PrintJSON(receipts))...)
	default:
		for _, r := range receipts {
			failed = append(failed, nonNil(a.Finish(ctx, c, w, r, nil))...)
		}
	}
	return failed.orNil()
}

// followEach follows jobs, one after the other, until all have ended or the time has passed. In JSON
// it prints them as one array.
func (a *App) followEach(
	ctx context.Context, c *client.Client, timeout time.Duration, names []string, receipts []seedbed.Receipt,
) (failed Failures) {
	deadline := time.Now().Add(timeout)
	jobs := []seedbed.Job{}
	for i, r := range receipts {
		left := time.Duration(0)
		if timeout > 0 {
			left = max(time.Millisecond, time.Until(deadline))
		}
		err := a.followOne(ctx, c, r, left, &jobs)
		if err != nil {
			failed = append(failed, about(names[i], err))
		}
	}
	if a.JSON() {
		failed = append(failed, nonNil(a.PrintJSON(jobs))...)
	}
	return failed
}

func (a *App) followOne(ctx context.Context, c *client.Client, r seedbed.Receipt, timeout time.Duration, jobs *[]seedbed.Job) error {
	if !a.JSON() {
		return a.Follow(ctx, c, string(r.Job), timeout, false)
	}
	limited, cancel := Limited(ctx, timeout)
	defer cancel()
	job, err := c.WaitJob(limited, string(r.Job), nil)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return TimedOutf("the job has not ended in time and continues: seedbed job watch %s", r.Job.Short())
	}
	if err != nil {
		return err
	}
	*jobs = append(*jobs, job)
	return outcome(job)
}

func nonNil(err error) Failures {
	if err == nil {
		return nil
	}
	return Failures{err}
}
