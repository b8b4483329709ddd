package seedbed

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"time"
)

// Role is what a caller of the API may do. Each has the rights of those before it.
type Role string

// The roles.
const (
	// RoleViewer reads everything except what may hold secrets.
	RoleViewer Role = "viewer"
	// RoleOperator makes, changes and removes instances, images and profiles.
	RoleOperator Role = "operator"
	// RoleAdmin also manages tokens, hooks, endpoints, networks and nodes, and so decides what
	// others may do.
	RoleAdmin Role = "admin"
)

var ranks = map[Role]int{RoleViewer: 1, RoleOperator: 2, RoleAdmin: 3}

// ParseRole parses the name of a role. An unknown name is ErrInvalid.
func ParseRole(s string) (Role, error) {
	if _, ok := ranks[Role(s)]; !ok {
		return "", Errorf(ErrInvalid, "role %q is unknown: expected viewer, operator or admin", Clip(s))
	}
	return Role(s), nil
}

// Allows reports whether a holder of r may do what requires the role need.
func (r Role) Allows(need Role) bool { return ranks[need] > 0 && ranks[r] >= ranks[need] }

// Token lets its holder use the API. Only the SHA-256 of its secret is kept.
type Token struct {
	Name    string    `json:"name"`
	Role    Role      `json:"role"`
	Created time.Time `json:"created"`
	// Expires is when it expires; zero means never.
	Expires time.Time `json:"expires,omitzero"`
	// Used is when it was last used, to the minute; zero means never.
	Used time.Time `json:"used,omitzero"`
	// Quota bounds the instances created with it.
	Quota TokenQuota `json:"quota,omitzero"`
}

// TokenQuota bounds what the live instances of a token may have in total. Zero means no bound.
type TokenQuota struct {
	Instances int64 `json:"max_instances,omitempty"`
	VCPUs     int64 `json:"max_vcpus,omitempty"`
	Memory    Bytes `json:"max_memory,omitzero"`
	Disk      Bytes `json:"max_disk,omitzero"`
}

// Check returns ErrInvalid if a bound is negative.
func (q TokenQuota) Check() error {
	if q.Instances < 0 || q.VCPUs < 0 || q.Memory < 0 || q.Disk < 0 {
		return Errorf(ErrInvalid, "a quota is negative: expected a limit, or 0 for none")
	}
	return nil
}

// Expired reports whether the token has expired at now.
func (t Token) Expired(now time.Time) bool { return !t.Expires.IsZero() && !now.Before(t.Expires) }

// Change says who asks for a change, and for which one. The API puts it into the context of its
// calls; the store records it with the change.
type Change struct {
	// Actor is a token's name ("token ci") or a user of the control socket ("uid 0").
	Actor string
	Role  Role
	// From is the address of the peer; empty for the control socket.
	From string
	// Request is the method and the path of the request.
	Request string
	// Before is the object before the change, as the API shows it. It is nil if there was no object
	// or the API does not show it.
	Before json.RawMessage
	// Asked is the body of the request without secrets and documents; nil if it had no body.
	Asked json.RawMessage
	// Token is the name of the token that was presented; empty for the control socket.
	Token string
	// Quota bounds what the instances of the token may have.
	Quota TokenQuota
	// Keyed is the request if it has an idempotency key, or nil.
	Keyed *KeyedRequest
	// Match returns an error if the request is not about this version of the object that a job is to
	// work on. It is nil for a request about any version. The object is an [Image], or an [Instance] or
	// an [OVA] with what identifies its version. The store calls it in the transaction that accepts the
	// job.
	Match func(object any) error
}

type changeKey struct{}

// WithChange returns ctx for work on behalf of c. The caller may complete c until that work begins.
func WithChange(ctx context.Context, c *Change) context.Context {
	return context.WithValue(ctx, changeKey{}, c)
}

// ChangeOf returns what WithChange put into ctx, or nil.
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

// The times of requests with an idempotency key.
const (
	// KeptFor is how long the answer to such a request is kept.
	KeptFor = 48 * time.Hour
	// RequestRenewal is how often the server that carries out such a request says so, and
	// RequestSilence how long after the last time it counts as gone.
	RequestRenewal = 5 * time.Second
	RequestSilence = 20 * time.Second
)

// KeyedRequest is a request with an idempotency key: however often it is sent, it is carried out
// once, and each time answered alike (draft-ietf-httpapi-idempotency-key-header).
type KeyedRequest struct {
	// ID is a digest of the caller and the key, and Digest one of the request.
	ID, Digest [sha256.Size]byte
	// Run names this attempt to carry it out. The store sets it.
	Run string
}
