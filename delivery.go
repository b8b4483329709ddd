package seedbed

import "time"

// Decision is what came of a verified delivery.
type Decision string

// The decisions.
const (
	DecisionAccepted Decision = "accepted" // it has a job
	DecisionIgnored  Decision = "ignored"  // the hook's rule did not match
	DecisionRefused  Decision = "refused"  // it asked for what cannot be, or may not
	DecisionPlanned  Decision = "planned"  // it asked what would be made
)

// Delivery is one verified webhook as it is recorded.
type Delivery struct {
	Hook string `json:"hook"`
	// ID is the sender's name of the event, the same on every retry.
	ID string `json:"id"`
	// SHA256 is the digest of the raw body.
	SHA256   Digest    `json:"sha256"`
	Received time.Time `json:"received"`
	Decision Decision  `json:"decision"`
	// Detail is why, for a decision other than accepted.
	Detail string `json:"detail,omitempty"`
	// Job is set when it was accepted.
	Job JobID `json:"job,omitempty"`
	// Peer is the sender's address.
	Peer string `json:"peer,omitempty"`
	// Headers are those of the request, without what proves or may prove who sent it.
	Headers map[string]string `json:"headers,omitempty"`
	// Payload is the raw body, where the hook keeps it; else nil.
	Payload []byte `json:"payload,omitempty"`
	// Quota bounds what its hook may make: Accept holds it against what there is.
	Quota Quota `json:"-"`
}

// Redelivery is what came of a delivery that was put through again.
type Redelivery struct {
	// ID names it in the history: the first one's, '~', and a part of its own.
	ID       string   `json:"id"`
	Decision Decision `json:"decision"`
	// Job is set when it was accepted.
	Job   JobID    `json:"job,omitempty"`
	State JobState `json:"state,omitempty"`
}

// Trial is what a hook would make of a delivery.
type Trial struct {
	// Matched is what the rule said.
	Matched bool `json:"matched"`
	// Request is what the delivery asks for; nil when it did not match.
	Request *Request `json:"request,omitempty"`
	// Problem is why it would be refused; empty when it would be accepted.
	Problem string `json:"problem,omitempty"`
	// Plan is what a create would make.
	Plan *Plan `json:"plan,omitempty"`
}

// Sample is a delivery to try a hook with.
type Sample struct {
	Headers map[string]string `json:"headers,omitempty"`
	Query   map[string]string `json:"query,omitempty"`
	// Body is the raw body; its kind is that of the header content-type, by default JSON.
	Body string `json:"body"`
}

// Plan is what a create would make, as things are now. Nothing of it is
// reserved: the MAC address is drawn by the job, and the address may go to another.
type Plan struct {
	Name    string   `json:"name"`
	Profile string   `json:"profile"`
	Image   string   `json:"image"`
	Node    string   `json:"node"`
	VCPUs   int      `json:"vcpus"`
	Memory  Bytes    `json:"memory"`
	Volumes []Volume `json:"volumes"`
	// Placement is how the node was chosen: every node of the installation, the chosen one first.
	Placement []Placement `json:"placement,omitempty"`
	// NICs have the network, the address that is free now, and the MAC where it is known before.
	NICs []NIC `json:"nics"`
	// Script is the provisioning script that makes its disks; empty without one.
	Script string `json:"script,omitempty"`
	// Stages are those of the job, in their order.
	Stages []string `json:"stages,omitempty"`
	// Notes are what is to be known besides, for people to read.
	Notes []string `json:"notes,omitempty"`
	// Problems are why it would fail now; empty when it would be accepted.
	Problems []string `json:"problems"`
}

// ImportRequest asks what an import would make.
type ImportRequest struct {
	// Name is the image's or, with OVA, that of the OVA image.
	Name string `json:"name"`
	OVA  bool   `json:"ova,omitempty"`
	Pool string `json:"pool,omitempty"`
	// Path is a file on the worker's host; empty for one that is to be uploaded, of that Size, if it is known.
	Path string `json:"path,omitempty"`
	Size Bytes  `json:"size,omitempty"`
	// SHA256, Format, Firmware and Node are those of an ImportSpec.
	SHA256   string   `json:"sha256,omitempty"`
	Format   string   `json:"format,omitempty"`
	Firmware Firmware `json:"firmware,omitempty"`
	Node     string   `json:"node,omitempty"`
}

// ImportPlan is what an import would make as things are now.
type ImportPlan struct {
	Name string `json:"name"`
	Pool string `json:"pool"`
	// Node is whose worker would make it; empty where none can.
	Node string `json:"node"`
	// Size is that of the file, if it is known, and Free the room in the pool as its
	// node has reported it; 0 before.
	Size Bytes `json:"size,omitempty"`
	Free Bytes `json:"free,omitempty"`
	// Stages, Notes and Problems are as those of a Plan.
	Stages   []string `json:"stages"`
	Notes    []string `json:"notes,omitempty"`
	Problems []string `json:"problems"`
}
