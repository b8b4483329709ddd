package seedbed

import "time"

// OrphanKind is the kind of an orphan.
type OrphanKind string

// The kinds of orphan.
const (
	OrphanVolume   OrphanKind = "volume"
	OrphanSnapshot OrphanKind = "snapshot"
	OrphanImage    OrphanKind = "image"
	OrphanDomain   OrphanKind = "domain"
	// OrphanStage is the effect of a stage that was not undone, if nothing more is known.
	OrphanStage OrphanKind = "stage"
)

// Orphan is one thing that the undo of a job could not remove. It is recorded until it is gone:
// after a later attempt to undo the job, or with the instance or image that it belongs to.
//
// One without a Stage is a stray: it carries Seedbed's tag, but the database does not know its
// instance or job, for example after the database was restored from a backup. Seedbed never removes
// a stray; an operator decides.
type Orphan struct {
	// Job is the job that left it; for a stray image, the job in its tag.
	Job JobID `json:"job,omitempty"`
	// Of is the kind of the job. Subject, with its project, Instance and Node are those of the job. For
	// a stray, Instance is from its tag and Node is where it was seen.
	// Project is the project of the job or, for a stray, that in its tag; empty if the tag is of a release
	// without projects.
	Project  string     `json:"project,omitempty"`
	Of       JobKind    `json:"of,omitempty"`
	Subject  string     `json:"subject,omitempty"`
	Instance InstanceID `json:"instance,omitempty"`
	Node     string     `json:"node,omitempty"`
	// Stage is the stage that was not undone.
	Stage string     `json:"stage,omitempty"`
	Kind  OrphanKind `json:"kind"`
	Pool  string     `json:"pool,omitempty"`
	// Name is the name of the volume, image, domain or stage, or a snapshot as volume@snapshot.
	Name string `json:"name"`
	// Why is the reason that it was not undone.
	Why string `json:"why"`
	// Since is when the undo first failed, Tries how often it failed, and Tried when it last
	// failed. For a stray, they say when and how often it was seen.
	Since time.Time `json:"since"`
	Tries int       `json:"tries"`
	Tried time.Time `json:"tried"`
}

// CleanupReport is what one run of the cleanup did or, in a dry run, would do.
type CleanupReport struct {
	// Items are what it removed or would remove.
	Items []CleanupItem `json:"tasks"`
	// Refused is why it did nothing; empty if the run completed.
	Refused string `json:"refused"`
	// Skipped says why some nodes were skipped.
	Skipped []string `json:"skipped"`
}

// CleanupItem is one thing that the cleanup removed.
type CleanupItem struct {
	Task    string `json:"name"`    // mappings, leases, deliveries, outgoing, access, output, audit, requests, trash or orphans
	Action  string `json:"action"`  // release, delete, purge or undo
	Subject string `json:"subject"` // an instance's full name, a MAC address, or how many records
	Detail  string `json:"detail"`
}
