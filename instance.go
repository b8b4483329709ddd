package seedbed

import (
	"net/netip"
	"time"
)

// InstanceState is where an instance is in its life.
type InstanceState string

// The states of an instance. Only a job or the cleanup changes them.
const (
	// InstanceProvisioning: its create job has not ended.
	InstanceProvisioning InstanceState = "provisioning"
	// InstanceRunning: its domain was started, and is not known to have stopped.
	InstanceRunning InstanceState = "running"
	// InstanceStopped: its domain is defined and off.
	InstanceStopped InstanceState = "stopped"
	// InstanceRemoving: its remove job has not ended.
	InstanceRemoving InstanceState = "removing"
	// InstanceGone: its domain vanished from libvirt and the cleanup took its
	// addresses back; its volumes are untouched until it is removed.
	InstanceGone InstanceState = "gone"
	// InstanceFailed: its create or remove job failed and could not undo everything.
	InstanceFailed InstanceState = "failed"
)

// Ready is what ends an instance's create job.
type Ready string

// The policies of a profile.
const (
	// ReadyReport: cloud-init has phoned home at the end of its first boot.
	ReadyReport Ready = "report"
	// ReadyMetadata: the guest has fetched its user-data (or learned that it has none). The default.
	ReadyMetadata Ready = "metadata"
	// ReadyStarted: the domain was started.
	ReadyStarted Ready = "started"
)

// ParseReady reads a policy; the empty string is ReadyMetadata.
func ParseReady(s string) (Ready, error) {
	switch r := Ready(s); r {
	case "":
		return ReadyMetadata, nil
	case ReadyReport, ReadyMetadata, ReadyStarted:
		return r, nil
	}
	return "", Errorf(ErrInvalid, "ready %q is unknown: want report, metadata or started", Clip(s))
}

// Instance is one virtual machine and what it was made from.
type Instance struct {
	ID      InstanceID    `json:"id"`
	Name    string        `json:"name"`
	Profile string        `json:"profile"`
	Image   string        `json:"image"`
	Node    string        `json:"node"`
	State   InstanceState `json:"state"`
	VCPUs   int           `json:"vcpus"`
	Memory  Bytes         `json:"memory"`
	Ready   Ready         `json:"ready"`
	// Held is true while the operator wants it defined but not started; the cleanup leaves it alone.
	Held bool `json:"held"`
	// Protected is true while removing and rebuilding it takes its name once more; the cleanup leaves it alone.
	Protected bool `json:"protected"`
	// Follow says whether its user-data follows the profile's, and Source what it was made from.
	Follow Follow `json:"userdata"`
	Source string `json:"-"`
	// Params are what its templates read: strings, int64 and bools. They may be secret.
	Params map[string]any `json:"-"`
	// System is what it has of a system template.
	System System `json:"system"`
	// Token is the name of the token by which it was made; empty for any other way.
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
	// Password is what the guest posted (OpenStack password), encrypted with its public key.
	Password string `json:"password,omitempty"`
	// ReportToken is the secret last element of the phone-home path; empty unless Ready is report.
	ReportToken string   `json:"-"`
	NICs        []NIC    `json:"nics"`
	Volumes     []Volume `json:"volumes"`
	// Revision grows by one with each change of the row.
	Revision int64     `json:"revision"`
	Created  time.Time `json:"created"`
	Changed  time.Time `json:"changed"`
	// Fetched is when the guest first asked for its user-data; zero before.
	Fetched time.Time `json:"fetched,omitzero"`
	// Reported is when the guest phoned home; zero before.
	Reported time.Time `json:"reported,omitzero"`
	// GoneSince is when the cleanup first missed its domain; zero while it is there.
	GoneSince time.Time `json:"gone_since,omitzero"`
}

// NIC is one network interface of an instance.
type NIC struct {
	ID      NICID      `json:"id"`
	Index   int        `json:"index"`
	MAC     MAC        `json:"mac"`
	Network string     `json:"network"`
	Addr    netip.Addr `json:"addr"`
}

// Volume is one disk of an instance.
type Volume struct {
	// Name is unique in its pool: the instance's UUID and the disk's index, and
	// for a disk of a rebuild the start of that job's ID.
	Name  string `json:"name"`
	Pool  string `json:"pool"`
	Index int    `json:"index"`
	Size  Bytes  `json:"size"`
	// Image is the image that it is a clone of; empty for a blank disk.
	Image string `json:"image,omitempty"`
}

// ImageState is where an image is in its life.
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
	Name  string     `json:"name"`
	Pool  string     `json:"pool"`
	State ImageState `json:"state"`
	// Size is the virtual size of the disk.
	Size Bytes `json:"size"`
	// Source is the path that it was imported from, and Format what qemu-img found there.
	Source string `json:"source"`
	Format string `json:"format"`
	// SHA256 is the hexadecimal digest of the imported file, empty where it was not
	// found: of a file that is read where it is, and that nobody said the digest of.
	SHA256 string `json:"sha256"`
	// Firmware is what a machine with this root disk is to be started by; empty where nobody said.
	Firmware Firmware `json:"firmware,omitempty"`
	// Node is whose worker made it: the only one that has it, unless the pool is shared.
	Node    string    `json:"node,omitempty"`
	Created time.Time `json:"created"`
}

// Profile is what instances are made from.
type Profile struct {
	// ID numbers the profiles, from 1; it is never given again.
	ID     int64  `json:"-"`
	Name   string `json:"name"`
	Image  string `json:"image"`
	VCPUs  int    `json:"vcpus"`
	Memory Bytes  `json:"memory"`
	// DiskSize is the size of the root disk; zero means the image's own.
	DiskSize Bytes    `json:"disk_size"`
	Network  string   `json:"network"`
	SSHKeys  []string `json:"ssh_keys"`
	// UserData is served byte for byte, or, with Ready report, as the first part of a multipart document.
	UserData []byte `json:"user_data"`
	// VendorData is served beside that of the installation. With VendorDataInUserData,
	// both become further parts of the user-data: EC2's datasource reads no vendor-data.
	VendorData           []byte            `json:"vendor_data"`
	VendorDataInUserData bool              `json:"vendor_data_in_user_data"`
	Datasource           Datasource        `json:"datasource,omitempty"`
	Metadata             MetadataOptions   `json:"metadata"`
	Tags                 map[string]string `json:"tags"`
	Ready                Ready             `json:"ready,omitempty"`
	// Params are what a request may say besides. Nil lets it say whatever a template reads;
	// an empty list, nothing.
	Params []Param `json:"params,omitzero"`
	// Expressions are text with expressions in place of fields, by the fields' names:
	// image, vcpus, memory, disk, network and the names that follow.
	Expressions map[string]string `json:"expressions,omitempty"`
	// System, NetworkTemplate and Storage are templates. What the profile says
	// itself counts before them: Image and DiskSize make its first disk, Network its
	// first NIC, and what is zero or empty is the template's.
	System          string `json:"system_template,omitempty"`
	NetworkTemplate string `json:"network_template,omitempty"`
	Storage         string `json:"storage_template,omitempty"`
	// Document is a userdata document that is served in place of UserData.
	Document string `json:"userdata_document,omitempty"`
	// OVA is an OVA image whose disks come before those of Storage.
	OVA string `json:"ova,omitempty"`
	// Script makes the disks where a blank disk is to be formatted or mounted; it is
	// skipped where none is, unless it always runs.
	Script string `json:"script,omitempty"`
	// Arguments are the script's, each as key=value. With Params, they may hold expressions.
	Arguments []string `json:"arguments,omitempty"`
	// Follow, Protected and Hold are for the instances that are made from it;
	// Hold has them defined and not started.
	Follow    Follow `json:"userdata,omitempty"`
	Protected bool   `json:"protected"`
	Hold      bool   `json:"hold"`
	// OnFailure is what becomes of a create job that fails, unless its request says otherwise.
	OnFailure OnFailure `json:"on_failure,omitzero"`
	// Revision, Created and Changed are set by the server: a request does not have them.
	Revision int64     `json:"revision,omitzero"`
	Created  time.Time `json:"created,omitzero"`
	Changed  time.Time `json:"changed,omitzero"`
}

// NewScripted is a profile with a script that has what a guest and a client of PVC's
// expect: the guest finds its UUID, and an empty document where there is none, its
// user-data follows the profile, and a create job ends once the domain is started.
func NewScripted(name, script string) Profile {
	return Profile{
		Name: name, Script: script, SSHKeys: []string{}, UserData: []byte{}, Tags: map[string]string{}, Ready: ReadyStarted, Follow: FollowLive,
		Datasource: DatasourceEC2, Metadata: MetadataOptions{InstanceID: InstanceIDUUID},
	}
}

// Network is one bridge that Seedbed manages: its addresses, DHCP and NAT.
type Network struct {
	Name string `json:"name"`
	// Bridge is the interface name, at most 15 characters.
	Bridge string `json:"bridge"`
	// MAC is the bridge's own address, drawn once and kept.
	MAC MAC `json:"mac"`
	// Prefix is the guests' subnet; Gateway is the bridge's address in it.
	Prefix  netip.Prefix `json:"prefix"`
	Gateway netip.Addr   `json:"gateway"`
	// DNS are the resolvers that DHCP hands out.
	DNS  []netip.Addr `json:"dns"`
	NAT  bool         `json:"nat"`
	DHCP bool         `json:"dhcp"`
	// Identity is how callers are told apart: "tap" (the default; only a NIC of
	// ours on this host, by its mark) or "mac" (also what no rule of ours saw, by
	// its MAC in the neighbour table: for guests whose tap is not ours).
	Identity string `json:"identity,omitempty"`
	// Allow are the protections that this network goes without.
	Allow Allowance `json:"allow,omitzero"`
}

// The values of Network.Identity.
const (
	IdentityTap = "tap"
	IdentityMAC = "mac"
)

// Allowance names what guests are kept from unless their network allows it.
type Allowance struct {
	// Addresses: sending from IP addresses, and answering ARP and ND for addresses, that are not the guest's (routers).
	Addresses bool `json:"addresses,omitempty"`
	// DHCPServer: answering DHCP and DHCPv6.
	DHCPServer bool `json:"dhcp_server,omitempty"`
	// RouterAdvertisements: sending router advertisements and redirects.
	RouterAdvertisements bool `json:"router_advertisements,omitempty"`
	// MetadataAddresses: claiming 169.254.169.254, fd00:ec2::254 or fe80::a9fe:a9fe by ARP or ND.
	MetadataAddresses bool `json:"metadata_addresses,omitempty"`
}
