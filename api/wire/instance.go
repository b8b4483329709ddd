package wire

import (
	"encoding/json"
	"time"

	"seedbed"
)

// InstanceRequest asks for an instance.
type InstanceRequest struct {
	Name    string         `json:"name"`
	Profile string         `json:"profile"`
	Params  map[string]any `json:"params,omitempty"`
	NewInstance
}

// NewInstance is what may be said of a new instance besides what it is made from.
type NewInstance struct {
	// Hold and Protected are in place of what the profile says; nil leaves that.
	Hold      *bool `json:"hold,omitempty"`
	Protected *bool `json:"protected,omitempty"`
	// Node is where it is to run; empty leaves that to the placement.
	Node string `json:"node,omitempty"`
}

// PlanRequest asks what a create or a rebuild would make.
type PlanRequest struct {
	// Action is create, the default, or rebuild.
	Action  string `json:"action,omitempty"`
	Name    string `json:"name"`
	Profile string `json:"profile,omitempty"`
	// Image is for a rebuild only.
	Image  string         `json:"image,omitempty"`
	Params map[string]any `json:"params,omitempty"`
	NewInstance
}

// PowerRequest says how an instance is switched off: its guest is asked, and
// switched off if it has not shut down in time.
type PowerRequest struct {
	// Force switches off at once.
	Force bool `json:"force,omitempty"`
	// Soft fails where the guest does not shut down, and leaves it on.
	Soft bool `json:"soft,omitempty"`
	// Grace is how long the guest has, such as "90s"; empty is the configured time.
	Grace string `json:"grace,omitempty"`
}

// RebuildRequest says what an instance is rebuilt from. What is empty stays as it is.
type RebuildRequest struct {
	PowerRequest
	Profile string         `json:"profile,omitempty"`
	Image   string         `json:"image,omitempty"`
	Params  map[string]any `json:"params,omitempty"`
	// Confirm is the instance's name, for one that is protected.
	Confirm string `json:"confirm,omitempty"`
}

// ResizeRequest gives an instance another size, or with DryRun plans that.
type ResizeRequest struct {
	seedbed.ResizeRequest
	DryRun bool `json:"dry_run,omitempty"`
}

// InstanceChange changes an instance at once and without a job. A member that is
// left out changes nothing.
type InstanceChange struct {
	// Metadata are options in place of those of the same name.
	Metadata *seedbed.MetadataOptions `json:"metadata,omitempty"`
	// Tags are set by name; null removes one.
	Tags map[string]*string `json:"tags,omitempty"`
	// Spot is a notice in place of any before, as SpotNotice makes it; null removes it.
	Spot json.RawMessage `json:"spot,omitempty"`
	// Protected says whether removing and rebuilding the instance take its name once more.
	Protected *bool `json:"protected,omitempty"`
	// UserData says whether its user-data follows its profile's.
	UserData seedbed.Follow `json:"userdata,omitempty"`
}

// SpotNotice is s as InstanceChange has it; nil removes the notice.
func SpotNotice(s *seedbed.Spot) json.RawMessage {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // a notice is text and a time, and always marshals
	}
	return b
}

// SnapshotRequest asks for a snapshot of an instance's volumes.
type SnapshotRequest struct {
	Name string `json:"name"`
}

// Snapshot is one snapshot of an instance's volumes.
type Snapshot struct {
	Name string `json:"name"`
	// Job is the job that took it.
	Job     seedbed.JobID `json:"job"`
	Created time.Time     `json:"created"`
	// Volumes are the names of the volumes that it is of.
	Volumes []string `json:"volumes"`
	// Complete is false when a volume of the instance does not have it.
	Complete bool `json:"complete"`
}
