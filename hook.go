package seedbed

import (
	"net/netip"
	"time"
)

// Scheme says how a hook's sender proves who it is. It is fixed per hook; a request cannot choose
// it.
type Scheme string

// The schemes.
const (
	SchemeStandard     Scheme = "standard"      // Standard Webhooks 1.0.0, v1 (HMAC-SHA256); the default
	SchemeStandardV1a  Scheme = "standard-v1a"  // the same, v1a (Ed25519)
	SchemeGitHub       Scheme = "github"        // X-Hub-Signature-256
	SchemeGitLab       Scheme = "gitlab"        // X-Gitlab-Token, a shared secret in clear
	SchemeGitLabSigned Scheme = "gitlab-signed" // GitLab's signing token: the wire of Standard Webhooks v1
	SchemeStripe       Scheme = "stripe"        // Stripe-Signature
	SchemeSlack        Scheme = "slack"         // X-Slack-Signature, v0
	SchemeGeneric      Scheme = "generic"       // an HMAC that HookForm describes
	SchemeAlertmanager Scheme = "alertmanager"  // a bearer token, or a client certificate
	SchemeNone         Scheme = "none"          // no proof; only for loopback or with a client certificate
)

// Schemes returns all schemes, the default first.
func Schemes() []Scheme {
	return []Scheme{SchemeStandard, SchemeStandardV1a, SchemeGitHub, SchemeGitLab, SchemeGitLabSigned,
		SchemeStripe, SchemeSlack, SchemeGeneric, SchemeAlertmanager, SchemeNone}
}

// The actions that a request may ask for.
const (
	DoCreate = "create" // make an instance and start it
	DoRemove = "remove" // remove it, volumes included
	DoStart  = "start"  // start its domain
	DoStop   = "stop"   // shut down its guest, or power it off
	DoPlan   = "plan"   // report what create would make; write nothing

	DoReboot  = "reboot"  // stop it, and start it again
	DoRebuild = "rebuild" // give it fresh disks; its name and addresses stay
	DoMigrate = "migrate" // take it to another node

	DoNICAdd    = "nic-add"    // give it a further NIC
	DoNICRemove = "nic-remove" // take a NIC from it
	DoNICSet    = "nic-set"    // take a NIC to another network

	DoResize = "resize" // give it a larger disk, or other vCPUs or memory
	DoSet    = "set"    // change its hardware
	DoRename = "rename" // give it another name
	DoClone  = "clone"  // make another instance with copies of its disks

	DoSnapshot        = "snapshot"         // take a snapshot of its volumes
	DoSnapshotRemove  = "snapshot-remove"  // remove a snapshot
	DoSnapshotRestore = "snapshot-restore" // bring its volumes back to a snapshot
	DoBackup          = "backup"           // copy its volumes to a target

	DoVolumeAdd    = "volume-add"    // make a volume of the project
	DoVolumeRemove = "volume-remove" // remove it
	DoVolumeResize = "volume-resize" // make it larger
	DoVolumeSet    = "volume-set"    // change how fast it may be
	DoVolumeMove   = "volume-move"   // take it to another pool
	DoVolumeAttach = "volume-attach" // give it to an instance
	DoVolumeDetach = "volume-detach" // take it from its instance
	// It is not one of Actions: hooks cannot download what it makes.
	DoVolumeDownload = "volume-download" // make a file of it

	// These make no job.
	DoNetworkAdd          = "network-add"          // make a network
	DoNetworkSet          = "network-set"          // change its settings
	DoNetworkRemove       = "network-remove"       // remove it
	DoAddressAssociate    = "address-associate"    // give an instance a floating address
	DoAddressDisassociate = "address-disassociate" // take it from its instance
)

// Actions returns all actions.
func Actions() []string {
	return append([]string{DoCreate, DoRemove, DoRebuild, DoStart, DoStop, DoReboot, DoMigrate, DoPlan, DoNICAdd, DoNICRemove, DoNICSet,
		DoResize, DoSet, DoRename, DoClone, DoSnapshot, DoSnapshotRemove, DoSnapshotRestore, DoBackup,
		DoVolumeAdd, DoVolumeRemove, DoVolumeResize, DoVolumeSet, DoVolumeMove, DoVolumeAttach, DoVolumeDetach}, JoblessActions()...)
}

// NICActions maps the actions on NICs of instances to the kinds of their jobs.
func NICActions() map[string]JobKind {
	return map[string]JobKind{DoNICAdd: JobNICAdd, DoNICRemove: JobNICRemove, DoNICSet: JobNICSet}
}

// ChangeActions maps the actions that change an instance, or copy it, to the kinds of their jobs. Their params are what the API's request
// has.
func ChangeActions() map[string]JobKind {
	return map[string]JobKind{DoResize: JobResize, DoSet: JobSet, DoRename: JobRename, DoClone: JobClone}
}

// SnapshotActions maps the actions on snapshots of instances to the kinds of their jobs.
func SnapshotActions() map[string]JobKind {
	return map[string]JobKind{DoSnapshot: JobSnapshot, DoSnapshotRemove: JobSnapshotRemove, DoSnapshotRestore: JobSnapshotRestore}
}

// VolumeActions maps the actions on volumes of projects to the kinds of their jobs.
func VolumeActions() map[string]JobKind {
	return map[string]JobKind{DoVolumeAdd: JobVolumeAdd, DoVolumeRemove: JobVolumeRemove, DoVolumeResize: JobVolumeResize,
		DoVolumeSet: JobVolumeSet, DoVolumeMove: JobVolumeMove, DoVolumeDownload: JobVolumeDownload,
		DoVolumeAttach: JobAttach, DoVolumeDetach: JobDetach}
}

// VolumeOrder is what an action on a volume asks for: the field of that action. A detach has the instance that must have the volume, if
// any must, in Attach.
type VolumeOrder struct {
	Add      VolumeRequest
	Resize   VolumeResize
	Set      VolumeLimits
	Move     VolumeMove
	Attach   Attachment
	Download VolumeDownload
}

// JoblessActions returns the actions that change networks and addresses without a job.
func JoblessActions() []string {
	return []string{DoNetworkAdd, DoNetworkSet, DoNetworkRemove, DoAddressAssociate, DoAddressDisassociate}
}

// Hook is a receiver of webhooks.
type Hook struct {
	// Name is the qualified name: see Qualified. Its path is /hooks/ and that name.
	Name string `json:"name"`
	// Project is the project that it acts in.
	Project string `json:"project"`
	HookSettings
	// Profiles are the profiles that it may use; empty means any.
	Profiles []string `json:"profiles"`
	// Actions are the actions that it may ask for; empty means only create.
	Actions []string `json:"actions"`
	// Tolerance is how far a delivery's timestamp may differ from now, either way.
	Tolerance time.Duration `json:"tolerance"`
	// Keys are the keys that its sender signs with. There are several while one replaces another.
	Keys []HookKey `json:"keys"`
	// Declared is true when the configuration file declares it: nothing else may change it.
	Declared bool      `json:"declared"`
	Created  time.Time `json:"created"`
	Changed  time.Time `json:"changed"`
}

// HookSettings says how a hook verifies, limits and interprets deliveries.
type HookSettings struct {
	Scheme Scheme `json:"scheme,omitempty"`
	// Form describes the signature of SchemeGeneric; else nil.
	Form *HookForm `json:"form,omitempty"`
	// Insecure is true to allow SchemeNone.
	Insecure bool `json:"insecure,omitempty"`
	// CIDRs are the senders' networks; empty means any.
	CIDRs []netip.Prefix `json:"cidrs,omitempty"`
	// Subjects are names of client certificates, one of which a sender must hold: a DNS or URI
	// subject alternative name, or the common name. Empty requires none.
	Subjects []string `json:"subjects,omitempty"`
	// Rate is how many deliveries it accepts per second, and in a burst; 0 means any number.
	Rate float64 `json:"rate,omitempty"`
	// Concurrency is how many deliveries it processes at the same time; 0 means any number.
	Concurrency int `json:"concurrency,omitempty"`
	// MaxBody is the largest body; 0 means the listener's bound.
	MaxBody Bytes `json:"max_body,omitzero"`
	// Instances is how many live instances it may have created; 0 means any number.
	Instances int `json:"instances,omitempty"`
	// Creates is how many instances it may create per hour; 0 means any number.
	Creates int `json:"creates,omitempty"`
	// Priority is the highest priority that its jobs may have. The zero value is PriorityNormal.
	Priority Priority `json:"priority,omitzero"`
	// When is a CEL expression that decides whether to act on a delivery; empty means true.
	When string `json:"when,omitempty"`
	// Mapping is a CEL expression that yields the action, name, profile, parameters and job
	// options. If it is empty, the body gives them.
	Mapping string `json:"mapping,omitempty"`
	// KeepPayload keeps the bodies in the history, for redelivery.
	KeepPayload bool `json:"keep_payload,omitempty"`
}

// HookKey is one key of a hook.
type HookKey struct {
	// ID distinguishes the keys of a hook.
	ID string `json:"id"`
	// Secret depends on the scheme: a decoded HMAC key, a public key, or the text of a token. It
	// leaves the store only to verify and, once, when it is made.
	Secret []byte `json:"-"`
	// NotBefore and NotAfter bound when it is valid; zero means no bound.
	NotBefore time.Time `json:"not_before,omitzero"`
	NotAfter  time.Time `json:"not_after,omitzero"`
}

// Valid reports whether the key is valid at that time.
func (k HookKey) Valid(at time.Time) bool {
	return !at.Before(k.NotBefore) && (k.NotAfter.IsZero() || at.Before(k.NotAfter))
}

// HookForm describes the signature of a generic scheme.
type HookForm struct {
	// SignatureHeader holds Prefix and the MAC; entries are separated by Separator, if that is set.
	SignatureHeader string `json:"signature_header" yaml:"signature_header"`
	Prefix          string `json:"prefix,omitempty" yaml:"prefix"`
	Separator       string `json:"separator,omitempty" yaml:"separator"`
	// Encoding is "hex" (the default) or "base64".
	Encoding string `json:"encoding,omitempty" yaml:"encoding"`
	// Algorithm is "sha256" (the default) or "sha512".
	Algorithm string `json:"algorithm,omitempty" yaml:"algorithm"`
	// Signed is what is signed: text with {timestamp}, {id} and, last, {body}. The default is
	// "{body}" or, with a TimestampHeader, "{timestamp}.{body}".
	Signed string `json:"signed,omitempty" yaml:"signed"`
	// TimestampHeader holds Unix seconds; empty if the sender gives no time.
	TimestampHeader string `json:"timestamp_header,omitempty" yaml:"timestamp_header"`
	// IDHeader names the delivery; if it is empty, the digest of the body does.
	IDHeader string `json:"id_header,omitempty" yaml:"id_header"`
}

// Quota bounds what a hook may have created; zero means no bound.
type Quota struct {
	Instances int
	Creates   int
}
