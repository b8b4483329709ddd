package wire

import (
	"net/netip"
	"time"

	"seedbed"
)

// HookRequest creates a receiver of webhooks. A zero Tolerance is the server's default.
type HookRequest struct {
	Name string `json:"name"`
	seedbed.HookSettings
	HookKey
	// Profiles are the profiles that the hook may use. Empty means any.
	Profiles []string `json:"profiles"`
	// Actions are the actions that the hook may request. Empty means only create.
	Actions []string `json:"actions"`
	// Tolerance is how far a delivery's timestamp may be off, in nanoseconds.
	Tolerance time.Duration `json:"tolerance"`
}

// HookKey describes a new key of a hook.
type HookKey struct {
	// Secret is the sender's secret. If it is empty, the server generates one.
	Secret string `json:"secret,omitempty"`
	// ID distinguishes the key from the hook's others. If it is empty, the server generates one.
	ID string `json:"key_id,omitempty"`
	// NotBefore and NotAfter bound the time in which the key is valid. A zero time is not a bound.
	NotBefore time.Time `json:"not_before,omitzero"`
	NotAfter  time.Time `json:"not_after,omitzero"`
}

// Empty reports whether no field is set.
func (k HookKey) Empty() bool {
	return k.Secret == "" && k.ID == "" && k.NotBefore.IsZero() && k.NotAfter.IsZero()
}

// HookChange changes a hook. Nil fields change nothing.
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
	// Overlap is how long the previous keys are still accepted, in nanoseconds.
	Overlap time.Duration `json:"overlap"`
}

// HookTest is a delivery to test a hook with, and rules that replace its own.
type HookTest struct {
	seedbed.SampleDelivery
	When    *string `json:"when,omitempty"`
	Mapping *string `json:"mapping,omitempty"`
}

// NewHook is a new hook, or one with a new key.
type NewHook struct {
	Hook seedbed.Hook `json:"hook"`
	// Secret is the secret that the server generated, such as "whsec_…". It cannot be read again.
	Secret string `json:"secret,omitempty"`
}
