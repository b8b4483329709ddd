package cli

import (
	"time"

	"github.com/spf13/cobra"

	"seedbed"
)

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
	stage := ""
	if !j.State.Terminal() {
		stage = j.Stage
	}
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
