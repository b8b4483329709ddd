package seedbed

import "time"

// Maintenance is one announced event of an instance or of its node, with the fields of EC2's
// events/maintenance.
type Maintenance struct {
	// ID is "instance-event-" and 17 hexadecimal digits.
	ID string `json:"id"`
	// Code is instance-reboot, system-reboot, system-maintenance, instance-retirement or
	// instance-stop.
	Code        string    `json:"code"`
	Description string    `json:"description"`
	NotBefore   time.Time `json:"not_before"`
	NotAfter    time.Time `json:"not_after,omitzero"`
	// State is active (scheduled), completed or canceled (history).
	State string `json:"state"`
}

// The states of a Maintenance.
const (
	MaintenanceActive    = "active"
	MaintenanceCompleted = "completed"
	MaintenanceCanceled  = "canceled"
)

// Spot is an interruption that the operator announces to an instance (EC2 spot/instance-action,
// spot/termination-time and events/recommendations/rebalance).
type Spot struct {
	// Action is terminate, stop or hibernate; empty when only Rebalance is set.
	Action string `json:"action,omitempty"`
	// Time is when the action will be taken.
	Time time.Time `json:"time,omitzero"`
	// Rebalance is when the risk was noticed; zero without a recommendation.
	Rebalance time.Time `json:"rebalance,omitzero"`
}

// The values of Guest.Action (EC2 instance-action).
const (
	ActionNone     = "none"
	ActionShutdown = "shutdown"
	ActionReboot   = "reboot"
)
