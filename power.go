package seedbed

import "time"

// PowerSpec is the input of a job that switches an instance off, for good or
// for a moment.
type PowerSpec struct {
	// Force switches off at once: the guest is not asked.
	Force bool `json:"force,omitempty"`
	// Soft leaves it to the guest: one that does not shut down stays on, and the job fails.
	Soft bool `json:"soft,omitempty"`
	// Grace is how long the guest has to shut down; zero is the configured time of the stage.
	Grace time.Duration `json:"grace,omitempty"`
	// Was is the instance's state when the job was accepted; the store fills it in.
	Was InstanceState `json:"was,omitempty"`
}

// MaxGrace is the longest time that a request may give a guest to shut down.
const MaxGrace = time.Hour

// RebuildSpec is the input of a job that gives an instance fresh disks. What it
// makes of the instance is its Rebuild, which has secrets.
type RebuildSpec struct {
	PowerSpec
	// Profile and Image are what it is made from.
	Profile string `json:"profile"`
	Image   string `json:"image"`
	// Own is set when no profile was asked for: it is the instance's own.
	Own bool `json:"own,omitempty"`
	// Scripted tells whether the profile's script makes the disks.
	Scripted bool `json:"scripted,omitempty"`
}

// Rebuild is what a rebuild job makes of its instance. Of both sides the profile,
// image, size, documents, keys, metadata options and volumes count: name, ID,
// NICs, tags and the rest are the instance's own and stay.
type Rebuild struct {
	// Next is what the instance becomes.
	Next Instance
	// Before is what it was; nil while it still is.
	Before *Instance
}

// RebuildSide is one side of a Rebuild.
type RebuildSide string

// The sides.
const (
	RebuildNext   RebuildSide = "next"
	RebuildBefore RebuildSide = "before"
)
