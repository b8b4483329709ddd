package seedbed

import (
	"crypto/sha256"
	"encoding/hex"
	"time"
)

// InstanceState is where an instance is in its lifecycle.
type InstanceState string

// The states of an instance. Only a job or the cleanup changes a state.
const (
	// InstanceProvisioning: its create job has not ended.
	InstanceProvisioning InstanceState = "provisioning"
	// InstanceRunning: its domain was started and is not known to have stopped.
	InstanceRunning InstanceState = "running"
	// InstanceStopped: its domain is defined and off.
	InstanceStopped InstanceState = "stopped"
	// InstanceRemoving: its remove job has not ended.
	InstanceRemoving InstanceState = "removing"
	// InstanceGone: its domain vanished from libvirt and the cleanup released its addresses. Its
	// volumes stay until it is removed.
	InstanceGone InstanceState = "gone"
	// InstanceFailed: its create or remove job failed and could not undo everything.
	InstanceFailed InstanceState = "failed"
)

// Ready says what ends the create job of an instance.
type Ready string

// The policies of a profile.
const (
	// ReadyReport: cloud-init has phoned home at the end of its first boot.
	ReadyReport Ready = "report"
	// ReadyMetadata: the guest has fetched its user-data (or learned that it has none). The
	// default.
	ReadyMetadata Ready = "metadata"
	// ReadyStarted: the domain was started.
	ReadyStarted Ready = "started"
)

// ParseReady parses a policy; the empty string is ReadyMetadata. An unknown name is ErrInvalid.
func ParseReady(s string) (Ready, error) {
	switch r := Ready(s); r {
	case "":
		return ReadyMetadata, nil
	case ReadyReport, ReadyMetadata, ReadyStarted:
		return r, nil
	}
	return "", Errorf(ErrInvalid, "ready %q is unknown: expected report, metadata or started", Clip(s))
}

// Instance is one virtual machine and what it was made from.
type Instance struct {
	ID InstanceID `json:"id"`
	// Project is the name of the project that it belongs to, and Account the number of that project.
	Project string `json:"project"`
	Account string `json:"account"`
	Name    string `json:"name"`
	Profile string `json:"profile"`
	Image   string `json:"image"`
	Node    string `json:"node"`
	// Target is the node that it is on its way to; empty for none.
	Target string `json:"target,omitempty"`
	// Home is the node that it was taken from for a while, and to which it is to go back; empty for none.
	Home   string        `json:"home,omitempty"`
	State  InstanceState `json:"state"`
	VCPUs  int           `json:"vcpus"`
	Memory Bytes         `json:"memory"`
	Ready  Ready         `json:"ready"`
	// Held is true while the operator wants it defined but not started. The cleanup skips it.
	Held bool `json:"held"`
	// Protected is true while removing or rebuilding it requires its name as confirmation. The
	// cleanup skips it.
	Protected bool `json:"protected"`
	// Follow says whether its user-data follows that of the profile. Source identifies what the
	// user-data was made from.
	Follow Follow `json:"userdata"`
	Source string `json:"-"`
	// Params are the values that its templates read: string, int64 and bool. They may be secret.
	Params map[string]any `json:"-"`
	// System is what it has from a system template.
	System System `json:"system"`
	// CDROM is the ISO image in its CD-ROM drive; empty if that is empty or absent. Pending names what of its Hardware its guest gets
	// only when it is started again.
	CDROM   string   `json:"cdrom,omitempty"`
	Pending []string `json:"pending,omitempty"`
	// PlacementGroup is the qualified name of the placement group that it is in; empty for none.
	PlacementGroup string `json:"placement_group,omitempty"`
	// Token is the name of the token that created it; empty if none did.
	Token string `json:"token,omitempty"`
	// UserData is what the guest is served, byte for byte; nil means none (404).
	UserData []byte `json:"-"`
	// VendorData is the vendor-data of profile and installation as one document; nil means none.
	VendorData []byte `json:"-"`
	// SSHKeys are authorized_keys lines.
	SSHKeys    []string          `json:"ssh_keys"`
	Datasource Datasource        `json:"datasource"`
	Metadata   MetadataOptions   `json:"metadata"`
	Tags       map[string]string `json:"tags"`
	Spot       *Spot             `json:"spot,omitempty"`
	// Expiry is when it is stopped or removed by itself; nil if it is not.
	Expiry *Expiry `json:"expiry,omitempty"`
	// Notes are text for people, which the guest is not told.
	Notes string `json:"notes,omitempty"`
	// Password is what the guest posted (OpenStack password), encrypted with its public key.
	Password string `json:"password,omitempty"`
	// ReportToken is the secret last element of the phone-home path. It is empty unless Ready is report
	// or the instance was rebuilt: each rebuild draws another, by which its guests are told apart.
	ReportToken string   `json:"-"`
	NICs        []NIC    `json:"nics"`
	Volumes     []Volume `json:"volumes"`
	// Attached are the volumes of its project that are attached to it, besides the disks that it was made with.
	Attached []ProjectVolume `json:"attached,omitempty"`
	// Revision grows by one with each change of the row.
	Revision int64     `json:"revision"`
	Created  time.Time `json:"created"`
	Changed  time.Time `json:"changed"`
	// Fetched is when the guest first requested its user-data; zero before.
	Fetched time.Time `json:"fetched,omitzero"`
	// Reported is when the guest phoned home; zero before.
	Reported time.Time `json:"reported,omitzero"`
	// HostKey is the public Ed25519 key of the guest's SSH server, which it reported, as a known_hosts file has it; empty before.
	HostKey string `json:"host_key,omitempty"`
	// GoneSince is when the cleanup first missed its domain; zero while it is there.
	GoneSince time.Time `json:"gone_since,omitzero"`
}

// Expiry is the end of an instance that is needed only for a while.
type Expiry struct {
	// Time is when it ends; the cleanup carries it out when it runs next.
	Time time.Time `json:"time"`
	// Action is what is done to it then: ExpiryStop or ExpiryRemove.
	Action string `json:"action"`
}

// The values of Expiry.Action.
const (
	ExpiryStop   = "stop" // the default
	ExpiryRemove = "remove"
)

// MaxExpiry is the longest time for which an instance may expire later.
const MaxExpiry = 10 * 365 * 24 * time.Hour

// ParseExpiry returns the expiry of an instance: at is a time in RFC 3339 or a duration from now on such as 2h, and action what is
// done then; empty means ExpiryStop. It returns nil if both are empty, and ErrInvalid for a time that has passed.
func ParseExpiry(at, action string, now time.Time) (*Expiry, error) {
	if at == "" {
		if action != "" {
			return nil, Errorf(ErrInvalid, "at_expiry is only given with expires, which says when the instance expires")
		}
		return nil, nil
	}
	var when time.Time
	if d, err := ParseDuration(at); err == nil {
		when = now.Add(d)
	} else if when, err = time.Parse(time.RFC3339, at); err != nil {
		return nil, Errorf(ErrInvalid, "expires is %q: expected a duration from now on such as 2h or 30d, or a time such as 2026-01-02T15:04:05Z",
			Clip(at))
	}
	e := Expiry{Time: when.UTC().Truncate(time.Second), Action: action}
	if action == "" {
		e.Action = ExpiryStop
	}
	return &e, e.Check(now)
}

// Check returns ErrInvalid unless the expiry is in the future and its action is known.
func (e Expiry) Check(now time.Time) error {
	switch {
	case e.Action != ExpiryStop && e.Action != ExpiryRemove:
		return Errorf(ErrInvalid, "at_expiry is %q: expected stop or remove", Clip(e.Action))
	case e.Over(now) || e.Time.After(now.Add(MaxExpiry)):
		return Errorf(ErrInvalid, "expires is %s: expected a time in the future, at most ten years from now", e.Time.UTC().Format(time.RFC3339))
	}
	return nil
}

// Over reports whether the time has come. It is false for nil.
func (e *Expiry) Over(now time.Time) bool { return e != nil && !now.Before(e.Time) }

// Event returns what the guest is told of the expiry at events/maintenance/scheduled. Its ID is another for another time.
func (e Expiry) Event(id InstanceID) Maintenance {
	sum := sha256.Sum256([]byte(string(id) + e.Time.UTC().Format(time.RFC3339) + e.Action))
	m := Maintenance{ID: "instance-event-" + hex.EncodeToString(sum[:])[:17], NotBefore: e.Time, State: MaintenanceActive,
		Code: "instance-stop", Description: "The instance expires and is stopped"}
	if e.Action == ExpiryRemove {
		m.Code, m.Description = "instance-retirement", "The instance expires and is removed"
	}
	return m
}

// The ways in which a guest that runs goes to another node.
const (
	MigrateLive = "live" // it keeps running
	MigrateCold = "cold" // it is switched off, and started there
)

// LeavesBy returns in which way an instance goes to another node unless another one is asked for: MigrateCold if its template says so or
// cold is set, and nothing if it does not run.
func (i Instance) LeavesBy(cold bool) string {
	switch {
	case i.State != InstanceRunning:
		return ""
	case cold || i.System.MigrationMethod == "shutdown":
		return MigrateCold
	}
	return MigrateLive
}

// Volume is one disk of an instance.
type Volume struct {
	// Name is unique in its pool: the UUID of the instance and the index of the disk, and for a
	// disk of a rebuild the start of that job's ID.
	Name  string `json:"name"`
	Pool  string `json:"pool"`
	Index int    `json:"index"`
	Size  Bytes  `json:"size"`
	// Image is the image that it is a clone of; empty for a blank disk.
	Image string `json:"image,omitempty"`
}

// ImageState is where an image is in its lifecycle.
type ImageState string

// The states of an image.
const (
	// ImageImporting: its import job has not ended; it cannot be cloned.
	ImageImporting ImageState = "importing"
	// ImageActive: it is complete and can be cloned.
	ImageActive ImageState = "active"
)

// Image is a bootable disk in a pool from which volumes are cloned.
type Image struct {
	// Name is the qualified name: see Qualified.
	Name  string     `json:"name"`
	Pool  string     `json:"pool"`
	State ImageState `json:"state"`
	// Size is the virtual size of the disk.
	Size Bytes `json:"size"`
	// Source is the path that it was imported from, and Format the format that qemu-img detected
	// there.
	Source string `json:"source"`
	Format string `json:"format"`
	// SHA256 is the hexadecimal digest of the imported file. It is empty if it was not computed:
	// for a file that was read in place and whose digest the request did not give.
	SHA256 string `json:"sha256"`
	// Firmware is what starts an instance with this root disk; empty if not known.
	Firmware Firmware `json:"firmware,omitempty"`
	// Node is the node whose worker made it. Unless the pool is shared, only that node has it.
	Node    string    `json:"node,omitempty"`
	Created time.Time `json:"created"`
	// Published says which other projects may use it. It is only shown to its own project and to admins
	// of the installation.
	Published *Publication `json:"published,omitempty"`
}

// Profile is what instances are made from.
type Profile struct {
	// ID numbers the profiles, from 1. It is never reused.
	ID     int64  `json:"id,omitzero"`
	Name   string `json:"name"`
	Image  string `json:"image"`
	VCPUs  int    `json:"vcpus"`
	Memory Bytes  `json:"memory"`
	// DiskSize is the size of the root disk; zero means the size of the image.
	DiskSize Bytes `json:"disk_size"`
	// Network is the network of its only NIC, or of the one before those of NetworkTemplate.
	Network string `json:"network"`
	// NICs are all NICs, in place of Network and NetworkTemplate. Only a request gives one a MAC address or an address of its own.
	NICs []NICRequest `json:"nics,omitempty"`
	// SecurityGroups are the groups of NICs that have none of their own, in the project of the instance, unless its request has others.
	SecurityGroups []string `json:"security_groups,omitempty"`
	// BandwidthIn and BandwidthOut are the rates of NICs that have none of their own; 0 means no limit.
	BandwidthIn  BitRate  `json:"bandwidth_in,omitempty"`
	BandwidthOut BitRate  `json:"bandwidth_out,omitempty"`
	SSHKeys      []string `json:"ssh_keys"`
	// UserData is served byte for byte or, with Ready report, as the first part of a multipart
	// document.
	UserData []byte `json:"user_data"`
	// VendorData is served together with that of the installation. With VendorDataInUserData, both
	// become further parts of the user-data, since the EC2 datasource does not read vendor-data.
	VendorData           []byte            `json:"vendor_data"`
	VendorDataInUserData bool              `json:"vendor_data_in_user_data"`
	Datasource           Datasource        `json:"datasource,omitempty"`
	Metadata             MetadataOptions   `json:"metadata"`
	Tags                 map[string]string `json:"tags"`
	Ready                Ready             `json:"ready,omitempty"`
	// Params are the parameters that a request may set. Nil allows whatever a template reads; an
	// empty list allows none.
	Params []Param `json:"params,omitzero"`
	// Expressions are texts with expressions that replace fields, by the names of the fields:
	// image, vcpus, memory, disk, network and the names of the fields below.
	Expressions map[string]string `json:"expressions,omitempty"`
	// System, NetworkTemplate and Storage are templates. The fields of the profile take precedence:
	// Image and DiskSize make the first disk, Network the first NIC, and a zero or empty field
	// means the value of the template.
	System          string `json:"system_template,omitempty"`
	NetworkTemplate string `json:"network_template,omitempty"`
	Storage         string `json:"storage_template,omitempty"`
	// Document is a user-data document that is served instead of UserData.
	Document string `json:"userdata_document,omitempty"`
	// OVA is an OVA image whose disks come before those of Storage.
	OVA string `json:"ova,omitempty"`
	// Script makes the disks. It is skipped if it is the default script of an OVA's profile, whose
	// disks are clones, or if its options say that it is only run if needed.
	Script string `json:"script,omitempty"`
	// Arguments are the arguments of the script, each as key=value. With Params, they may hold
	// expressions.
	Arguments []string `json:"arguments,omitempty"`
	// BootFrom is BootNetwork, BootCDROM, or BootDisk, which empty means as well.
	BootFrom string `json:"boot_from,omitempty"`
	// PlacementGroup is the placement group of its instances, in the project of each, unless the request has another.
	PlacementGroup string `json:"placement_group,omitempty"`
	// Follow, Protected and Hold are for the instances made from the profile. Hold defines them
	// without starting them.
	Follow    Follow `json:"userdata,omitempty"`
	Protected bool   `json:"protected"`
	Hold      bool   `json:"hold"`
	// OnFailure says what happens to a create job that fails, unless its request says otherwise.
	OnFailure OnFailure `json:"on_failure,omitzero"`
	// Revision, Created and Changed are set by the server, as ID is; a request does not have them.
	Revision int64     `json:"revision,omitzero"`
	Created  time.Time `json:"created,omitzero"`
	Changed  time.Time `json:"changed,omitzero"`
	// Published says which other projects may use it, as a whole: its parts need not be published. It is
	// only shown to its own project and to admins of the installation.
	Published *Publication `json:"published,omitempty"`
}

// Explicit returns the profile of another project than the default one with the names of what it uses in
// the form of [Explicit], so that a request with them means the same objects. Networks keep their names,
// which are unique.
func (p Profile) Explicit() Profile {
	if ProjectOf(p.Name) == DefaultProject {
		return p
	}
	for _, name := range []*string{&p.Image, &p.System, &p.NetworkTemplate, &p.Storage, &p.Document, &p.Script, &p.OVA} {
		if *name != "" {
			*name = Explicit(*name)
		}
	}
	return p
}

// NewScripted returns a profile with a script and the defaults that guests and clients of PVC
// expect: instance-id is the UUID, missing user-data is an empty document, the user-data follows
// the profile, and a create job ends once the domain is started.
func NewScripted(name, script string) Profile {
	return Profile{
		Name: name, Script: script, SSHKeys: []string{}, UserData: []byte{}, Tags: map[string]string{}, Ready: ReadyStarted, Follow: FollowLive,
		Datasource: DatasourceEC2, Metadata: MetadataOptions{InstanceID: InstanceIDUUID},
	}
}

// ImageRemoving is the state of an image whose removal was accepted. Nothing new is made from it.
const ImageRemoving ImageState = "removing"

// ImageRemoval is the input of a job that removes an image.
type ImageRemoval struct {
	// Import is the job that made the image. An image that is tagged with another job stays.
	Import JobID `json:"import"`
	// Was is the state of the image before the removal.
	Was ImageState `json:"was"`
}
