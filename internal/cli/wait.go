package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
)

// WaitFlags are the flags of commands that start a job.
type WaitFlags struct {
	Wait, noWait bool
	Timeout      time.Duration
}

// AddJob adds the flags of Add and those of the job's options to c.
func (w *WaitFlags) AddJob(a *App, c *cobra.Command) {
	w.Add(c)
	a.addJobFlags(c)
}

// Add adds --wait, --no-wait and --timeout to c.
func (w *WaitFlags) Add(c *cobra.Command) {
	f := c.Flags()
	f.BoolVar(&w.Wait, "wait", true, "wait until the job ends")
	f.BoolVar(&w.noWait, "no-wait", false, "return as soon as the job is accepted")
	w.AddTimeout(c)
	c.MarkFlagsMutuallyExclusive("wait", "no-wait")
}

// AddTimeout adds --timeout to c.
func (w *WaitFlags) AddTimeout(c *cobra.Command) {
	c.Flags().Var(NewDuration(&w.Timeout), "timeout", "wait at most this `DURATION`, such as 10m (default: until the job ends)")
}

// Wanted reports whether the command waits for its job.
func (w *WaitFlags) Wanted() bool { return w.Wait && !w.noWait }

// Finish ends a command that has started a job. It follows the job if w asks for that, and
// otherwise prints the job's ID. If err is not nil, no job was started, and it only returns err.
func (a *App) Finish(ctx context.Context, c *client.Client, w *WaitFlags, r seedbed.Receipt, err error) error {
	if err != nil {
		return err
	}
	if r.Cancels != "" {
		a.Say("job %s still works on it: that is cancelled and rolled back first", r.Cancels.Short())
	}
	if !w.Wanted() {
		if a.JSON() {
			return a.PrintJSON(r)
		}
		a.Say("job %s %s; follow it with: seedbed job watch %s", r.Job.Short(), r.State, r.Job.Short())
		return nil
	}
	return a.Follow(ctx, c, string(r.Job), w.Timeout, false)
}

// Follow shows a job until it ends. It returns an error if the job does not succeed. With every, it
// shows all events of the job, in JSON one per line.
func (a *App) Follow(ctx context.Context, c *client.Client, id string, timeout time.Duration, every bool) error {
	limited, cancel := Limited(ctx, timeout)
	defer cancel()
	p := a.newProgress(every)
	following, stop := context.WithCancel(limited)
	p.wait.Go(func() { p.follow(following, c.Console) })
	job, err := c.WaitJob(limited, id, p.seen)
	stop()
	var failed error
	if err == nil {
		failed = outcome(job)
	}
	p.end(job.Error, failed)
	switch {
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		return timedOut{fmt.Sprintf("the job has not ended after %s and continues: seedbed job watch %s", timeout, id)}
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("interrupted; the job continues: seedbed job watch %s", id)
	case err != nil:
		return err
	}
	if a.JSON() {
		print := a.PrintJSON
		if every {
			print = a.PrintJSONLine
		}
		if err := print(job); err != nil {
			return err
		}
	}
	if failed != nil {
		return failed
	}
	a.Say("%s %s succeeded in %s (job %s)", job.Kind, Printable(job.Subject), Span(job.Ended.Sub(job.Created)), job.ID.Short())
	if skipped := job.Skipped(); skipped != "" {
		a.Say("%s", Printable(skipped))
	}
	return nil
}

// Limited returns a context that ends after timeout or, if that is 0, with ctx.
func Limited(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	if timeout > 0 {
		return context.WithTimeout(ctx, timeout)
	}
	return context.WithCancel(ctx)
}

// Await waits for a job without showing it. It returns an error if the job does not succeed. If err
// is not nil, no job was started, and it only returns err.
func (a *App) Await(ctx context.Context, c *client.Client, r seedbed.Receipt, err error) error {
	if err != nil {
		return err
	}
	job, err := c.WaitJob(ctx, string(r.Job), nil)
	if errors.Is(err, context.Canceled) {
		return fmt.Errorf("interrupted; the job continues: seedbed job watch %s", r.Job.Short())
	}
	if err != nil {
		return err
	}
	return outcome(job)
}

// outcome returns nil for a job that succeeded, and otherwise an error that says how it ended.
func outcome(j seedbed.Job) error {
	cause := j.Error
	if cause == "" && j.Cancel {
		cause = "it was cancelled"
	}
	what := fmt.Sprintf("%s %s", j.Kind, j.Subject)
	more := "seedbed job show " + j.ID.Short()
	switch j.State {
	case seedbed.JobSucceeded:
		return nil
	case seedbed.JobRolledBack:
		return fmt.Errorf("%s was rolled back, nothing is left behind: %s (%s)", what, cause, more)
	case seedbed.JobFailed:
		return fmt.Errorf("%s failed and was not rolled back: %s (%s; seedbed job retry %s continues from the failed stage)",
			what, cause, more, j.ID.Short())
	case seedbed.JobIncomplete:
		return fmt.Errorf("%s failed and its rollback is incomplete: %s (%s)", what, cause, more)
	}
	return fmt.Errorf("%s %s: %s (%s)", what, j.State, cause, more)
}

// addJobFlags adds the flags for the options of a job that c starts. a's clients then start jobs with
// these options.
func (a *App) addJobFlags(c *cobra.Command) {
	a.Fill(c, &a.job,
		Flag{
			Field: "on_failure",
			Usage: "what to do if a stage fails, as `POLICY`: rollback, keep, or retry:ATTEMPTS:FIRST-WAIT such as retry:5:30s",
		},
		Flag{Field: "priority", Usage: "`PRIORITY` among queued jobs: low, normal, high or a number; the highest runs first"},
		Flag{Field: "after", Usage: "start only after that `JOB` succeeds"},
	)
}

// JobRow returns a job's row in a table of jobs.
func (a *App) JobRow(j seedbed.Job) []string {
	stage := When(!j.State.Terminal(), j.Stage)
	return []string{j.ID.Short(), string(j.Kind), j.Subject, string(j.State), stage, a.Ago(j.Created), a.Took(j.Created, j.Ended)}
}

// Took returns how long something took, or has taken so far.
func (a *App) Took(from, to time.Time) string {
	if from.IsZero() {
		return ""
	}
	if to.IsZero() {
		to = a.Now()
	}
	return Span(max(0, to.Sub(from)))
}
