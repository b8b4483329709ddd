package seedbed

import "fmt"

// Follow says what becomes of an instance's user-data when its profile, or the
// document that this names, is changed.
type Follow string

// The ways to follow.
const (
	FollowLive   Follow = "live"   // it is made anew, and served
	FollowPinned Follow = "pinned" // it stays as it was when the instance was made
)

// ParseFollow reads a way to follow; the empty string is otherwise.
func ParseFollow(s string, otherwise Follow) (Follow, error) {
	switch f := Follow(s); f {
	case "":
		return otherwise, nil
	case FollowLive, FollowPinned:
		return f, nil
	}
	return "", Errorf(ErrInvalid, "userdata %q is unknown: want live or pinned", Clip(s))
}

// Parts are what a profile names, as of one moment; nil is none.
type Parts struct {
	System   *SystemTemplate
	Network  *NetworkTemplate
	Storage  *StorageTemplate
	UserData *UserDataDocument
	OVA      *OVA
	Script   *Script
}

// PartNames name Parts; empty is none.
type PartNames struct{ System, Network, Storage, UserData, OVA, Script string }

// Source names what an instance's user-data was made from: the revision of its
// profile, and that of the document that the profile names (0 for none).
func Source(profile, document int64) string { return fmt.Sprintf("%d.%d", profile, document) }

// LiveDocument is an instance whose user-data is to be made anew.
type LiveDocument struct {
	Instance InstanceID
	// Source is what its user-data was made from, and Want what it is to be made from.
	Source, Want string
}

// System is what an instance has of its system template besides its size.
type System struct {
	// Serial and VNC ask for a serial console and a screen; VNCBind is the address of the latter.
	Serial  bool   `json:"serial"`
	VNC     bool   `json:"vnc"`
	VNCBind string `json:"vnc_bind,omitempty"`
	// NodeLimit are the nodes that may run it (empty is all), and NodeSelector
	// is how one of them is chosen; empty is the installation's way.
	NodeLimit    []string `json:"node_limit,omitempty"`
	NodeSelector string   `json:"node_selector,omitempty"`
	// Autostart has it start with its node.
	Autostart bool `json:"autostart"`
	// MigrationMethod is none, live or shutdown, or empty for the installation's
	// way; MigrationMaxDowntime is in milliseconds, 0 for the hypervisor's.
	MigrationMethod      string `json:"migration_method,omitempty"`
	MigrationMaxDowntime int64  `json:"migration_max_downtime,omitempty"`
	// DiskBus is where its disks are, BusVirtio or BusSCSI, and empty as the former.
	DiskBus string `json:"disk_bus,omitempty"`
	// DiskCopy has its disks copied whole from their images, where they would be clones.
	DiskCopy bool `json:"disk_copy,omitempty"`
}

// The buses of disks: each a device of its own (virtio-blk), or all on one controller (virtio-scsi).
const (
	BusVirtio = "virtio"
	BusSCSI   = "scsi"
)

// Disk is the name of the nth disk in the guest (Linux, virtblk_name_format and
// sd_format_disk_name): vda or sda, and so on to vdz, vdaa.
func (s System) Disk(n int) string {
	name, prefix := "", "vd"
	for ; n >= 0; n = n/26 - 1 {
		name = string(rune('a'+n%26)) + name
	}
	if s.DiskBus == BusSCSI {
		prefix = "sd"
	}
	return prefix + name
}

// SystemOf is what an instance has of a system template.
func SystemOf(t SystemTemplate) System {
	return System{
		Serial: t.Serial, VNC: t.VNC, VNCBind: t.VNCBind, NodeLimit: t.NodeLimit, NodeSelector: t.NodeSelector,
		Autostart: t.NodeAutostart, MigrationMethod: t.MigrationMethod, MigrationMaxDowntime: t.MigrationDowntime.Milliseconds(),
		DiskBus: t.DiskBus, DiskCopy: t.DiskCopy,
	}
}
