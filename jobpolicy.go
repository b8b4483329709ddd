package seedbed

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// FailurePolicy says what happens to a job after one of its stages failed.
type FailurePolicy string

// The policies.
const (
	FailRollback FailurePolicy = "rollback" // undo everything that it did; the default
	FailKeep     FailurePolicy = "keep"     // leave everything in place, to be examined, retried or removed
	FailRetry    FailurePolicy = "retry"    // start the stage again after a wait; undo after the last attempt
)

// The bounds and defaults of FailRetry.
const (
	retryAttempts    = 3
	maxRetryAttempts = 100
	retryBackoff     = 10 * time.Second
	maxRetryBackoff  = time.Hour
)

// OnFailure is a FailurePolicy with its settings. The zero value is FailRollback. As text it is
// "rollback", "keep", or "retry" with the attempts and the wait before the second, such as
// "retry:5:30s"; the wait doubles from attempt to attempt, up to an hour.
type OnFailure struct {
	Policy FailurePolicy
	// Attempts is how often a stage is started in total, and Backoff the wait before the second
	// attempt. Only FailRetry has them.
	Attempts int
	Backoff  time.Duration
}

// ParseOnFailure parses the text of an OnFailure; the empty text is the zero value. Any other text
// is ErrInvalid.
func ParseOnFailure(s string) (OnFailure, error) {
	if s == "" {
		return OnFailure{}, nil
	}
	bad := Errorf(ErrInvalid,
		"on_failure %q is not valid: expected rollback, keep, or retry with attempts (2 to %d) and first wait (up to %s), such as retry:5:30s",
		Clip(s), maxRetryAttempts, maxRetryBackoff)
	policy, rest, more := strings.Cut(s, ":")
	switch p := FailurePolicy(policy); {
	case p == FailRollback && !more, p == FailKeep && !more:
		return OnFailure{Policy: p}, nil
	case p != FailRetry:
		return OnFailure{}, bad
	}
	o := OnFailure{Policy: FailRetry, Attempts: retryAttempts, Backoff: retryBackoff}
	if !more {
		return o, nil
	}
	attempts, wait, timed := strings.Cut(rest, ":")
	var err error
	if o.Attempts, err = strconv.Atoi(attempts); err != nil || o.Attempts < 2 || o.Attempts > maxRetryAttempts {
		return OnFailure{}, bad
	}
	if timed {
		if o.Backoff, err = ParseDuration(wait); err != nil || o.Backoff < 0 || o.Backoff > maxRetryBackoff {
			return OnFailure{}, bad
		}
	}
	return o, nil
}

// String returns the text that ParseOnFailure parses; empty for the zero value.
func (o OnFailure) String() string {
	if o.Policy != FailRetry {
		return string(o.Policy)
	}
	return fmt.Sprintf("%s:%d:%s", o.Policy, o.Attempts, o.Backoff)
}

// MarshalText implements encoding.TextMarshaler.
func (o OnFailure) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (o *OnFailure) UnmarshalText(text []byte) (err error) {
	*o, err = ParseOnFailure(string(text))
	return err
}

// Wait returns how long to wait before a stage that was started attempts times is started again.
func (o OnFailure) Wait(attempts int) time.Duration {
	wait := o.Backoff
	for ; attempts > 1 && wait < maxRetryBackoff; attempts-- {
		wait *= 2
	}
	return min(wait, maxRetryBackoff)
}

// Priority orders waiting jobs: the higher one is claimed first.
type Priority int

// The named priorities and the bounds.
const (
	PriorityLow    Priority = -10
	PriorityNormal Priority = 0
	PriorityHigh   Priority = 10

	maxPriority = 100
)

// ParsePriority parses "low", "normal", "high" or a whole number from -100 to 100; the empty text
// is PriorityNormal. Any other text is ErrInvalid.
func ParsePriority(s string) (Priority, error) {
	switch s {
	case "low":
		return PriorityLow, nil
	case "", "normal":
		return PriorityNormal, nil
	case "high":
		return PriorityHigh, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < -maxPriority || n > maxPriority {
		return 0, Errorf(ErrInvalid, "priority %q is not usable: expected low, normal, high, or a whole number from -%d to %d",
			Clip(s), maxPriority, maxPriority)
	}
	return Priority(n), nil
}

// String returns the text that ParsePriority parses.
func (p Priority) String() string {
	switch p {
	case PriorityLow:
		return "low"
	case PriorityNormal:
		return "normal"
	case PriorityHigh:
		return "high"
	}
	return strconv.Itoa(int(p))
}

// MarshalText implements encoding.TextMarshaler.
func (p Priority) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *Priority) UnmarshalText(text []byte) (err error) {
	*p, err = ParsePriority(string(text))
	return err
}

// JobOptions say how to run a job.
type JobOptions struct {
	OnFailure OnFailure `json:"on_failure,omitzero"`
	Priority  Priority  `json:"priority,omitzero"`
	// After is a job that must succeed before this one starts. If it ends any other way, this job
	// ends without starting.
	After JobID `json:"after,omitempty"`
}

// ClaimOptions says who claims a job, and which jobs it accepts.
type ClaimOptions struct {
	// Owner names the engine. Lease is how long it owns the job without renewal.
	Owner string
	Lease time.Duration
	// Kinds are the kinds that it can run; empty means any.
	Kinds []JobKind
	// PerNode and PerPool are how many jobs of all engines may run at the same time on one node and
	// on one pool; 0 means no limit.
	PerNode, PerPool int
	// Slots is how many of the owner's slots the jobs of each project have, by its name. Last is the
	// project of the job that the owner claimed last. They share the slots between projects.
	Slots map[string]int
	Last  string
}

// Check returns ErrInvalid for options that do not apply to a job of that kind.
func (o JobOptions) Check(kind JobKind) error {
	switch {
	case kind.Forward() && o.After != "":
		return Errorf(ErrInvalid, "a %s job cannot start after another job: request it when that job has ended", kind)
	case kind.Forward() && o.OnFailure != OnFailure{}:
		return Errorf(ErrInvalid, "on_failure does not apply to a %s job: it is never undone, and is retried automatically", kind)
	case (kind == JobRebuild || kind == JobSnapshotRestore || kind == JobVolumeMove) && o.OnFailure.Policy == FailKeep:
		return Errorf(ErrInvalid,
			"a %s job that fails cannot be kept: expected on_failure rollback or retry, which restore the former disks", kind)
	case (kind == JobResize || kind == JobVolumeResize) && o.OnFailure.Policy == FailKeep:
		return Errorf(ErrInvalid,
			"a %s job that fails cannot be kept: expected on_failure rollback or retry; once its disk has grown, seedbed job retry resumes it", kind)
	case o.Priority < -maxPriority || o.Priority > maxPriority:
		return Errorf(ErrInvalid, "priority %d is out of range: expected -%d to %d", o.Priority, maxPriority, maxPriority)
	}
	return nil
}

// Over returns o with its unset fields taken from below.
func (o JobOptions) Over(below JobOptions) JobOptions {
	if o.OnFailure != (OnFailure{}) {
		below.OnFailure = o.OnFailure
	}
	if o.Priority != 0 {
		below.Priority = o.Priority
	}
	if o.After != "" {
		below.After = o.After
	}
	return below
}

// SnapshotJob is the input of the jobs that make and remove snapshots.
type SnapshotJob struct {
	Name   string `json:"name"`
	Freeze Freeze `json:"freeze,omitempty"`
}

// SnapshotRestore is the input of a job that restores a snapshot. It is one of a SnapshotJob as well.
type SnapshotRestore struct {
	PowerSpec
	Name string `json:"name"`
}

// Freeze says whether a running guest's file systems are frozen by its agent while snapshots of its disks are taken.
type Freeze string

// The choices of Freeze. The zero value is FreezeAuto.
const (
	FreezeAuto   Freeze = "auto"   // if an agent answers
	FreezeAlways Freeze = "always" // or the snapshot fails
	FreezeNever  Freeze = "never"
)

// Check returns ErrInvalid for a value that is none of these.
func (f Freeze) Check() error {
	switch f {
	case "", FreezeAuto, FreezeAlways, FreezeNever:
		return nil
	}
	return Errorf(ErrInvalid, "freeze %q: expected auto, always or never", Clip(string(f)))
}

// Consistency is in which state a guest was when a snapshot of its disks was taken.
type Consistency string

// The values of Consistency.
const (
	ConsistencyOff    Consistency = "off"    // it was off
	ConsistencyFrozen Consistency = "frozen" // it ran, and its agent had frozen its file systems
	ConsistencyCrash  Consistency = "crash"  // it ran: the disks are as after a power cut
)
