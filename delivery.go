package seedbed

import "time"

// Decision is the outcome of a verified delivery.
type Decision string

// The decisions.
const (
	DecisionAccepted Decision = "accepted" // it has a job
	DecisionIgnored  Decision = "ignored"  // the hook's rule did not match
	DecisionRefused  Decision = "refused"  // it asked for something impossible or not allowed
	DecisionPlanned  Decision = "planned"  // it asked for a plan
	DecisionDone     Decision = "done"     // it was carried out without a job
)

// Delivery is one verified webhook as it is recorded.
type Delivery struct {
	Hook string `json:"hook"`
	// ID is the sender's name for the event, the same on every retry.
	ID string `json:"id"`
	// SHA256 is the digest of the raw body.
	SHA256   Digest    `json:"sha256"`
	Received time.Time `json:"received"`
	Decision Decision  `json:"decision"`
	// Detail is what was done, or the reason for a decision other than accepted.
	Detail string `json:"detail,omitempty"`
	// Job is set if it was accepted.
	Job JobID `json:"job,omitempty"`
	// Peer is the sender's address.
	Peer string `json:"peer,omitempty"`
	// Headers are those of the request, without any that are or may be credentials.
	Headers map[string]string `json:"headers,omitempty"`
	// Payload is the raw body if the hook keeps it; else nil.
	Payload []byte `json:"payload,omitempty"`
	// Quota bounds what the hook may create. Accept compares it with what exists.
	Quota Quota `json:"-"`
}

// Rejection counts deliveries to a hook whose sender was not accepted, for one reason. They are not in
// the history, since anyone can send them.
type Rejection struct {
	Hook string `json:"hook"`
	// Peer is the sender's address; empty for several senders that were counted together.
	Peer string `json:"peer,omitempty"`
	// Reason is why, which the sender is not told.
	Reason string `json:"reason"`
	// Times is how often, from First to Last.
	Times int64     `json:"times"`
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
}

// Redelivery is the outcome of a delivery that was processed again.
type Redelivery struct {
	// ID names it in the history: the ID of the original delivery, '~' and a unique suffix.
	ID       string   `json:"id"`
	Decision Decision `json:"decision"`
	// Job is set if it was accepted.
	Job   JobID    `json:"job,omitempty"`
	State JobState `json:"state,omitempty"`
}

// DryRun is the result of a dry run of a delivery.
type DryRun struct {
	// Matched reports whether the rule of the hook matched.
	Matched bool `json:"matched"`
	// Request is what the delivery asks for; nil if the rule did not match.
	Request *Request `json:"request,omitempty"`
	// Network is what becomes of the network that it makes or changes. If it is made, Seedbed may choose other numbers.
	Network *Network `json:"network,omitempty"`
	// Problem is why it would be refused; empty if nothing is known that is in its way. Of a change without a job, it is not known
	// whether a name, an address or a prefix is taken, a quota is used up, or a network is in use.
	Problem string `json:"problem,omitempty"`
	// Plan is what a create request would make.
	Plan *Plan `json:"plan,omitempty"`
}

// SampleDelivery is a delivery for a dry run of a hook.
type SampleDelivery struct {
	Headers map[string]string `json:"headers,omitempty"`
	Query   map[string]string `json:"query,omitempty"`
	// Body is the raw body. The header content-type gives its type; the default is JSON.
	Body string `json:"body"`
}

// Plan is what a create request would make now. It reserves nothing: the job chooses the MAC
// address, and another instance may get the IP address.
type Plan struct {
	Project string   `json:"project"`
	Name    string   `json:"name"`
	Profile string   `json:"profile"`
	Image   string   `json:"image"`
	Node    string   `json:"node"`
	VCPUs   int      `json:"vcpus"`
	Memory  Bytes    `json:"memory"`
	Volumes []Volume `json:"volumes"`
	// Placement explains the choice of the node. It lists every node of the installation, the
	// chosen one first.
	Placement []Placement `json:"placement,omitempty"`
	// NICs have the network, an address that is free now, and the MAC if it is known in advance.
	NICs []NIC `json:"nics"`
	// Ready is when the job ends.
	Ready Ready `json:"ready,omitempty"`
	// Script is the provisioning script that makes the disks; empty without one.
	Script string `json:"script,omitempty"`
	// Stages are the stages of the job, in their order.
	Stages []string `json:"stages,omitempty"`
	// Notes are further remarks for people to read.
	Notes []string `json:"notes,omitempty"`
	// Problems say why it would fail now; empty if it would be accepted.
	Problems []string `json:"problems"`
}

// ImportRequest asks for the plan of an import.
type ImportRequest struct {
	// Name is the name of the image or, with OVA, of the OVA image.
	Name string `json:"name"`
	OVA  bool   `json:"ova,omitempty"`
	Pool string `json:"pool,omitempty"`
	// Path is a file on the worker's host. Empty means a file to be uploaded; Size is its size if
	// known.
	Path string `json:"path,omitempty"`
	Size Bytes  `json:"size,omitempty"`
	// From is the volume that an image is made from instead, and Generalise generalises it; see wire.ImageRequest.
	From       string `json:"from,omitempty"`
	Generalise bool   `json:"generalise,omitempty"`
	// SHA256, Format, Firmware and Node are as in ImportSpec.
	SHA256   string   `json:"sha256,omitempty"`
	Format   string   `json:"format,omitempty"`
	Firmware Firmware `json:"firmware,omitempty"`
	Node     string   `json:"node,omitempty"`
}

// ImportPlan is what an import would make now.
type ImportPlan struct {
	Name string `json:"name"`
	Pool string `json:"pool"`
	// Node is the node whose worker would make it; empty if none can.
	Node string `json:"node"`
	// Size is the size of the file, if known. Free is the room in the pool as the node last
	// reported it; 0 before the first report.
	Size Bytes `json:"size,omitempty"`
	Free Bytes `json:"free,omitempty"`
	// Stages, Notes and Problems are as in Plan.
	Stages   []string `json:"stages"`
	Notes    []string `json:"notes,omitempty"`
	Problems []string `json:"problems"`
}

// FullName returns the name of the planned instance with its project.
func (p Plan) FullName() InstanceName { return InstanceName{p.Project, p.Name} }

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
	// Renamed is the name that the stage Done gives the instance; empty leaves it.
	Renamed string
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
