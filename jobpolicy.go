package seedbed

import (
	"cmp"
	"fmt"
	"slices"
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
	Name   string   `json:"name"`
	Also   []string `json:"also,omitempty"` // further ones that are removed
	Freeze Freeze   `json:"freeze,omitempty"`
	// Schedule is the schedule that has asked for it; empty for a caller. A job that has one removes no snapshot of another.
	Schedule string `json:"schedule,omitempty"`
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

// ScheduleKind is what a schedule makes.
type ScheduleKind string

// The kinds of schedules.
const (
	ScheduleBackup   ScheduleKind = "backup"
	ScheduleSnapshot ScheduleKind = "snapshot"
)

// What is what messages call a schedule of the kind.
func (k ScheduleKind) What() string { return string(k) + " schedule" }

// Schedule says when backups or snapshots of instances are made by themselves.
type Schedule struct {
	Kind ScheduleKind `json:"kind"`
	// Name is the qualified name: see Qualified. It is unique for the kind. The instances are those of its project.
	Name    string `json:"name"`
	Project string `json:"project"`
	// Target is the target of backups.
	Target string `json:"target,omitempty"`
	// Cron is when: five fields of cron(5), in UTC.
	Cron string `json:"cron"`
	ScheduleSettings
	// Revision and Created are set by the server, and so is Last, what it did last.
	Revision int64        `json:"revision"`
	Created  time.Time    `json:"created"`
	Last     *ScheduleRun `json:"last,omitempty"`
}

// ScheduleSettings say for which instances a schedule is, and what it makes of them. One of Instances, Profile and Tag is set.
type ScheduleSettings struct {
	// Instances are those of these names, Profile those that were made from it, and Tag, which is KEY or KEY=VALUE, those that have it.
	Instances []string `json:"instances,omitempty"`
	Profile   string   `json:"profile,omitempty"`
	Tag       string   `json:"tag,omitempty"`
	// Exclude are the names of volumes that backups leave out where they are attached.
	Exclude []string `json:"exclude,omitempty"`
	// Keep says which of the snapshots that the schedule has made of an instance the cleanup keeps; its zero value means all.
	Keep Retention `json:"keep,omitzero"`
	// Freeze says whether running guests are frozen for their snapshots.
	Freeze Freeze `json:"freeze,omitempty"`
}

// ScheduleRun is what a schedule has asked for at one time, or would ask for.
type ScheduleRun struct {
	Time time.Time `json:"time"`
	// Jobs is how many jobs it has made, and Refused for how many instances it could not make one.
	Jobs    int `json:"jobs"`
	Refused int `json:"refused"`
	// Items are what it has asked for. Of the last run, they are the first that were refused.
	Items []ScheduleItem `json:"items"`
}

// ScheduleItem is what a schedule has asked for of one instance.
type ScheduleItem struct {
	Instance string `json:"instance"`
	// Action is DoBackup, DoSnapshot or DoSnapshotRemove, and Snapshot the name of the snapshot.
	Action   string `json:"action"`
	Snapshot string `json:"snapshot,omitempty"`
	// Job is the job that does it; empty in a dry run. Problem is why there is none.
	Job     JobID  `json:"job,omitempty"`
	Problem string `json:"problem,omitempty"`
}

// ScheduledSnapshot is a snapshot that a schedule has made.
type ScheduledSnapshot struct {
	// Schedule is its qualified name. It may have been removed since.
	Schedule string
	Instance InstanceName
	Name     string
	Taken    time.Time
	// State is the state of the job that takes it.
	State JobState
}

// The bounds of a schedule.
const (
	maxScheduleName  = 40 // is part of the names of snapshots
	maxScheduleNames = 64
)

// Takes reports whether the schedule is for that instance, as it is now.
func (s Schedule) Takes(i Instance) bool {
	if i.Project != s.Project || i.State != InstanceRunning && i.State != InstanceStopped {
		return false
	}
	if len(s.Instances) > 0 {
		return slices.Contains(s.Instances, i.Name)
	}
	if s.Profile != "" {
		return i.Profile == s.Profile
	}
	key, value, exact := strings.Cut(s.Tag, "=")
	v, has := i.Tags[key]
	return has && (!exact || v == value)
}

// SnapshotAt returns the name of the snapshots that the schedule makes at that time.
func (s Schedule) SnapshotAt(at time.Time) string {
	return ShortName(s.Name) + "-" + at.UTC().Format("20060102T150405Z")
}

// Check returns ErrInvalid for a schedule that is not valid, apart from its cron fields.
func (s Schedule) Check() error {
	if err := CheckQualified(s.Kind.What(), s.Project, s.Name); err != nil {
		return err
	}
	bad := func(format string, args ...any) error {
		return Errorf(ErrInvalid, "%s %q: "+format, append([]any{s.Kind.What(), s.Name}, args...)...)
	}
	chosen := 0
	for _, given := range []bool{len(s.Instances) > 0, s.Profile != "", s.Tag != ""} {
		if given {
			chosen++
		}
	}
	switch {
	case chosen != 1:
		return bad("expected instances, a profile or a tag, and only one of these")
	case len(s.Instances) > maxScheduleNames || len(s.Exclude) > maxScheduleNames:
		return bad("there are too many names: expected at most %d", maxScheduleNames)
	case len(s.Tag) > maxTargetText:
		return bad("the tag is too long: expected at most %d characters", maxTargetText)
	case s.Kind == ScheduleSnapshot && len(ShortName(s.Name)) > maxScheduleName:
		return bad("the name is too long: expected at most %d characters", maxScheduleName)
	}
	for _, name := range s.Instances {
		if err := CheckInstanceName(name); err != nil {
			return err
		}
	}
	for _, name := range s.Exclude {
		if err := CheckName("volume", name); err != nil {
			return err
		}
	}
	if s.Profile != "" {
		if err := CheckQualifiedName("profile", s.Profile); err != nil {
			return err
		}
	}
	if s.Kind == ScheduleBackup {
		return CheckTargetName(s.Target)
	}
	return cmp.Or(s.Keep.Check(), s.Freeze.Check())
}
