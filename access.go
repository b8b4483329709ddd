package seedbed

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"math/big"
	"strings"
	"time"
)

// Token lets its holder use the API. Only the SHA-256 of its secret is kept.
type Token struct {
	// Name is the qualified name: see Qualified.
	Name string `json:"name"`
	// Project is the project that its holder acts in. A holder from the default project also sees
	// what belongs to the installation as a whole.
	Project string `json:"project"`
	Role    Role   `json:"role"`
	// Grants are what its holder may do in other projects.
	Grants  []Grant   `json:"grants,omitempty"`
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
		return errNegativeQuota
	}
	return nil
}

var errNegativeQuota = Errorf(ErrInvalid, "a quota is negative: expected a limit, or 0 for none")

// Expired reports whether the token has expired at now.
func (t Token) Expired(now time.Time) bool { return !t.Expires.IsZero() && !now.Before(t.Expires) }

// Change says who asks for a change, and for which one. The API puts it into the context of its
// calls; the store records it with the change.
type Change struct {
	// Actor is a token's name ("token ci") or a user of the control socket ("uid 0").
	Actor string
	Role  Role
	// Project is the project that the caller acts in. Visits is true if the caller is an admin of the
	// installation and acts in another project than the default one.
	Project string
	Visits  bool
	// From is the address of the peer; empty for the control socket.
	From string
	// Request is the method and the path of the request.
	Request string
	// Before is the object before the change, as the API shows it. It is nil if there was no object
	// or the API does not show it.
	Before json.RawMessage
	// Asked is the body of the request without secrets and documents; nil if it had no body.
	Asked json.RawMessage
	// Installation is set for an admin of the installation, who may learn of all projects.
	Installation bool
	// Token is the name of the token that was presented; empty for the control socket.
	Token string
	// Quota bounds what the instances of the token may have.
	Quota TokenQuota
	// Keyed is the request if it has an idempotency key, or nil.
	Keyed *KeyedRequest
	// Delivery is the webhook that asks for a change without a job; nil for all else. The store records it as done in the
	// transaction of the change, which fails with ErrExists if it was recorded before.
	Delivery *Delivery
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

// Learns reports whether who asks for the change may learn what a project has. A change that Seedbed makes
// by itself, which is nil, may.
func (c *Change) Learns(project string) bool {
	return c == nil || c.Installation || c.Project == project
}

type tenantKey struct{}

// AsTenant returns ctx for work on behalf of a caller that may not learn which nodes there are, and what
// room they have.
func AsTenant(ctx context.Context) context.Context { return context.WithValue(ctx, tenantKey{}, true) }

// IsTenant reports whether AsTenant made ctx.
func IsTenant(ctx context.Context) bool {
	is, _ := ctx.Value(tenantKey{}).(bool)
	return is
}

// AuditEntry is one change as it was committed.
type AuditEntry struct {
	ID      int64           `json:"id"`
	At      time.Time       `json:"at"`
	Actor   string          `json:"actor"`
	Role    Role            `json:"role"`
	Project string          `json:"project"`
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

// DefaultProject is the project that exists from the start. It is the operators' own: what belongs
// to the installation as a whole is managed from it.
const DefaultProject = "default"

// Project is an account: it owns instances, and what comes of them.
type Project struct {
	Name string `json:"name"`
	// Number is the number of the account: twelve digits, as EC2's owner-id. It never changes, and no
	// other project gets it.
	Number      string `json:"number"`
	Description string `json:"description"`
	// Quota bounds what it may have.
	Quota    ProjectQuota `json:"quota,omitzero"`
	Revision int64        `json:"revision"`
	Created  time.Time    `json:"created"`
	Changed  time.Time    `json:"changed"`
}

// maxProjectDescription is the largest number of bytes of a project's description.
const maxProjectDescription = 1000

// Check returns ErrInvalid if the name or the description cannot be those of a project.
func (p Project) Check() error {
	if err := CheckProjectName(p.Name); err != nil {
		return err
	}
	if len(p.Description) > maxProjectDescription {
		return Errorf(ErrInvalid, "project %q: its description has %d bytes: expected at most %d",
			p.Name, len(p.Description), maxProjectDescription)
	}
	return p.Quota.Check()
}

// NoProject returns the error for a project that does not exist, ErrNotFound.
func NoProject(name string) error {
	return Errorf(ErrNotFound, "project %q does not exist", Clip(name))
}

// CheckProjectName returns ErrInvalid unless name is one lower-case RFC 1123 host name label of at
// most 32 characters. The name of a project is a part of its domains' names.
func CheckProjectName(name string) error {
	if len(name) > 32 || !consists(name, "-", false, false) {
		return Errorf(ErrInvalid, "project name %q is not usable: expected 1 to 32 of a-z, 0-9 and '-', not starting or ending with '-'",
			Clip(name))
	}
	return nil
}

// Qualified returns the name of a token, hook, endpoint or image in the installation, its qualified name: "ci"
// for one of the default project, and "acme/ci" for one of the project acme.
func Qualified(project, name string) string {
	if project == DefaultProject {
		return name
	}
	return project + "/" + name
}

// QualifiedAll returns the qualified names of objects of a project. Those that have a project already are left.
func QualifiedAll(project string, names []string) []string {
	out := make([]string, len(names))
	for i, name := range names {
		if out[i] = name; !strings.Contains(name, "/") {
			out[i] = Qualified(project, name)
		}
	}
	return out
}

// ProjectOf returns the project of the token, hook, endpoint or image with a qualified name.
func ProjectOf(qualified string) string {
	if project, _, ok := strings.Cut(qualified, "/"); ok {
		return project
	}
	return DefaultProject
}

// ShortName returns the name of the object with a qualified name, without its project.
func ShortName(qualified string) string { return qualified[strings.IndexByte(qualified, '/')+1:] }

// CheckQualified returns ErrInvalid unless name can be the qualified name of an object in a project. The
// message names the kind. An empty project is the default one.
func CheckQualified(kind, project, name string) error {
	project = cmp.Or(project, DefaultProject)
	if err := CheckProjectName(project); err != nil {
		return err
	}
	short := strings.TrimPrefix(name, Qualified(project, ""))
	if err := CheckName(kind, short); err != nil {
		return err
	}
	if Qualified(project, short) != name {
		return Errorf(ErrInvalid, "%s name %q is not one of project %s: expected %s", kind, Clip(name), project, Qualified(project, short))
	}
	return nil
}

// CheckQualifiedName returns ErrInvalid unless name can be the qualified name of an object of some project.
// The message names the kind.
func CheckQualifiedName(kind, name string) error {
	if CheckProjectName(ProjectOf(name)) != nil {
		return CheckName(kind, name) // which has a slash
	}
	return CheckQualified(kind, ProjectOf(name), name)
}

// NewProjectNumber returns a random account number.
func NewProjectNumber() string {
	const least = 100_000_000_000 // twelve digits
	n, err := rand.Int(rand.Reader, big.NewInt(9*least))
	if err != nil {
		panic(err) // never fails (crypto/rand)
	}
	return n.Add(n, big.NewInt(least)).String()
}

// Scope says whose objects a caller sees: those of one project or of all. The zero Scope sees none.
type Scope struct {
	project string
	all     bool
}

// InProject returns the scope of one project.
func InProject(name string) Scope { return Scope{project: name} }

// AllProjects returns the scope of the installation.
func AllProjects() Scope { return Scope{all: true} }

// Sees reports whether the scope includes a project.
func (s Scope) Sees(project string) bool { return s.all || s.project != "" && s.project == project }

// One returns the project of a scope of one project, and false if s is that of all.
func (s Scope) One() (project string, one bool) { return s.project, !s.all }
