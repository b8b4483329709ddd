package wire

import "seedbed"

// JobStatus is a job and its stages.
type JobStatus struct {
	Job    seedbed.Job     `json:"job"`
	Stages []seedbed.Stage `json:"stages"`
}

// EventPage is a part of a job's history. Job was read before Events. If the job has ended and
// there are no events, the caller has seen all.
type EventPage struct {
	Events []seedbed.Event `json:"events"`
	Job    seedbed.Job     `json:"job"`
}

// OutputPage is a piece of the output of a job's commands. Job was read before
// Lines. If the job has ended and there are no lines, the caller has seen all.
type OutputPage struct {
	Lines []seedbed.JobOutput `json:"lines"`
	Job   seedbed.Job         `json:"job"`
}
