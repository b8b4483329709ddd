package seedbed

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// The types of the events that endpoints are told.
const (
	EventJobAccepted     = "job.accepted"
	EventJobStarted      = "job.started"
	EventJobStage        = "job.stage" // a stage began
	EventJobSucceeded    = "job.succeeded"
	EventJobFailed       = "job.failed"    // it failed; whether it could be undone is the job's state
	EventJobCancelled    = "job.cancelled" // it ended because someone asked for it
	EventInstanceReady   = "instance.ready"
	EventInstanceRemoved = "instance.removed"
	EventNodeJoined      = "node.joined" // a control host is there
	EventNodeLeft        = "node.left"   // it is gone, for longer than a restart takes
	EventNodeUp          = "node.up"     // the worker of a hypervisor answers
	EventNodeDown        = "node.down"   // it does not
	// The maintenance of a node was announced, and it is over.
	EventMaintenanceAnnounced = "node.maintenance.announced"
	EventMaintenanceCompleted = "node.maintenance.completed"
	EventMaintenanceCanceled  = "node.maintenance.canceled"
	EventCleanupReleased      = "cleanup.released"  // the addresses of an instance whose domain is gone
	EventCleanupFinished      = "cleanup.finished"  // a run that took something away
	EventEndpointDisabled     = "endpoint.disabled" // another endpoint: on request, or because it fails
	// EventJobHook is sent before or after a stage that has a StageHook: nobody subscribes to it.
	EventJobHook = "job.hook"
	// EventTest is sent on request alone: nobody subscribes to it.
	EventTest = "endpoint.test"
)

// eventTypes are the types that an endpoint may subscribe to.
var eventTypes = []string{
	EventJobAccepted, EventJobStarted, EventJobStage, EventJobSucceeded, EventJobFailed, EventJobCancelled,
	EventInstanceReady, EventInstanceRemoved, EventNodeJoined, EventNodeLeft, EventNodeUp, EventNodeDown, EventMaintenanceAnnounced, EventMaintenanceCompleted, EventMaintenanceCanceled,
	EventCleanupReleased, EventCleanupFinished, EventEndpointDisabled,
}

// EventTypes are the types that an endpoint may subscribe to.
func EventTypes() []string { return slices.Clone(eventTypes) }

// CheckEventPattern refuses, with ErrInvalid, what matches no event: want a
// type, the types of one kind such as "job.*", or "*".
func CheckEventPattern(pattern string) error {
	if slices.ContainsFunc(eventTypes, func(t string) bool { return MatchEvent(pattern, t) }) {
		return nil
	}
	return Errorf(ErrInvalid, "event %q is unknown: want one of %s, all of a kind such as job.*, or *", Clip(pattern), strings.Join(eventTypes, ", "))
}

// MatchEvent tells whether pattern stands for events of that type.
func MatchEvent(pattern, eventType string) bool {
	if kind, ok := strings.CutSuffix(pattern, ".*"); ok {
		group, _, _ := strings.Cut(eventType, ".")
		return kind == group
	}
	return pattern == "*" || pattern == eventType
}

// OutgoingState is where a delivery to an endpoint is.
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
	// Type is one of the Event constants, and Subject the name of what it is about.
	Type    string `json:"type"`
	Subject string `json:"subject"`
	// Data is the event's own object. It holds no secret and no user-data.
	Data json.RawMessage `json:"data"`
	At   time.Time       `json:"at"`

	State    OutgoingState `json:"state"`
	Attempts int           `json:"attempts"`
	// Next is when a pending one is due; what comes before it goes first.
	Next time.Time `json:"next,omitzero"`
	// Tried is when the last attempt began, and Took how long it was.
	Tried time.Time     `json:"tried,omitzero"`
	Took  time.Duration `json:"took,omitempty"`
	// Status is the last answer's; 0 when there was none.
	Status int `json:"status,omitempty"`
	// Error is why the last attempt failed; empty otherwise.
	Error string `json:"error,omitempty"`
}

// OutgoingClaim is a delivery in hand: what its holder sends, and writes the
// outcome with. A write under an epoch that is no longer the endpoint's gives ErrStale.
type OutgoingClaim struct {
	Endpoint Endpoint
	Outgoing Outgoing
	Epoch    int64
}

// Attempt is what came of one attempt to deliver, and what is to be done about it.
type Attempt struct {
	At     time.Time
	Took   time.Duration
	Status int
	Error  string
	// State is sent, dead, or pending: then it is due again after Retry.
	State OutgoingState
	Retry time.Duration
	// Pause is how long the endpoint is left alone; zero closes its circuit.
	Pause time.Duration
	// Disable is why the endpoint is disabled from now on; empty leaves it.
	Disable string
}

// OutgoingStats is how the deliveries to one endpoint are.
type OutgoingStats struct {
	Endpoint string
	Enabled  bool
	// Reason is why it was disabled.
	Reason string
	// Open is true while its circuit lets nothing through.
	Open          bool
	Pending, Dead int
	// Oldest is when the oldest pending event happened; zero when none is pending.
	Oldest time.Time
}
