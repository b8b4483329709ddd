package seedbed

// Acceptance is everything that one accepted request writes, in one transaction.
type Acceptance struct {
	Job Job
	// Delivery is the webhook that made the request; nil for a request through the API.
	Delivery *Delivery
	// Instance is the new instance of a create job, with its NICs and volumes; a NIC without an
	// address gets the lowest free one of its network.
	Instance *Instance
	// Compose makes the documents of the new instance once its addresses are known. They replace
	// those that it has; nil leaves them. Compose runs in the transaction, perhaps more than once,
	// and must not wait.
	Compose func(Instance) (Documents, error)
	// Rebuild is what a rebuild job makes of its instance.
	Rebuild *Instance
	// Image is the new image of an import job.
	Image *Image
	// Volume is the new volume of a job that makes one.
	Volume *ProjectVolume
	// NIC is the NIC of a job on one: the new one, with what it asks for, or the index, the MAC address and, if it goes to another
	// network, that network and the address that it asks for there.
	NIC *NIC
	// OVA is the new OVA image of a job that makes one.
	OVA *NewOVA
	// Confirm is the name of the instance again, which removing, rebuilding or restoring a protected one
	// requires.
	Confirm string
	// Script is what a create job runs its script with; nil without one.
	Script *ScriptRun
	// Warnings become the first events of the job, after that of its acceptance.
	Warnings []string
}

// Step is one stage boundary of a job: the commit of one stage and the intent of the next, in one
// transaction.
type Step struct {
	// Done is the stage whose effect was verified; empty at the start of the job.
	Done string
	// Next is the stage whose intent is written; empty after the last.
	Next string
	// Total is the number of stages of the job.
	Total int
	// InstanceState is the instance's new state; empty leaves it.
	InstanceState InstanceState
	// Image makes the job's image active with what the import found; nil leaves it.
	Image *ImageInfo
	// Images is the same for the images of an OVA.
	Images []ImageInfo
	// Final is set if Next cannot be undone. A job that has reached it is not cancelled.
	Final bool
	// Flattened records that the volumes of the instance are no longer clones of an image.
	Flattened bool
	// Resized is what the stage Done changed of the instance's size; nil leaves it.
	Resized *ResizeSpec
	// Events are the events of the stage Done, each as LogEvent takes it.
	Events []Event
}

// JobResult ends a job.
type JobResult struct {
	// State is terminal.
	State JobState
	// Error is the reason for a state other than succeeded.
	Error string
	// InstanceState is the instance's new state; empty leaves it.
	InstanceState InstanceState
	// ImageState is the image's new state, for a job that removes one; empty leaves it.
	ImageState ImageState
	// Keep keeps what the job needs to resume at the stage that failed.
	Keep bool
	// Drop deletes the job's instance or image row and releases its claims.
	Drop bool
}
