package seedbed

import (
	"context"
	"encoding/json"
	"time"
)

// Role is what a caller of the API may do. Each has the rights of those before it.
type Role string

// The roles.
const (
	// RoleViewer reads everything but what may hold secrets.
	RoleViewer Role = "viewer"
	// RoleOperator makes, changes and removes instances, images and profiles.
	RoleOperator Role = "operator"
	// RoleAdmin also decides who else may what: tokens, hooks, endpoints, networks and nodes.
	RoleAdmin Role = "admin"
)

var ranks = map[Role]int{RoleViewer: 1, RoleOperator: 2, RoleAdmin: 3}

// ParseRole reads a role.
func ParseRole(s string) (Role, error) {
	if _, ok := ranks[Role(s)]; !ok {
		return "", Errorf(ErrInvalid, "role %q is unknown: want viewer, operator or admin", Clip(s))
	}
	return Role(s), nil
}

// Allows tells whether a holder of r may do what need is asked for.
func (r Role) Allows(need Role) bool { return ranks[need] > 0 && ranks[r] >= ranks[need] }

// Token lets its holder use the API. Only the SHA-256 of its secret is kept.
type Token struct {
	Name    string    `json:"name"`
	Role    Role      `json:"role"`
	Created time.Time `json:"created"`
	// Expires is when it ends; zero is never.
	Expires time.Time `json:"expires,omitzero"`
	// Used is when it was last used, to the minute; zero is never.
	Used time.Time `json:"used,omitzero"`
	// Quota bounds the instances that are made by it.
	Quota TokenQuota `json:"quota,omitzero"`
}

// TokenQuota bounds what the live instances of a token may have together; zero is without bound.
type TokenQuota struct {
	Instances int64 `json:"max_instances,omitempty"`
	VCPUs     int64 `json:"max_vcpus,omitempty"`
	Memory    Bytes `json:"max_memory,omitzero"`
	Disk      Bytes `json:"max_disk,omitzero"`
}

// Check refuses, with ErrInvalid, a quota below zero.
func (q TokenQuota) Check() error {
	if q.Instances < 0 || q.VCPUs < 0 || q.Memory < 0 || q.Disk < 0 {
		return Errorf(ErrInvalid, "a quota is below zero: want a bound, or 0 for none")
	}
	return nil
}

// Expired tells whether the token has ended at now.
func (t Token) Expired(now time.Time) bool { return !t.Expires.IsZero() && !now.Before(t.Expires) }

// Change is who asks for a change, and for which. The API puts it into the
// context of its calls, and the store writes it down with what it changes.
type Change struct {
	// Actor is a token's name ("token ci") or a user of the control socket ("uid 0").
	Actor string
	Role  Role
	// From is the peer's address; empty for the control socket.
	From string
	// Request is the method and the path.
	Request string
	// Before is the object as the API shows it, nil when there was none or it has none.
	Before json.RawMessage
	// Asked is the request's body without secrets and documents; nil when it had none.
	Asked json.RawMessage
	// Token is the name of the token that was shown; empty for the control socket.
	Token string
	// Quota bounds what the token's instances may have.
	Quota TokenQuota
}

type changeKey struct{}

// WithChange is ctx for work on behalf of c, which may be completed until that begins.
func WithChange(ctx context.Context, c *Change) context.Context {
	return context.WithValue(ctx, changeKey{}, c)
}

// ChangeOf is what WithChange put into ctx; nil when nothing did.
func ChangeOf(ctx context.Context) *Change {
	c, _ := ctx.Value(changeKey{}).(*Change)
	return c
}

// AuditEntry is one change as it was committed.
type AuditEntry struct {
	ID      int64           `json:"id"`
	At      time.Time       `json:"at"`
	Actor   string          `json:"actor"`
	Role    Role            `json:"role"`
	From    string          `json:"from"`
	Request string          `json:"request"`
	What    string          `json:"what"`
	Before  json.RawMessage `json:"before,omitempty"`
	Asked   json.RawMessage `json:"asked,omitempty"`
}
