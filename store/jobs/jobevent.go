package jobs

import (
	"context"
	"slices"

	"seedbed"
	"seedbed/store/outbox"
	"seedbed/store/sqldb"
)

// jobFacts is a job as events describe it.
type jobFacts struct {
	ID       seedbed.JobID      `json:"id"`
	Kind     seedbed.JobKind    `json:"kind"`
	State    seedbed.JobState   `json:"state"`
	Subject  string             `json:"subject"`
	Instance seedbed.InstanceID `json:"instance,omitempty"`
	Node     string             `json:"node,omitempty"`
	Stage    string             `json:"stage,omitempty"`
	Done     int                `json:"done"`
	Total    int                `json:"total"`
	Error    string             `json:"error,omitempty"`
}

// told returns the error of a job as endpoints read it: without what a script has written, which may be
// secret. The job has the whole.
func told(j seedbed.Job) string {
	short := seedbed.WithoutScript(j.Error)
	if short != j.Error {
		short += " (seedbed job show " + string(j.ID) + ")"
	}
	return short
}

// EventOf returns an event about a job. more is pairs of a name and a text; a pair with an empty text
// is left out.
func EventOf(kind string, j seedbed.Job, more ...string) outbox.Event {
	facts := jobFacts{j.ID, j.Kind, j.State, j.Subject, j.Instance, j.Node, j.Stage, j.Done, j.Total, told(j)}
	return outbox.Event{Kind: kind, Project: j.Project, Subject: j.Subject, Data: func(context.Context, *sqldb.Tx) (any, error) {
		data := map[string]any{"job": facts}
		for pair := range slices.Chunk(more, 2) {
			if pair[1] != "" {
				data[pair[0]] = pair[1]
			}
		}
		return data, nil
	}}
}
