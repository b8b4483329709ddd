package cli

import (
	"time"

	"seedbed"
)

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
