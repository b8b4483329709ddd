package seedbed

import (
	"regexp"
	"strconv"
	"strings"
	"time"
)

// InstanceQuery says which instances are wanted. The zero value of a member
// asks for nothing.
type InstanceQuery struct {
	State   InstanceState
	Profile string
	Node    string
	// Prefix is what the name starts with.
	Prefix string
	// After is the last name that the caller has: those after it follow.
	After string
	// Limit is the most that are given; 0 is without bound.
	Limit int
}

// ProfileQuery says which profiles are wanted, by name. The zero value of a
// member asks for nothing.
type ProfileQuery struct {
	// Prefix is what the name starts with.
	Prefix string
	// After is the last name that the caller has: those after it follow.
	After string
	// Limit is the most that are given; 0 is without bound.
	Limit int
}

// JobQuery says which jobs are wanted, the newest first. The zero value of a
// member asks for nothing.
type JobQuery struct {
	Kind  JobKind
	State JobState
	// After is the last job that the caller has: those before it in time follow.
	After JobCursor
	// Limit is the most that are given; 0 is without bound.
	Limit int
}

// JobCursor is a job's place among all. It stays one after the job is forgotten.
type JobCursor struct {
	Created time.Time
	ID      JobID
}

// Cursor is the job's place.
func (j Job) Cursor() JobCursor { return JobCursor{j.Created, j.ID} }

// InstanceStates are all of them.
func InstanceStates() []InstanceState {
	return []InstanceState{InstanceProvisioning, InstanceRunning, InstanceStopped, InstanceRemoving, InstanceGone, InstanceFailed}
}

// JobStates are all of them.
func JobStates() []JobState {
	return []JobState{JobQueued, JobRunning, JobUndoing, JobSucceeded, JobRolledBack, JobIncomplete, JobFailed}
}

// JobKinds are all of them.
func JobKinds() []JobKind {
	return []JobKind{JobCreate, JobRemove, JobImport, JobStart, JobStop, JobReboot, JobRebuild, JobResize, JobFlatten, JobSnapshot, JobSnapshotRemove, JobImageRemove, JobOVA, JobOVARemove, JobAdopt, JobForget}
}

// cursorForm is a time in microseconds, and a job's ID.
var cursorForm = regexp.MustCompile(`^([0-9]{1,18})\.([0-9a-f-]{36})$`)

// String is the place as a link to the next page has it.
func (c JobCursor) String() string {
	return strconv.FormatInt(c.Created.UnixMicro(), 10) + "." + string(c.ID)
}

// ParseJobCursor reads what String gives; another text is ErrInvalid.
func ParseJobCursor(s string) (JobCursor, error) {
	m := cursorForm.FindStringSubmatch(s)
	if m == nil {
		return JobCursor{}, Errorf(ErrInvalid, "after %q is no place in a list of jobs: want what the link to the next page has", Clip(s))
	}
	micros, err := strconv.ParseInt(m[1], 10, 64)
	return JobCursor{time.UnixMicro(micros).UTC(), JobID(strings.Clone(m[2]))}, err
}

// Matches tells whether a name is wanted.
func (m NameMatch) Matches(name string) bool {
	switch {
	case m.Start && m.End:
		return name == m.Text
	case m.Start:
		return strings.HasPrefix(name, m.Text)
	case m.End:
		return strings.HasSuffix(name, m.Text)
	}
	return strings.Contains(name, m.Text)
}
