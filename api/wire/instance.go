package wire

import (
	"encoding/json"
	"net/netip"
	"time"

	"seedbed"
)

// InstanceRequest creates an instance.
type InstanceRequest struct {
	Name string `json:"name"`
	// Profile and Image are what it is made from: exactly one is set.
	Profile string         `json:"profile,omitempty"`
	Image   string         `json:"image,omitempty"`
	Params  map[string]any `json:"params,omitempty"`
	NewInstance
	// Arguments are the arguments of the profile's script, each as key=value. They override those of
	// the profile. If they are nil and the profile declares no parameters, Params are the arguments.
	Arguments []string `json:"arguments,omitzero"`
	// DisksOnly makes only the disks, for a profile with a script. No instance owns them afterwards.
	DisksOnly bool `json:"disks_only,omitempty"`
}

// NewInstance holds the settings of a new instance that do not say what it is made from.
type NewInstance struct {
	// Hold and Protected override the profile's values unless they are nil.
	Hold      *bool `json:"hold,omitempty"`
	Protected *bool `json:"protected,omitempty"`
	// Expires is when it expires, as a duration from now on or a time in RFC 3339, and AtExpiry what is done then: stop, the
	// default, or remove.
	Expires  string `json:"expires,omitempty"`
	AtExpiry string `json:"at_expiry,omitempty"`
	// Node is the node that runs the instance. If it is empty, the placement chooses one.
	Node string `json:"node,omitempty"`
	// Network is the network of its first NIC, in place of the profile's.
	Network string `json:"network,omitempty"`
	// NICs are all its NICs, in place of the profile's.
	NICs []seedbed.NICRequest `json:"nics,omitempty"`
	// SecurityGroups are the groups of its NICs that name none themselves.
	SecurityGroups []string `json:"security_groups,omitempty"`
	// Ready is when the job ends. Empty means the profile's value.
	Ready seedbed.Ready `json:"ready,omitempty"`
}

// PlanRequest asks what a create or a rebuild would make.
type PlanRequest struct {
	// Action is create, the default, or rebuild.
	Action  string `json:"action,omitempty"`
	Name    string `json:"name"`
	Profile string `json:"profile,omitempty"`
	// Image takes the place of the profile in a create, and that of the profile's image in a rebuild.
	Image  string         `json:"image,omitempty"`
	Params map[string]any `json:"params,omitempty"`
	NewInstance
}

// PowerRequest says how an instance is switched off. By default, its guest is asked to shut down,
// and is switched off if it has not done so in time.
type PowerRequest struct {
	// Force switches off at once.
	Force bool `json:"force,omitempty"`
	// Soft makes the job fail if the guest does not shut down in time. The instance then stays on.
	Soft bool `json:"soft,omitempty"`
	// Grace is how long the guest has to shut down, such as "90s". Empty is the configured time.
	Grace string `json:"grace,omitempty"`
}

// MigrateRequest takes an instance to another node, or with DryRun only plans it.
type MigrateRequest struct {
	PowerRequest
	// Node is the node that it goes to; empty leaves that to the placement.
	Node string `json:"node,omitempty"`
	// Method is live for a guest that keeps running, and cold for one that is switched off; empty for an instance that is stopped.
	Method string `json:"method,omitempty"`
	// Back takes it to its home, and Stay makes the node that it goes to the one where it stays.
	Back   bool `json:"back,omitempty"`
	Stay   bool `json:"stay,omitempty"`
	DryRun bool `json:"dry_run,omitempty"`
}

// RebuildRequest says what an instance is rebuilt from. Empty fields change nothing.
type RebuildRequest struct {
	PowerRequest
	Profile string         `json:"profile,omitempty"`
	Image   string         `json:"image,omitempty"`
	Params  map[string]any `json:"params,omitempty"`
	// Confirm must repeat the name of a protected instance.
	Confirm string `json:"confirm,omitempty"`
}

// ResizeRequest resizes an instance, or with DryRun only plans it.
type ResizeRequest struct {
	seedbed.ResizeRequest
	DryRun bool `json:"dry_run,omitempty"`
}

// CloneRequest makes an instance with copies of the disks of another one, or with DryRun only plans it.
type CloneRequest struct {
	seedbed.CloneRequest
	DryRun bool `json:"dry_run,omitempty"`
}

// RenameRequest gives an instance another name, or with DryRun only plans it.
type RenameRequest struct {
	Name   string `json:"name"`
	DryRun bool   `json:"dry_run,omitempty"`
}

// NICRequest adds a NIC to an instance, or with DryRun only plans it.
type NICRequest struct {
	seedbed.NICRequest
	DryRun bool `json:"dry_run,omitempty"`
}

// NICChange takes a NIC of an instance to another network, or with DryRun only plans it.
type NICChange struct {
	Network string `json:"network"`
	// Addr is its address there. Without one, it gets a free one.
	Addr   netip.Addr `json:"addr,omitzero"`
	DryRun bool       `json:"dry_run,omitempty"`
}

// HardwareChange changes the hardware of an instance, or with DryRun only plans it.
type HardwareChange struct {
	seedbed.HardwareChange
	DryRun bool `json:"dry_run,omitempty"`
}

// InstanceChange changes an instance at once or, with Hardware, by a job. Absent members change nothing.
type InstanceChange struct {
	// Hardware changes its hardware. It is sent without other members.
	Hardware *HardwareChange `json:"hardware,omitempty"`
	// Metadata replaces the options that it sets.
	Metadata *seedbed.MetadataOptions `json:"metadata,omitempty"`
	// Tags are set by name. A null removes one.
	Tags map[string]*string `json:"tags,omitempty"`
	// Spot replaces the spot notice, in the form of SpotNotice. A null removes it.
	Spot json.RawMessage `json:"spot,omitempty"`
	// Protected says whether removing and rebuilding the instance require its name as confirmation.
	Protected *bool `json:"protected,omitempty"`
	// Expires replaces when it expires, in the forms of NewInstance; empty: never. Extend is a duration by which it expires
	// later, from its expiry or, if that has passed, from now on. AtExpiry is what is done then.
	Expires  *string `json:"expires,omitempty"`
	Extend   string  `json:"extend,omitempty"`
	AtExpiry string  `json:"at_expiry,omitempty"`
	// Notes replaces the notes, which are text for people.
	Notes *string `json:"notes,omitempty"`
	// SecurityGroups replaces the groups of its NICs, or of the one with the index NIC.
	SecurityGroups *[]string `json:"security_groups,omitempty"`
	// Forward adds forwards to the NIC with the index NIC, the first by default, and Unforward removes some.
	Forward   []seedbed.Forward `json:"forward,omitempty"`
	Unforward []seedbed.Listen  `json:"unforward,omitempty"`
	// Assign gives secondary addresses to the NIC with the index NIC, the first by default, AssignCount as many that are free,
	// AssignCount6 as many free ones of IPv6, and Unassign takes some away. With Take, those of Assign that another NIC of the
	// project has as secondary ones are taken from it.
	Assign       []netip.Addr `json:"assign,omitempty"`
	Take         bool         `json:"take,omitempty"`
	AssignCount  int          `json:"assign_count,omitempty"`
	AssignCount6 int          `json:"assign_count6,omitempty"`
	Unassign     []netip.Addr `json:"unassign,omitempty"`
	// BandwidthIn and BandwidthOut are the rates of the NIC with the index NIC, the first by default; 0 is no limit.
	BandwidthIn  *seedbed.BitRate `json:"bandwidth_in,omitempty"`
	BandwidthOut *seedbed.BitRate `json:"bandwidth_out,omitempty"`
	// Floating is the floating address of the NIC with the index NIC, the first by default, and Floating6 the one of IPv6. The zero
	// Addr takes it away.
	Floating  *netip.Addr `json:"floating,omitempty"`
	Floating6 *netip.Addr `json:"floating6,omitempty"`
	NIC       *int        `json:"nic,omitempty"`
	// UserData says whether the instance's user-data follows its profile's.
	UserData seedbed.Follow `json:"userdata,omitempty"`
}

// SpotNotice returns s in the form of InstanceChange. A nil s removes the notice.
func SpotNotice(s *seedbed.Spot) json.RawMessage {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // a notice has only text and a time, and always marshals
	}
	return b
}

// SnapshotRequest takes a snapshot of an instance's volumes.
type SnapshotRequest struct {
	Name string `json:"name"`
	// Freeze says whether a running guest's file systems are frozen in the meantime; empty means auto.
	Freeze seedbed.Freeze `json:"freeze,omitempty"`
}

// RestoreRequest brings an instance's volumes back to a snapshot. All members are optional.
type RestoreRequest struct {
	PowerRequest
	// Confirm must repeat the name of a protected instance.
	Confirm string `json:"confirm,omitempty"`
	// DryRun asks for the plan only.
	DryRun bool `json:"dry_run,omitempty"`
}

// VolumeChange renames a volume of a project.
type VolumeChange struct {
	Name string `json:"name"`
}

// Snapshot is one snapshot of an instance's volumes.
type Snapshot struct {
	Name string `json:"name"`
	// Job is the job that took it.
	Job     seedbed.JobID `json:"job"`
	Created time.Time     `json:"created"`
	// Volumes are the names of the volumes that have the snapshot.
	Volumes []string `json:"volumes"`
	// Size is the size that these volumes had together; 0 if an older release took the snapshot of one.
	Size seedbed.Bytes `json:"size,omitempty"`
	// Complete is false if a volume of the instance does not have the snapshot.
	Complete bool `json:"complete"`
	// Consistency says in which state the guest was; empty if that is not known, or not the same for all of the volumes.
	Consistency seedbed.Consistency `json:"consistency,omitempty"`
}

// Usage is what running instances have used since they were started, by their nodes.
type Usage struct {
	Nodes []NodeUsage `json:"nodes"`
}

// NodeUsage is what the running instances of a node have used until At, or the problem for which that is not known.
type NodeUsage struct {
	Node      string          `json:"node"`
	At        time.Time       `json:"at"`
	Problem   string          `json:"problem,omitempty"`
	Instances []InstanceUsage `json:"instances"`
}

// InstanceUsage is what one instance has used.
type InstanceUsage struct {
	Name    string `json:"name"`
	Project string `json:"project"`
	seedbed.DomainUsage
}

// VolumeUpload says what becomes of an uploaded disk image. Its members are in the query.
type VolumeUpload struct {
	Name string `json:"name"`
	Pool string `json:"pool,omitempty"`
	// Node is the node that receives the file.
	Node   string `json:"node,omitempty"`
	SHA256 string `json:"sha256,omitempty"`
	// Format is what the file must be: qcow2 or raw; empty for either.
	Format string `json:"format,omitempty"`
	// Size is that of the volume; zero means that of the disk.
	Size seedbed.Bytes `json:"size,omitempty"`
}
