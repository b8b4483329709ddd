package seedbed

import (
	"context"
	"encoding/json"
	"slices"
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
	JobStop   JobKind = "stop"   // shut down its guest, or power it off
	JobReboot JobKind = "reboot" // stop an instance, and start it again

	JobRebuild JobKind = "rebuild" // give an instance fresh disks
	JobMigrate JobKind = "migrate" // take an instance to another node

	JobFlatten        JobKind = "flatten"         // make an instance's volumes independent of their image
	JobSnapshot       JobKind = "snapshot"        // take a snapshot of an instance's volumes
	JobSnapshotRemove JobKind = "snapshot_remove" // remove a snapshot
	JobImageRemove    JobKind = "image_remove"    // remove an image

	JobSnapshotRestore JobKind = "snapshot_restore" // give an instance's volumes the content that they had at a snapshot

	JobOVA       JobKind = "ova"        // make the images of an OVA
	JobOVARemove JobKind = "ova_remove" // remove the images of an OVA
)

// Forward reports whether a job of that kind is never undone: it cannot be cancelled, and it can be
// requested again after it failed.
func (k JobKind) Forward() bool {
	return k == JobRemove || k == JobSnapshotRemove || k == JobImageRemove || k == JobOVARemove || k == JobForget || k == JobVolumeRemove ||
		k == JobBackupRemove
}

// Verb returns what a job of that kind does with its instance, for messages.
func (k JobKind) Verb() string {
	if k == JobSnapshotRestore {
		return "restore"
	}
	return string(k)
}

// Makes reports whether a job of that kind creates the object that it works on, so that undoing the
// job removes the object.
func (k JobKind) Makes() bool {
	return k.MakesInstance() || k == JobImport || k == JobOVA || k == JobVolumeAdd
}

// JobState is where a job is in its lifecycle.
type JobState string

// The states of a job.
const (
	JobQueued     JobState = "queued"      // accepted; no engine works on it
	JobRunning    JobState = "running"     // its stages run
	JobUndoing    JobState = "undoing"     // a stage failed or the job was cancelled; the stages are undone in reverse order
	JobSucceeded  JobState = "succeeded"   // everything requested is done
	JobRolledBack JobState = "rolled_back" // it failed, and nothing is left behind
	JobIncomplete JobState = "rollback_incomplete"
	// JobFailed: it failed and was not undone, because of its kind (Forward) or its policy
	// (FailKeep). It can resume at the stage that failed.
	JobFailed JobState = "failed"
)

// Terminal reports whether s is an end state.
func (s JobState) Terminal() bool {
	switch s {
	case JobSucceeded, JobRolledBack, JobIncomplete, JobFailed:
		return true
	}
	return false
}

// RolledBack is how the last event of a job that was undone begins.
const RolledBack = "rolled back, "

var transitions = map[JobState][]JobState{
	JobQueued:  {JobRunning, JobUndoing, JobRolledBack, JobSucceeded},
	JobRunning: {JobRunning, JobUndoing, JobSucceeded, JobFailed},
	JobUndoing: {JobUndoing, JobRolledBack, JobIncomplete},
	JobFailed:  {JobQueued},

	JobIncomplete: {JobUndoing},
}

// CanBecome reports whether a job in state s may change to state next. A queued job that is
// cancelled before it starts becomes JobRolledBack at once. A queued removal succeeds if undoing
// the create job has already removed the instance. A failed job that is resumed becomes JobQueued.
// A job that left something behind may be undone again.
func (s JobState) CanBecome(next JobState) bool {
	return slices.Contains(transitions[s], next)
}

// Job is one piece of durable work. An engine claims its row under a lease and runs it stage by
// stage. It reaches a terminal state exactly once, unless it is resumed from there.
type Job struct {
	ID    JobID    `json:"id"`
	Kind  JobKind  `json:"kind"`
	State JobState `json:"state"`
	// Project is the name of the project that it belongs to.
	Project string `json:"project"`
	// Subject is the name of the instance or image that it works on.
	Subject string `json:"subject"`
	// Instance is set for jobs that work on an instance.
	Instance InstanceID `json:"instance,omitempty"`
	// Spec is the input of a job as JSON. Its type depends on Kind: an ImportSpec, a PowerSpec, a
	// MigrateSpec, a RebuildSpec, a ResizeSpec, a SnapshotJob or an ImageRemoval, for example. It is empty for a
	// job without input.
	Spec json.RawMessage `json:"spec,omitempty"`
	Node string          `json:"node,omitempty"`
	// Pool is the pool that it works on; empty for a job that does not touch a volume or image.
	Pool string `json:"pool,omitempty"`
	JobOptions
	// Blocked is true until the job in After has ended.
	Blocked bool `json:"blocked,omitempty"`
	// Owner names the engine that owns the job. Each of its writes carries Epoch.
	Owner string `json:"owner,omitempty"`
	Epoch int64  `json:"epoch"`
	// LeaseUntil is when another engine may claim the job.
	LeaseUntil time.Time `json:"lease_until,omitzero"`
	// Stage is the name of the current stage. Done and Total count stages.
	Stage string `json:"stage,omitempty"`
	Done  int    `json:"done"`
	Total int    `json:"total"`
	// Progress is the percentage of the current stage, 0 to 100.
	Progress int `json:"progress"`
	// Attempts counts how often the current stage was started.
	Attempts int `json:"attempts"`
	// Error is why it failed; empty otherwise.
	Error string `json:"error,omitempty"`
	// Cancel is true once its cancellation was requested.
	Cancel bool `json:"cancel"`
	// Final is true if the current stage cannot be undone, as its Step said.
	Final   bool      `json:"-"`
	Created time.Time `json:"created"`
	Started time.Time `json:"started,omitzero"`
	Ended   time.Time `json:"ended,omitzero"`
}

// JobRef names a job under one epoch; its owner writes with it. A write whose epoch is no longer
// that of the row returns ErrStale and changes nothing.
type JobRef struct {
	ID    JobID
	Epoch int64
}

// Ref returns the reference to the job under its current epoch.
func (j *Job) Ref() JobRef { return JobRef{ID: j.ID, Epoch: j.Epoch} }

// StageState is the state of a stage.
type StageState string

// The states of a stage.
const (
	StageIntent  StageState = "intent"  // written before its first effect
	StageDone    StageState = "done"    // effect verified and committed
	StageUndone  StageState = "undone"  // its undo was verified and committed
	StageOrphans StageState = "orphans" // its undo failed; Error names what is left
)

// Stage is one row of a job's journal.
type Stage struct {
	Job   JobID      `json:"job"`
	N     int        `json:"n"`
	Name  string     `json:"name"`
	State StageState `json:"state"`
	// Error is why the stage or its undo failed.
	Error   string    `json:"error,omitempty"`
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended,omitzero"`
}

// Event is one line of a job's history. Seq counts from 1 per job, without gaps.
type Event struct {
	Job   JobID     `json:"job"`
	Seq   int64     `json:"seq"`
	At    time.Time `json:"at"`
	Level string    `json:"level"` // info, warn or error
	Stage string    `json:"stage,omitempty"`
	Msg   string    `json:"msg"`
	// Progress is the percentage of the stage, 0 to 100.
	Progress int `json:"progress"`
	// BytesDone and BytesTotal are set if Progress is a percentage of bytes.
	BytesDone  Bytes `json:"bytes_done,omitempty"`
	BytesTotal Bytes `json:"bytes_total,omitempty"`
}

// NumberedEvent is an event with its place among the events of all jobs.
type NumberedEvent struct {
	Event
	// Place is its number among all events. The numbers have gaps where jobs were deleted.
	Place int64 `json:"place"`
	// Kind and Subject are those of the job.
	Kind    JobKind `json:"kind"`
	Subject string  `json:"subject"`
}

// FullSubject returns the subject of a job on an instance with its project.
func (j Job) FullSubject() InstanceName { return InstanceName{j.Project, j.Subject} }

// Claim is a name that at most one live object may have.
type Claim struct {
	Kind string // "image"; instances claim by the keys of their own rows
	Key  string // the name itself
	Job  JobID
}

// Request asks for one action, from a webhook or the API.
type Request struct {
	Action string `json:"action"` // DoCreate, DoRemove, …
	// Project is the project that the caller acts in; empty means the default project.
	Project string `json:"-"`
	Name    string `json:"name"`
	Profile string `json:"profile,omitempty"`
	// Image is what a create without a profile makes its disk from. In a rebuild it replaces the
	// profile's image; a webhook cannot do that.
	Image string `json:"image,omitempty"`
	// Network is the network of a new instance's first NIC, in place of the profile's.
	Network string `json:"network,omitempty"`
	// NICs are all NICs of a new instance, in place of the profile's, or the one that is added to an instance or that a NIC of it becomes.
	NICs []NICRequest `json:"nics,omitempty"`
	// NIC is the index of the NIC that is removed or changed.
	NIC *int `json:"-"`
	// Volume is what an action on a volume, whose name is Name, asks for.
	Volume VolumeOrder `json:"-"`
	// SecurityGroups are the groups of the NICs of a new instance that name none themselves.
	SecurityGroups []string       `json:"security_groups,omitempty"`
	Params         map[string]any `json:"params,omitempty"`
	// Node is the node for a create; empty leaves the choice to the placement.
	Node string `json:"node,omitempty"`
	// Hold and Protected replace the values of the profile in a create; nil leaves them.
	Hold      *bool `json:"hold,omitempty"`
	Protected *bool `json:"protected,omitempty"`
	// Expires is when a new instance expires, and AtExpiry what is done then; see ParseExpiry.
	Expires  string `json:"expires,omitempty"`
	AtExpiry string `json:"at_expiry,omitempty"`
	// Arguments are the arguments of the script for a create by a profile with one. They take
	// precedence over those of the profile. If they are nil and the profile does not declare
	// parameters, Params are used.
	Arguments []string `json:"-"`
	// Ready is what ends the job, for a request with Arguments; empty means the value of the
	// profile.
	Ready Ready `json:"-"`
	// Off leaves a new instance off. Undefined makes only its disks, which do not belong to an
	// instance afterwards.
	Off, Undefined bool `json:"-"`
	// JobOptions are for the job. They take precedence over those of the profile. After may be the
	// start of a job's ID.
	JobOptions
	// Schedule is the qualified name of the schedule that asks for a backup or a snapshot, or that has made the snapshot which is removed.
	Schedule string `json:"-"`
	// Also are the further snapshots of the instance that are removed with the one in Params.
	Also []string `json:"-"`
	// KeepDisks makes the disks of a removed instance volumes of its project.
	KeepDisks bool `json:"-"`
	// Confirm is the name again, to remove, rebuild or restore a protected instance. A webhook cannot set
	// it.
	Confirm string `json:"-"`
}

// Receipt is the answer to an accepted request.
type Receipt struct {
	Job   JobID    `json:"job"`
	State JobState `json:"state"`
	// Duplicate is true if the same delivery was accepted before.
	Duplicate bool `json:"duplicate"`
	// Cancels is the create job of an instance that is removed before it is complete, or the stop or
	// reboot job that a forced stop overtakes. That job is undone first.
	Cancels JobID `json:"cancels,omitempty"`
}

// The bounds of a job's output.
const (
	// MaxOutputLine is how much of one line is kept, in bytes.
	MaxOutputLine = 4 * KiB
	// MaxOutput is how much is kept of the output of one stage of a job: its beginning and its end.
	// A line of OutputNote says how much was dropped between them.
	MaxOutput = MiB
)

// OutputNote is the stream of the lines that Seedbed itself adds to a job's output.
const OutputNote = "note"

// OutputLine is one line of output of a command or script of a job, without the line break.
type OutputLine struct {
	// Stream is "stdout" or "stderr"; "info", "warn" or "error" for what a script logs; "sandbox" for
	// what the sandbox refuses a script; or OutputNote.
	Stream string `json:"stream"`
	Text   string `json:"text"`
}

// JobOutput is a stored line of a job's output. N grows within the job and has gaps where lines
// were dropped.
type JobOutput struct {
	N     int64     `json:"n"`
	At    time.Time `json:"at"`
	Stage string    `json:"stage"`
	OutputLine
}

type outputTo struct{}

// WithOutput returns ctx for commands whose output is passed to give, line by line. give may be
// called from any goroutine and must not block for long.
func WithOutput(ctx context.Context, give func(OutputLine)) context.Context {
	return context.WithValue(ctx, outputTo{}, give)
}

// OutputOf returns the function that receives the output of commands run with ctx; nil if none
// does.
func OutputOf(ctx context.Context) func(OutputLine) {
	give, _ := ctx.Value(outputTo{}).(func(OutputLine))
	return give
}

// PowerSpec is the input of a job that stops or reboots an instance.
type PowerSpec struct {
	// Force powers off at once, without asking the guest to shut down.
	Force bool `json:"force,omitempty"`
	// Soft never powers off. A guest that does not shut down stays on, and the job fails.
	Soft bool `json:"soft,omitempty"`
	// Grace is how long the guest has to shut down; zero means the configured time of the stage.
	Grace time.Duration `json:"grace,omitempty"`
	// Was is the instance's state when the job was accepted. The store sets it.
	Was InstanceState `json:"was,omitempty"`
}

// MaxGrace is the longest time that a request may give a guest to shut down.
const MaxGrace = time.Hour

// MigrateSpec is the input of a job that takes an instance to another node. Its power part says how the guest is switched off, unless it is
// migrated while it runs.
type MigrateSpec struct {
	PowerSpec
	// From is the node that it leaves, and To the one that it goes to.
	From string `json:"from"`
	To   string `json:"to"`
	// Live is true if its guest runs all the time.
	Live bool `json:"live,omitempty"`
	// Home is its home afterwards, and WasHome the one before, which the store sets.
	Home    string `json:"home,omitempty"`
	WasHome string `json:"was_home,omitempty"`
	Lost    bool   `json:"lost,omitempty"` // From was fenced
}

// RebuildSpec is the input of a job that gives an instance fresh disks. What the instance becomes
// is in a Rebuild, which contains secrets.
type RebuildSpec struct {
	PowerSpec
	// Profile and Image are what the disks are made from.
	Profile string `json:"profile"`
	Image   string `json:"image"`
	// Own is set if the request did not name a profile, so that Profile is the one of the instance.
	Own bool `json:"own,omitempty"`
	// Scripted is true if the profile's script makes the disks.
	Scripted bool `json:"scripted,omitempty"`
	// Skipped says why the profile's script was skipped; empty if it was not.
	Skipped string `json:"skipped,omitempty"`
}

// Rebuild is what a rebuild job makes of its instance. Only the profile, image, size, documents,
// keys, metadata options and volumes of both sides are used. Name, ID, NICs, tags and the rest of
// the instance stay.
type Rebuild struct {
	// Next is what the instance becomes.
	Next Instance
	// Before is what the instance was; nil until it has changed.
	Before *Instance
}

// RebuildSide is one side of a Rebuild.
type RebuildSide string

// The sides.
const (
	RebuildNext   RebuildSide = "next"
	RebuildBefore RebuildSide = "before"
)
