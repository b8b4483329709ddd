package seedbed

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// The types of the events that endpoints receive.
const (
	EventJobAccepted     = "job.accepted"
	EventJobStarted      = "job.started"
	EventJobStage        = "job.stage" // a stage began
	EventJobSucceeded    = "job.succeeded"
	EventJobFailed       = "job.failed"    // it failed; whether it could be undone is the job's state
	EventJobCancelled    = "job.cancelled" // it ended on request
	EventInstanceReady   = "instance.ready"
	EventInstanceRemoved = "instance.removed"
	EventNodeJoined      = "node.joined"       // a control host has joined
	EventNodeLeft        = "node.left"         // a control host is gone for longer than a restart takes
	EventNodeUp          = "node.up"           // the worker of a node answers
	EventNodeDown        = "node.down"         // the worker of a node does not answer
	EventNodeFenced      = "node.fenced"       // a node was switched off, and its instances are started elsewhere
	EventNodeFenceFailed = "node.fence_failed" // it could not be, so nothing is started elsewhere
	// The maintenance of a node was announced, completed or canceled.
	EventMaintenanceAnnounced = "node.maintenance.announced"
	EventMaintenanceCompleted = "node.maintenance.completed"
	EventMaintenanceCanceled  = "node.maintenance.canceled"
	EventCleanupReleased      = "cleanup.released"  // the addresses of an instance whose domain is gone
	EventCleanupFinished      = "cleanup.finished"  // a run that removed something
	EventEndpointDisabled     = "endpoint.disabled" // another endpoint was disabled, on request or because it fails
	// EventJobHook is sent before or after a stage that has a StageHook. Endpoints cannot subscribe
	// to it.
	EventJobHook = "job.hook"
	// EventTest is sent only on request. Endpoints cannot subscribe to it.
	EventTest = "endpoint.test"
)

// eventTypes are the types that an endpoint may subscribe to.
var eventTypes = []string{
	EventJobAccepted, EventJobStarted, EventJobStage, EventJobSucceeded, EventJobFailed, EventJobCancelled,
	EventInstanceReady, EventInstanceRemoved, EventNodeJoined, EventNodeLeft, EventNodeUp,
	EventNodeDown, EventNodeFenced, EventNodeFenceFailed, EventMaintenanceAnnounced, EventMaintenanceCompleted, EventMaintenanceCanceled,
	EventCleanupReleased, EventCleanupFinished, EventEndpointDisabled,
}

// EventTypes returns the types that an endpoint may subscribe to.
func EventTypes() []string { return slices.Clone(eventTypes) }

// CheckEventPattern returns ErrInvalid for a pattern that does not match any event. A pattern is a
// type, the types of one kind such as "job.*", or "*".
func CheckEventPattern(pattern string) error {
	if slices.ContainsFunc(eventTypes, func(t string) bool { return MatchEvent(pattern, t) }) {
		return nil
	}
	return Errorf(ErrInvalid, "event %q is unknown: expected one of %s, all of a kind such as job.*, or *",
		Clip(pattern), strings.Join(eventTypes, ", "))
}

// MatchEvent reports whether pattern matches events of that type.
func MatchEvent(pattern, eventType string) bool {
	if kind, ok := strings.CutSuffix(pattern, ".*"); ok {
		group, _, _ := strings.Cut(eventType, ".")
		return kind == group
	}
	return pattern == "*" || pattern == eventType
}

// OutgoingState is the state of a delivery to an endpoint.
type OutgoingState string

// The states of a delivery.
const (
	OutgoingPending OutgoingState = "pending" // to be sent, or sent again
	OutgoingSent    OutgoingState = "sent"    // answered with 2xx
	OutgoingDead    OutgoingState = "dead"    // the last attempt failed
	OutgoingSkipped OutgoingState = "skipped" // the endpoint was disabled
)

// Outgoing is one event on its way to one endpoint.
type Outgoing struct {
	// ID is the webhook-id, the same at every attempt.
	ID string `json:"id"`
	// Seq grows by one per endpoint, without gaps, in the order of the changes.
	Seq int64 `json:"seq"`
	// Type is one of the Event constants. Subject is the name of the object that the event is
	// about.
	Type    string `json:"type"`
	Subject string `json:"subject"`
	// Data is the JSON object of the event. It does not contain secrets or user-data.
	Data json.RawMessage `json:"data,omitempty"`
	At   time.Time       `json:"at"`

	State    OutgoingState `json:"state"`
	Attempts int           `json:"attempts"`
	// Next is when a pending one is due. Those before it in the order of Seq are sent first.
	Next time.Time `json:"next,omitzero"`
	// Tried is when the last attempt began, and Took how long it took.
	Tried time.Time     `json:"tried,omitzero"`
	Took  time.Duration `json:"took,omitempty"`
	// Status is the HTTP status of the last answer; 0 without one.
	Status int `json:"status,omitempty"`
	// Error is why the last attempt failed; empty otherwise.
	Error string `json:"error,omitempty"`
}

// OutgoingClaim is a delivery that its holder sends, and whose outcome it then writes. A write
// whose epoch is no longer that of the endpoint returns ErrStale.
type OutgoingClaim struct {
	Endpoint Endpoint
	Outgoing Outgoing
	Epoch    int64
}

// Attempt is the outcome of one attempt to deliver, and what follows from it.
type Attempt struct {
	At     time.Time
	Took   time.Duration
	Status int
	Error  string
	// State is sent, dead or pending. A pending one is due again after Retry.
	State OutgoingState
	Retry time.Duration
	// Pause is how long nothing is sent to the endpoint; zero closes its circuit.
	Pause time.Duration
	// Disable is the reason to disable the endpoint; empty leaves it.
	Disable string
}

// OutgoingStats summarizes the deliveries to one endpoint.
type OutgoingStats struct {
	Endpoint string
	Enabled  bool
	// Reason is why it was disabled.
	Reason string
	// Open is true while its circuit is open, so that nothing is sent.
	Open          bool
	Pending, Dead int
	// Oldest is when the oldest pending event happened; zero if none is pending.
	Oldest time.Time
}
