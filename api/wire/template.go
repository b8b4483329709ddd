package wire

import (
	"fmt"
	"hash/crc32"
	"time"

	"seedbed"
)

// Stored is what the server records of an object that a profile can name. Revision grows by one
// with each change.
type Stored struct {
	// ID numbers the objects of one kind in the installation. It is only shown in the default project, because
	// others would learn from it how many there are.
	ID       int64     `json:"id,omitzero"`
	Revision int64     `json:"revision"`
	Created  time.Time `json:"created"`
	Changed  time.Time `json:"changed"`
	// Published says which other projects may use it. It is only shown to its own project and to admins
	// of the installation.
	Published *seedbed.Publication `json:"published,omitempty"`
}

// Tag returns the entity tag of a profile, or of what a profile can name: of this revision, of the object that was
// made at that time, with this publication. Who may not learn the publication has another tag.
func Tag(revision int64, created time.Time, to *seedbed.Publication) string {
	if to == nil || !to.All && len(to.Projects) == 0 {
		return fmt.Sprintf(`"%d-%d"`, revision, created.UnixMicro())
	}
	return fmt.Sprintf(`"%d-%d-%08x"`, revision, created.UnixMicro(), crc32.ChecksumIEEE([]byte(to.String())))
}

// SystemTemplate is the virtual hardware of an instance. OVA is the OVA image that it came with, or
// empty. A seedbed.CatalogueSystem is its request.
type SystemTemplate struct {
	seedbed.CatalogueSystem
	OVA string `json:"ova,omitempty"`
	Stored
}

// NetworkTemplateRequest creates a network template without networks. If MAC is empty, the MAC
// addresses are random.
type NetworkTemplateRequest struct {
	Name string              `json:"name"`
	MAC  seedbed.MACTemplate `json:"mac_template,omitempty"`
}

// NetworkTemplate is the NICs of an instance.
type NetworkTemplate struct {
	seedbed.CatalogueNetwork
	Stored
}

// TemplateNetworkRequest adds a NIC to a network template. VNI is the name of a network. A second
// NIC in the same network needs PermitDuplicate.
type TemplateNetworkRequest struct {
	VNI             string `json:"vni"`
	PermitDuplicate bool   `json:"permit_duplicate,omitempty"`
}

// StorageTemplateRequest creates a storage template without disks. A seedbed.CatalogueDisk is the
// request for a disk.
type StorageTemplateRequest struct {
	Name string `json:"name"`
}

// StorageTemplate is the disks of an instance.
type StorageTemplate struct {
	seedbed.CatalogueStorage
	Stored
}

// UserDataRequest creates a user-data document or replaces its content. A replacement may leave out
// the name.
type UserDataRequest struct {
	Name string `json:"name,omitempty"`
	Data string `json:"data"`
}

// UserData is user-data that profiles share.
type UserData struct {
	Name string `json:"name"`
	Data string `json:"data"`
	Stored
}

// ScriptRequest creates a provisioning script or replaces its text. A replacement may leave out the
// name.
type ScriptRequest struct {
	Name string `json:"name,omitempty"`
	Text string `json:"text"`
}

// Script is a provisioning script.
type Script struct {
	Name    string        `json:"name"`
	Text    string        `json:"text"`
	Options ScriptOptions `json:"options"`
	Stored
}

// ScriptOptions holds the privilege and the limits of a provisioning script, and when it runs; see
// seedbed.ScriptOptions. Time is a text such as "30m0s". An empty Time or a zero Memory is the
// worker's limit.
type ScriptOptions struct {
	Privileged bool          `json:"privileged"`
	Network    bool          `json:"network"`
	Always     bool          `json:"always"`
	IfNeeded   bool          `json:"if_needed"`
	Time       string        `json:"time,omitempty"`
	Memory     seedbed.Bytes `json:"memory,omitzero"`
}

// ScriptOptionsChange changes the options of a script. Nil fields change nothing. Time is a text
// such as "30m", or "0s" for the worker's limit. To make a script privileged, SHA256 must be the
// digest of its text, in hexadecimal: who grants that has read a text, and another may have taken its
// place.
type ScriptOptionsChange struct {
	Privileged *bool          `json:"privileged,omitempty"`
	SHA256     string         `json:"sha256,omitempty"`
	Network    *bool          `json:"network,omitempty"`
	Always     *bool          `json:"always,omitempty"`
	IfNeeded   *bool          `json:"if_needed,omitempty"`
	Time       *string        `json:"time,omitempty"`
	Memory     *seedbed.Bytes `json:"memory,omitempty"`
}

// OVA is an OVA image. Its volumes are its disks, in the order of the appliance's hardware.
type OVA struct {
	Name    string              `json:"name"`
	Volumes []seedbed.OVAVolume `json:"volumes"`
	Stored
}
