package seedbed

import (
	"strings"
	"time"
)

// Stored is what the database keeps of every object that a profile is
// composed of.
type Stored struct {
	// ID numbers the objects of one kind, from 1; it is never given again.
	ID int64
	// Revision grows by one with each change of the object or its parts.
	Revision         int64
	Created, Changed time.Time
}

// SystemTemplate is the virtual hardware of a machine (PVC's system template).
type SystemTemplate struct {
	Stored
	Name   string
	VCPUs  int
	Memory Bytes
	// Serial and VNC ask for a serial console and a screen; VNCBind is the address of the latter.
	Serial, VNC bool
	VNCBind     string
	// NodeLimit are the nodes that may run it; empty is all.
	NodeLimit []string
	// NodeSelector is how one of them is chosen: mem, memprov, vcpus, vms or load; empty is the installation's way.
	NodeSelector string
	// NodeAutostart, MigrationMethod (none, live or shutdown; may be empty) and
	// MigrationDowntime say how it follows its node.
	NodeAutostart     bool
	MigrationMethod   string
	MigrationDowntime time.Duration
	// DiskBus is where its disks are, BusVirtio or BusSCSI, and empty as the former; DiskCopy has
	// them copied whole from their images, where they would be clones.
	DiskBus  string
	DiskCopy bool
	// OVA is the name of the OVA image that it came with, and OVAID its number; else empty and 0.
	OVA   string
	OVAID int64
}

// NetworkTemplate is a machine's NICs (PVC's network template).
type NetworkTemplate struct {
	Stored
	Name string
	// MAC is what the MAC addresses are made by; empty draws them.
	MAC MACTemplate
	// Networks are what the NICs are on, in their order.
	Networks []TemplateNetwork
}

// TemplateNetwork is one NIC of a network template.
type TemplateNetwork struct {
	ID int64
	// Template is the ID of the network template.
	Template int64
	// VNI is the name of a network.
	VNI string
}

// StorageTemplate is a machine's disks (PVC's storage template).
type StorageTemplate struct {
	Stored
	Name string
	// Disks are in the order of their names, which is the machine's; the first is its root disk.
	Disks []TemplateDisk
}

// TemplateDisk is one disk of a storage template: a clone of an image, or blank.
type TemplateDisk struct {
	ID int64
	// Template is the ID of the storage template.
	Template int64
	// Name is the disk's, such as "sda"; Pool is where it is.
	Name, Pool string
	// Source is the image of the same pool that it is a clone of; empty makes it blank.
	Source string
	// Size is that of a blank disk; 0 for a clone, which has the image's.
	Size Bytes
	// Filesystem is what a blank disk is to be formatted as, with the arguments
	// of mkfs, and Mountpoint where a script finds it; empty for neither.
	Filesystem     string
	FilesystemArgs []string
	Mountpoint     string
}

// Empty is the name of the user-data document and of the script that are always
// there, and hold nothing.
const Empty = "empty"

// UserDataDocument is user-data that profiles share, served byte for byte.
type UserDataDocument struct {
	Stored
	Name string
	Data string
}

// Script is a provisioning script.
type Script struct {
	Stored
	Name    string
	Text    string
	Options ScriptOptions
}

// ScriptedSpec is the input of a create job whose instance was made from a profile with a script.
type ScriptedSpec struct {
	Profile string `json:"profile"`
	// Revision is the profile's that it was made from.
	Revision int64 `json:"revision"`
	// Start tells whether the instance is started once it is defined.
	Start bool `json:"start"`
	// Scripted tells whether the profile's script makes it.
	Scripted bool `json:"scripted,omitempty"`
	// Undefined tells whether only its disks are made.
	Undefined bool `json:"undefined,omitempty"`
}

// NameMatch tells which names of a list are wanted. The zero value is all.
type NameMatch struct {
	// Text is in the name: at its start if Start, at its end if End.
	Text       string
	Start, End bool
}

// ExactName matches that name alone.
func ExactName(name string) NameMatch { return NameMatch{Text: name, Start: true, End: true} }

// ParseNameMatch reads a pattern as PVC takes it: text that is anywhere in the
// name, at its start after '^', and at its end before '$'.
func ParseNameMatch(s string) NameMatch {
	var m NameMatch
	m.Text, m.Start = strings.CutPrefix(s, "^")
	m.Text, m.End = strings.CutSuffix(m.Text, "$")
	return m
}
