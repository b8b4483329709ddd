package wire

import (
	"time"

	"seedbed"
)

// Health is what the API says of itself, to anybody.
type Health struct {
	Status  string `json:"status"` // "ok"
	Version string `json:"version"`
	Node    string `json:"node"`
}

// Overview is an installation on one page.
type Overview struct {
	Version string `json:"version"`
	Node    string `json:"node"`
	// Nodes is how many nodes are in which state.
	Nodes map[seedbed.NodeState]int `json:"nodes"`
	// Checks is how many the server made; Wrong are those that found a problem.
	Checks int             `json:"checks"`
	Wrong  []seedbed.Check `json:"wrong"`
	Census seedbed.Census  `json:"census"`
	// Jobs are the last ones, the newest first.
	Jobs []seedbed.Job `json:"jobs"`
}

// CleanupRequest runs the cleanup. DryRun only reports; Force overrides the
// refusal of an inventory that looks wrong.
type CleanupRequest struct {
	DryRun bool `json:"dry_run"`
	Force  bool `json:"force"`
}

// NodeRequest describes a new node.
type NodeRequest struct {
	Name string `json:"name"`
	// Worker is the address of its worker, such as https://hv2.example:7375.
	Worker   string `json:"worker"`
	Cordoned bool   `json:"cordoned"`
}

// NodeChange is what to change of a node; nil leaves it.
type NodeChange struct {
	Worker   *string `json:"worker,omitempty"`
	Cordoned *bool   `json:"cordoned,omitempty"`
}

// MaintenanceRequest announces an event to the guests of a node, or to one instance.
type MaintenanceRequest struct {
	Code        string    `json:"code"`
	Description string    `json:"description"`
	NotBefore   time.Time `json:"not_before"`
	NotAfter    time.Time `json:"not_after,omitzero"`
}

// NetworkChange is what changes of a network; a nil field changes nothing.
type NetworkChange struct {
	Identity *string `json:"identity,omitempty"`
	// Allow is in place of what was allowed before.
	Allow *seedbed.Allowance `json:"allow,omitempty"`
}

// TokenRequest asks for a token of the API.
type TokenRequest struct {
	Name string       `json:"name"`
	Role seedbed.Role `json:"role"`
	// Expires is when it ends; zero is never.
	Expires time.Time `json:"expires,omitzero"`
	// Quota bounds the instances that are made by it.
	Quota seedbed.TokenQuota `json:"quota,omitzero"`
}

// NewToken is a token that was just made.
type NewToken struct {
	Token seedbed.Token `json:"token"`
	// Secret is what its holder sends. It is told this once.
	Secret string `json:"secret"`
}

// TrashItem is a volume that was removed and still exists.
type TrashItem struct {
	seedbed.TrashItem
	// InstanceName is the name that its instance had, as far as it is still known.
	InstanceName string `json:"instance_name,omitempty"`
}

// DiscardRequest puts a restored volume back into the trash.
type DiscardRequest struct {
	Pool string `json:"pool"`
	Name string `json:"name"`
}
