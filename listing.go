package seedbed

import (
	"regexp"
	"strconv"
	"strings"
	"time"
)

// InstanceQuery selects instances in its scope. The zero value of another field does not restrict
// the selection.
type InstanceQuery struct {
	Scope   Scope
	State   InstanceState
	Profile string
	Node    string
	// Prefix is what the names start with.
	Prefix string
	// After is the last instance of the page before; zero for the first page.
	After InstanceName
	// Limit is the maximum number of results; 0 means no limit.
	Limit int
}

// ProfileQuery selects profiles by name. The zero value of a field does not restrict the selection.
type ProfileQuery struct {
	// Scope is whose profiles: in a project, those that it may use.
	Scope Scope
	// Prefix is what the names start with.
	Prefix string
	// After is the last name of the page before; empty for the first page.
	After string
	// Limit is the maximum number of results; 0 means no limit.
	Limit int
}

// JobQuery selects jobs in its scope, the newest first. The zero value of another field does not
// restrict the selection.
type JobQuery struct {
	Scope Scope
	Kind  JobKind
	State JobState
	// Subject is the name of the instance or image that it works on.
	Subject string
	Node    string
	// After is the last job of the page before; zero for the first page.
	After JobCursor
	// Limit is the maximum number of results; 0 means no limit.
	Limit int
}

// JobCursor is the place of a job in the list of all jobs. It stays valid after the job is deleted.
type JobCursor struct {
	Created time.Time
	ID      JobID
}

// Cursor returns the place of the job.
func (j Job) Cursor() JobCursor { return JobCursor{j.Created, j.ID} }

// InstanceStates returns all states of instances.
func InstanceStates() []InstanceState {
	return []InstanceState{InstanceProvisioning, InstanceRunning, InstanceStopped, InstanceRemoving, InstanceGone, InstanceFailed}
}

// JobStates returns all states of jobs.
func JobStates() []JobState {
	return []JobState{JobQueued, JobRunning, JobUndoing, JobSucceeded, JobRolledBack, JobIncomplete, JobFailed}
}

// JobKinds returns all kinds of job.
func JobKinds() []JobKind {
	return []JobKind{JobCreate, JobRemove, JobImport, JobStart, JobStop, JobReboot, JobRebuild, JobMigrate, JobResize,
		JobFlatten, JobSnapshot, JobSnapshotRemove, JobSnapshotRestore, JobImageRemove, JobOVA, JobOVARemove, JobAdopt, JobForget,
		JobVolumeAdd, JobVolumeRemove, JobVolumeResize, JobVolumeSet, JobVolumeMove, JobVolumeDownload, JobAttach, JobDetach,
		JobNICAdd, JobNICRemove, JobNICSet, JobSet, JobRename, JobFailover,
		JobClone, JobBackup, JobBackupRestore, JobBackupVerify, JobBackupRemove}
}

// cursorForm matches a time in microseconds and the ID of a job.
var cursorForm = regexp.MustCompile(`^([0-9]{1,18})\.([0-9a-f-]{36})$`)

// String returns the cursor as links to the next page contain it.
func (c JobCursor) String() string {
	return strconv.FormatInt(c.Created.UnixMicro(), 10) + "." + string(c.ID)
}

// ParseJobCursor parses what String returns. Any other text is ErrInvalid.
func ParseJobCursor(s string) (JobCursor, error) {
	m := cursorForm.FindStringSubmatch(s)
	if m == nil {
		return JobCursor{}, Errorf(ErrInvalid,
			"after %q is not a position in the list of jobs: expected the value in the link to the next page", Clip(s))
	}
	micros, err := strconv.ParseInt(m[1], 10, 64)
	return JobCursor{time.UnixMicro(micros).UTC(), JobID(strings.Clone(m[2]))}, err
}

// Matches reports whether m selects name.
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

// DeliveryQuery selects received deliveries, the newest first. The zero value of a field does not
// restrict the selection.
type DeliveryQuery struct {
	// Project is the project of the hook.
	Project string
	Hook    string
	// ID is the sender's ID.
	ID       string
	Decision Decision
	// Since is when the first one was received.
	Since time.Time
	// After is the last delivery of the page before, of which Received, Hook and ID count; without an
	// ID for the first page.
	After Delivery
	// Limit is the maximum number of results; 0 means no limit.
	Limit int
}

// RejectionQuery selects counts of deliveries whose sender was not accepted, the latest first. The zero
// value of a field does not restrict the selection.
type RejectionQuery struct {
	// Project is the project of the hook.
	Project string
	Hook    string
	// Since is the earliest Last.
	Since time.Time
	// After is the last count of the page before, of which Last, Hook, Peer and Reason count; without a
	// hook for the first page.
	After Rejection
	// Limit is the maximum number of results; 0 means no limit.
	Limit int
}

// OutgoingQuery selects the deliveries to an endpoint, the newest first. The zero value of a field does
// not restrict the selection.
type OutgoingQuery struct {
	State OutgoingState
	// Since is when the first event happened.
	Since time.Time
	// Before is the Seq of the last delivery of the page before; 0 for the first page.
	Before int64
	// Limit is the maximum number of results; 0 means no limit.
	Limit int
}

// InstallationActor is the actor of an admin of the installation, as a tenant reads it.
const InstallationActor = "installation"

// AuditQuery selects entries of the audit log, the newest first. The zero value of a field does not
// restrict the selection.
type AuditQuery struct {
	// Scope selects entries by the project that the caller acted in. The zero Scope selects none.
	Scope Scope
	// Tenant is true if the entries are for a tenant: of those of an admin of the installation, the actor
	// is [InstallationActor] and the peer is left out.
	Tenant bool
	Actor  string
	// Since is when the first one was written.
	Since time.Time
	// Before is the ID of the last entry of the page before; 0 for the first page.
	Before int64
	// Limit is the maximum number of results; 0 means no limit.
	Limit int
}

// OutgoingStates returns all states of deliveries to endpoints.
func OutgoingStates() []OutgoingState {
	return []OutgoingState{OutgoingPending, OutgoingSent, OutgoingDead, OutgoingSkipped}
}

// Decisions returns all decisions about received deliveries.
func Decisions() []Decision {
	return []Decision{DecisionAccepted, DecisionIgnored, DecisionRefused, DecisionPlanned, DecisionDone}
}

// NodeStates returns all states of nodes.
func NodeStates() []NodeState { return []NodeState{NodeReady, NodeCordoned, NodeAway, NodeFenced} }

// ImageStates returns all states of images.
func ImageStates() []ImageState { return []ImageState{ImageImporting, ImageActive, ImageRemoving} }

// DomainStates returns all states of domains.
func DomainStates() []DomainState {
	return []DomainState{DomainRunning, DomainPaused, DomainOff, DomainCrashed}
}

// OrphanKinds returns all kinds of orphan.
func OrphanKinds() []OrphanKind {
	return []OrphanKind{OrphanVolume, OrphanSnapshot, OrphanImage, OrphanDomain, OrphanStage}
}

// Counts counts the objects of an installation.
type Counts struct {
	Instances []InstanceCounts `json:"instances"`
	// Volumes is the number of volumes of the instances, and Disks their total size.
	Volumes int   `json:"volumes"`
	Disks   Bytes `json:"disks"`
	// Jobs counts the jobs that have not ended, by state. Failed counts those that have ended
	// without success since Since.
	Jobs   map[JobState]int `json:"jobs"`
	Failed int              `json:"failed"`
	Since  time.Time        `json:"since"`
	// The objects of the catalogue.
	Images   int `json:"images"`
	Profiles int `json:"profiles"`
	Networks int `json:"networks"`
}

// InstanceCounts counts the instances of one node in one state.
type InstanceCounts struct {
	Node   string        `json:"node"`
	State  InstanceState `json:"state"`
	Count  int           `json:"count"`
	VCPUs  int           `json:"vcpus"`
	Memory Bytes         `json:"memory"`
}

// Total returns the instances of all nodes in the given states, or in all states if none is given.
func (c Counts) Total(states ...InstanceState) (n InstanceCounts) {
	for _, each := range c.Instances {
		wanted := len(states) == 0
		for _, s := range states {
			wanted = wanted || s == each.State
		}
		if wanted {
			n.Count, n.VCPUs, n.Memory = n.Count+each.Count, n.VCPUs+each.VCPUs, n.Memory+each.Memory
		}
	}
	return n
}
