package seedbed

// Acceptance is everything that one accepted request writes, in one transaction.
type Acceptance struct {
	Job Job
	// Delivery is the webhook that asked; nil when the API did.
	Delivery *Delivery
	// Instance is the new instance of a create job, with its NICs and volumes;
	// a NIC without an address gets the lowest free one of its network.
	Instance *Instance
	// Compose makes the documents of the new instance once its addresses are
	// known, in place of those that it has; nil leaves them. It runs in the
	// transaction, perhaps more than once, and must not wait.
	Compose func(Instance) (Documents, error)
	// Rebuild is what a rebuild job makes of its instance.
	Rebuild *Instance
	// Image is the new image of an import job.
	Image *Image
	// OVA is the new OVA image of a job that makes one.
	OVA *NewOVA
	// Confirm is the instance's name once more, which removing or rebuilding a protected one takes.
	Confirm string
	// Script is what a create job carries its script out by; nil without one.
	Script *ScriptRun
}

// Step is one stage boundary of a job: the commit of one stage and the intent
// of the next, in one transaction.
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
	// Images are those of an OVA, likewise.
	Images []ImageInfo
	// Final is set when there is no way back from Next: a job that was asked to be
	// cancelled does not get there.
	Final bool
	// Flattened notes that the instance's volumes are clones of no image any more.
	Flattened bool
	// Resized is what Done has changed of the instance's size; nil leaves it.
	Resized *ResizeSpec
	// Events are what there is to say of Done, as LogEvent takes them one by one.
	Events []Event
}

// Outcome ends a job.
type Outcome struct {
	// State is terminal.
	State JobState
	// Error is why, for a state other than succeeded.
	Error string
	// InstanceState is the instance's state from now on; empty leaves it.
	InstanceState InstanceState
	// ImageState is the image's state from now on, for a job that removes one; empty leaves it.
	ImageState ImageState
	// Keep leaves what the job needs to be taken up again at the stage that failed.
	Keep bool
	// Drop deletes the job's instance or image row and releases its claims.
	Drop bool
}
