package seedbed

import "time"

// OrphanKind is what sort of thing was left behind.
type OrphanKind string

// The kinds of what is left behind.
const (
	OrphanVolume   OrphanKind = "volume"
	OrphanSnapshot OrphanKind = "snapshot"
	OrphanImage    OrphanKind = "image"
	OrphanDomain   OrphanKind = "domain"
	// OrphanStage is whatever a stage has done, where no more is known than that it was not undone.
	OrphanStage OrphanKind = "stage"
)

// Orphan is one thing that a job which was undone could not take back. It is
// known until it is gone: with its job's undo, once that is tried again, or with
// the instance or image that it is of.
//
// One without a Stage is a stray: it carries Seedbed's tag, and the database knows
// nothing of its instance or job, as after it was restored from a copy. Nobody
// takes it away but people, who know whose it may be.
type Orphan struct {
	// Job is the job that has left it; of a stray image, the one of its tag.
	Job JobID `json:"job,omitempty"`
	// Of is the job's kind, Subject, Instance and Node are the job's own. A stray has the
	// Instance of its tag, and the Node where it was seen.
	Of       JobKind    `json:"of,omitempty"`
	Subject  string     `json:"subject,omitempty"`
	Instance InstanceID `json:"instance,omitempty"`
	Node     string     `json:"node,omitempty"`
	// Stage is the stage of the job that is not undone.
	Stage string     `json:"stage,omitempty"`
	Kind  OrphanKind `json:"kind"`
	Pool  string     `json:"pool,omitempty"`
	// Name is the volume's, image's or domain's, a snapshot's as volume@snapshot, or the stage's.
	Name string `json:"name"`
	// Why is what kept it from being undone.
	Why string `json:"why"`
	// Since is when it was first left, Tries is how often it was, and Tried when the
	// last time; of a stray, when and how often it was seen.
	Since time.Time `json:"since"`
	Tries int       `json:"tries"`
	Tried time.Time `json:"tried"`
}

// CleanupReport is what one run of the cleanup did, or in a dry run would do.
type CleanupReport struct {
	// Items are what went, or would go.
	Items []CleanupItem `json:"tasks"`
	// Refused is why nothing was done; empty when the run went through.
	Refused string `json:"refused"`
	// Skipped is why nothing was done of what is on some of the nodes.
	Skipped []string `json:"skipped"`
}

// CleanupItem is one thing that the cleanup took away.
type CleanupItem struct {
	Task    string `json:"name"`    // mappings, leases, deliveries, outgoing, access, output, audit, trash or orphans
	Action  string `json:"action"`  // release, delete, purge or undo
	Subject string `json:"subject"` // an instance's name, a MAC address, or how many records
	Detail  string `json:"detail"`
}
