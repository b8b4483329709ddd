package wire

import (
	"net/netip"
	"time"

	"seedbed"
)

// HookRequest asks for a receiver of webhooks. Its zero Tolerance is the server's default.
type HookRequest struct {
	Name string `json:"name"`
	seedbed.HookSettings
	HookKey
	// Profiles are those that it may use; empty means any.
	Profiles []string `json:"profiles"`
	// Actions are those that it may ask for; empty means create only.
	Actions []string `json:"actions"`
	// Tolerance is how far a delivery's timestamp may be off, in nanoseconds.
	Tolerance time.Duration `json:"tolerance"`
}

// HookKey is a key that a hook is to have.
type HookKey struct {
	// Secret is the secret that the sender has; empty has the server draw one.
	Secret string `json:"secret,omitempty"`
	// ID tells it from the hook's others; empty has the server draw one.
	ID string `json:"key_id,omitempty"`
	// NotBefore and NotAfter bound when it counts; zero is no bound.
	NotBefore time.Time `json:"not_before,omitzero"`
	NotAfter  time.Time `json:"not_after,omitzero"`
}

// Empty reports whether nothing is said of the key.
func (k HookKey) Empty() bool {
	return k.Secret == "" && k.ID == "" && k.NotBefore.IsZero() && k.NotAfter.IsZero()
}

// HookChange is what is to change of a hook; nil stays.
type HookChange struct {
	Form        *seedbed.HookForm `json:"form,omitempty"`
	Insecure    *bool             `json:"insecure,omitempty"`
	CIDRs       *[]netip.Prefix   `json:"cidrs,omitempty"`
	Subjects    *[]string         `json:"subjects,omitempty"`
	Rate        *float64          `json:"rate,omitempty"`
	Concurrency *int              `json:"concurrency,omitempty"`
	MaxBody     *seedbed.Bytes    `json:"max_body,omitempty"`
	Instances   *int              `json:"instances,omitempty"`
	Creates     *int              `json:"creates,omitempty"`
	Priority    *seedbed.Priority `json:"priority,omitempty"`
	When        *string           `json:"when,omitempty"`
	Mapping     *string           `json:"mapping,omitempty"`
	KeepPayload *bool             `json:"keep_payload,omitempty"`
	Profiles    *[]string         `json:"profiles,omitempty"`
	Actions     *[]string         `json:"actions,omitempty"`
	Tolerance   *time.Duration    `json:"tolerance,omitempty"`
}

// HookRotation gives a hook another key.
type HookRotation struct {
	HookKey
	// Overlap is how long the keys before it still count, in nanoseconds.
	Overlap time.Duration `json:"overlap"`
}

// HookTest is a delivery to try a hook with, and rules to try in place of its own.
type HookTest struct {
	seedbed.Sample
	When    *string `json:"when,omitempty"`
	Mapping *string `json:"mapping,omitempty"`
}

// NewHook is a hook that was just made, or has a new key.
type NewHook struct {
	Hook seedbed.Hook `json:"hook"`
	// Secret is the secret that the server drew, such as "whsec_…". It is told this once.
	Secret string `json:"secret,omitempty"`
}
