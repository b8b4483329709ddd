package seedbed

import (
	"encoding/json"
	"time"
)

// JobKind says what a job does.
type JobKind string

// The kinds of job.
const (
	JobCreate JobKind = "create" // make an instance and start it
	JobRemove JobKind = "remove" // undo an instance, volumes included
	JobImport JobKind = "import" // make an image from a file
	JobStart  JobKind = "start"  // start an instance's domain
	JobStop   JobKind = "stop"   // shut its guest down, or switch it off
	JobReboot JobKind = "reboot" // the same, and start it again

	JobRebuild JobKind = "rebuild" // give an instance fresh disks

	JobFlatten        JobKind = "flatten"         // make an instance's volumes independent of their image
	JobSnapshot       JobKind = "snapshot"        // take a snapshot of an instance's volumes
	JobSnapshotRemove JobKind = "snapshot_remove" // remove one
	JobImageRemove    JobKind = "image_remove"    // remove an image

	JobOVA       JobKind = "ova"        // make the images of an OVA
	JobOVARemove JobKind = "ova_remove" // remove them
)

// Forward tells whether a job of that kind only goes forward: it cannot be
// cancelled, and when it fails it can be asked for again.
func (k JobKind) Forward() bool {
	return k == JobRemove || k == JobSnapshotRemove || k == JobImageRemove || k == JobOVARemove || k == JobForget
}

// Makes tells whether what a job of that kind works on was not there before, and
// is gone when the job is undone.
func (k JobKind) Makes() bool {
	return k == JobCreate || k == JobImport || k == JobOVA || k == JobAdopt
}

// JobState is where a job is in its life.
type JobState string

// The states of a job.
const (
	JobQueued     JobState = "queued"      // accepted, nobody works on it
	JobRunning    JobState = "running"     // stages go forward
	JobUndoing    JobState = "undoing"     // a stage failed or a cancel came; the journal runs backwards
	JobSucceeded  JobState = "succeeded"   // everything asked for happened
	JobRolledBack JobState = "rolled_back" // it failed, and nothing is left behind
	JobIncomplete JobState = "rollback_incomplete"
	// JobFailed: it failed and was not undone, because its kind only goes Forward or
	// because it was to be kept (FailKeep). It can be taken up where it failed.
	JobFailed JobState = "failed"
)

// Terminal tells whether s is an end state.
func (s JobState) Terminal() bool {
	switch s {
	case JobSucceeded, JobRolledBack, JobIncomplete, JobFailed:
		return true
	}
	return false
}

var transitions = map[JobState][]JobState{
	JobQueued:  {JobRunning, JobUndoing, JobRolledBack, JobSucceeded},
	JobRunning: {JobRunning, JobUndoing, JobSucceeded, JobFailed},
	JobUndoing: {JobUndoing, JobRolledBack, JobIncomplete},
	JobFailed:  {JobQueued},

	JobIncomplete: {JobUndoing},
}

// CanBecome tells whether a job in state s may go to state next. A queued job
// that is cancelled before it has begun is rolled back at once, a queued removal
// whose instance went with the job that was making it has succeeded, one that
// failed is queued again when it is taken up once more, and one that has left
// something behind is undone once more.
func (s JobState) CanBecome(next JobState) bool {
	for _, t := range transitions[s] {
		if t == next {
			return true
		}
	}
	return false
}

// Job is one piece of durable work: a row that is claimed under a lease, run
// stage by stage, and ends in a terminal state exactly once, unless it is taken
// up again from there.
type Job struct {
	ID    JobID    `json:"id"`
	Kind  JobKind  `json:"kind"`
	State JobState `json:"state"`
	// Subject is the name of the instance or image that it works on.
	Subject string `json:"subject"`
	// Instance is set for jobs that work on one.
	Instance InstanceID `json:"instance,omitempty"`
	// Spec is the input of a job as JSON: an ImportSpec, a PowerSpec, a RebuildSpec,
	// a ResizeSpec, a SnapshotJob or an ImageRemoval by its kind. Else empty.
	Spec json.RawMessage `json:"spec,omitempty"`
	Node string          `json:"node,omitempty"`
	// Pool is the pool that it works on; empty for a job that touches no volume or image.
	Pool string `json:"pool,omitempty"`
	JobOptions
	// Blocked is true as long as the job that it comes After has not ended.
	Blocked bool `json:"blocked,omitempty"`
	// Owner and Epoch say who holds the job; every write of a holder carries its epoch.
	Owner string `json:"owner,omitempty"`
	Epoch int64  `json:"epoch"`
	// LeaseUntil is when another may take the job over.
	LeaseUntil time.Time `json:"lease_until,omitzero"`
	// Stage is the name of the stage in hand, and Done and Total count stages.
	Stage string `json:"stage,omitempty"`
	Done  int    `json:"done"`
	Total int    `json:"total"`
	// Progress is the percentage of the stage in hand, 0 to 100.
	Progress int `json:"progress"`
	// Attempts counts how often the stage in hand was started.
	Attempts int `json:"attempts"`
	// Error is why it failed; empty otherwise.
	Error string `json:"error,omitempty"`
	// Cancel is true once someone asked for it to be cancelled.
	Cancel  bool      `json:"cancel"`
	Created time.Time `json:"created"`
	Started time.Time `json:"started,omitzero"`
	Ended   time.Time `json:"ended,omitzero"`
}

// JobRef names a job under one epoch: what its holder writes with. A write
// with an epoch that is no longer the row's gives ErrStale and changes nothing.
type JobRef struct {
	ID    JobID
	Epoch int64
}

// Ref is the job under its present epoch.
func (j *Job) Ref() JobRef { return JobRef{ID: j.ID, Epoch: j.Epoch} }

// StageState is where a stage is.
type StageState string

// The states of a stage.
const (
	StageIntent  StageState = "intent"  // written before its first effect
	StageDone    StageState = "done"    // effect verified and committed
	StageUndone  StageState = "undone"  // its undo was verified and committed
	StageOrphans StageState = "orphans" // its undo failed; what is left is in Error
)

// Stage is one row of a job's journal.
type Stage struct {
	Job   JobID      `json:"job"`
	N     int        `json:"n"`
	Name  string     `json:"name"`
	State StageState `json:"state"`
	// Error is the stage's or its undo's failure.
	Error   string    `json:"error,omitempty"`
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended,omitzero"`
}

// Event is one line of a job's history. Seq is gap-free per job, from 1.
type Event struct {
	Job   JobID     `json:"job"`
	Seq   int64     `json:"seq"`
	At    time.Time `json:"at"`
	Level string    `json:"level"` // info, warn or error
	Stage string    `json:"stage,omitempty"`
	Msg   string    `json:"msg"`
	// Progress is the percentage of the stage, 0 to 100.
	Progress int `json:"progress"`
	// BytesDone and BytesTotal are what that percentage is of, where it is of bytes.
	BytesDone  Bytes `json:"bytes_done,omitempty"`
	BytesTotal Bytes `json:"bytes_total,omitempty"`
}

// PlacedEvent is an event among those of all jobs.
type PlacedEvent struct {
	Event
	// Place is its number in the order of all, which has gaps where jobs were forgotten.
	Place int64 `json:"place"`
	// Kind and Subject are the job's.
	Kind    JobKind `json:"kind"`
	Subject string  `json:"subject"`
}

// ImportSpec is the input of an import job.
type ImportSpec struct {
	// Path is a file on the worker's host; empty with Upload, a file that the pool has taken in.
	Path   string `json:"path,omitempty"`
	Upload string `json:"upload,omitempty"`
	// SHA256 is the digest that the file must have; empty means unchecked.
	SHA256 string `json:"sha256,omitempty"`
	// Format is what the file must be; empty means any that can be imported.
	Format string `json:"format,omitempty"`
	// Firmware is the image's; empty means what the file says, if it does.
	Firmware Firmware `json:"firmware,omitempty"`
	// Node is whose worker makes it; empty leaves that to the placement.
	Node string `json:"-"`
}

// Claim is one name that at most one live holder has.
type Claim struct {
	Kind string // "image"; instances claim by the keys of their own rows
	Key  string // the name itself
	Job  JobID
}

// Request asks for one action, from a webhook or the API.
type Request struct {
	Action  string `json:"action"` // DoCreate, DoRemove, …
	Name    string `json:"name"`
	Profile string `json:"profile,omitempty"`
	// Image is the image of a rebuild in place of the profile's. No webhook names
	// one: what a hook may use is told by profiles.
	Image  string         `json:"image,omitempty"`
	Params map[string]any `json:"params,omitempty"`
	// Node is where a create is to be; empty leaves it to the placement.
	Node string `json:"node,omitempty"`
	// Hold and Protected are, of a create, in place of what the profile says; nil leaves that.
	Hold      *bool `json:"hold,omitempty"`
	Protected *bool `json:"protected,omitempty"`
	// Arguments are, of a create by a profile with a script, the script's, over those of
	// the profile. Where they are nil and the profile declares no params, Params are.
	Arguments []string `json:"-"`
	// Ready is, beside Arguments, what ends the job; empty is the profile's.
	Ready Ready `json:"-"`
	// Off leaves a new instance off; Undefined has its disks made and nothing else, which
	// are nobody's at the end.
	Off, Undefined bool `json:"-"`
	// JobOptions are for the job, over those of the request's context. Of After the
	// start of a job's ID is enough.
	JobOptions
	// Confirm is the name once more, to remove or rebuild an instance that is
	// protected. No webhook has it.
	Confirm string `json:"-"`
}

// Receipt is the answer to an accepted request.
type Receipt struct {
	Job   JobID    `json:"job"`
	State JobState `json:"state"`
	// Duplicate is true when the same delivery was accepted before.
	Duplicate bool `json:"duplicate"`
	// Cancels is the job that made the instance, where that is to be removed before
	// it is complete: that one is undone first.
	Cancels JobID `json:"cancels,omitempty"`
}
