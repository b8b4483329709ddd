package seedbed

import "time"

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
