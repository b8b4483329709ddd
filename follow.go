package seedbed

import (
	"context"
	"fmt"
)

// Follow says what happens to the user-data of an instance when its profile, or the user-data
// document that the profile names, changes.
type Follow string

// The values of Follow.
const (
	FollowLive   Follow = "live"   // it is made and served again
	FollowPinned Follow = "pinned" // it stays as it was when the instance was made
)

// ParseFollow parses a Follow; the empty string is otherwise. Any other text is ErrInvalid.
func ParseFollow(s string, otherwise Follow) (Follow, error) {
	switch f := Follow(s); f {
	case "":
		return otherwise, nil
	case FollowLive, FollowPinned:
		return f, nil
	}
	return "", Errorf(ErrInvalid, "userdata %q is unknown: expected live or pinned", Clip(s))
}

// PartReader reads the objects that profiles name.
type PartReader interface {
	// Parts returns what names refers to, as of one moment; ErrInvalid for a name that does not
	// exist.
	Parts(ctx context.Context, profile string, names PartNames) (Parts, error)
}

// Parts are the objects that a profile names, as of one moment. Nil means that it names none.
type Parts struct {
	System   *SystemTemplate
	Network  *NetworkTemplate
	Storage  *StorageTemplate
	UserData *UserDataDocument
	OVA      *OVA
	Script   *Script
}

// PartNames are the names of Parts; empty means none.
type PartNames struct{ System, Network, Storage, UserData, OVA, Script string }

// Source returns the text that identifies what the user-data of an instance was made from: the
// revision of the profile, and that of the document that it names (0 for none).
func Source(profile, document int64) string { return fmt.Sprintf("%d.%d", profile, document) }

// LiveDocument is an instance whose user-data must be made again.
type LiveDocument struct {
	Instance InstanceID
	// Source is what the user-data was made from, and Want what it must be made from.
	Source, Want string
}

// System is what an instance has from its system template, except its size, and what it boots from.
type System struct {
	// Serial and VNC ask for a serial console and a screen; VNCBind is the address of the latter.
	Serial  bool   `json:"serial"`
	VNC     bool   `json:"vnc"`
	VNCBind string `json:"vnc_bind,omitempty"`
	// NodeLimit are the nodes that may run it (empty means all). NodeSelector says how one of them
	// is chosen; empty means the installation's selector.
	NodeLimit    []string `json:"node_limit,omitempty"`
	NodeSelector string   `json:"node_selector,omitempty"`
	// Autostart starts it with its node.
	Autostart bool `json:"autostart"`
	// MigrationMethod is none, live or shutdown, or empty for the installation's method.
	// MigrationMaxDowntime is in milliseconds; 0 means the hypervisor's default.
	MigrationMethod      string `json:"migration_method,omitempty"`
	MigrationMaxDowntime int64  `json:"migration_max_downtime,omitempty"`
	// DiskBus is the bus of its disks, BusVirtio or BusSCSI; empty means BusVirtio.
	DiskBus string `json:"disk_bus,omitempty"`
	// DiskCopy makes its disks full copies of their images instead of clones.
	DiskCopy bool `json:"disk_copy,omitempty"`
	// BootFrom is BootNetwork if its firmware boots from the network of NIC 0 before its first disk; empty means from the disk alone. It is
	// what the profile or the request says, not a system template.
	BootFrom string `json:"boot_from,omitempty"`
}

// What the firmware of an instance boots from: its first disk, or before that the network of NIC 0.
const (
	BootDisk    = "disk"
	BootNetwork = "network"
)

// CheckBootFrom returns ErrInvalid unless s is BootDisk, BootNetwork or empty.
func CheckBootFrom(s string) error {
	if s != "" && s != BootDisk && s != BootNetwork {
		return Errorf(ErrInvalid, "boot_from %q is unknown: expected %s or %s", Clip(s), BootDisk, BootNetwork)
	}
	return nil
}

// The buses of disks: each a device of its own (virtio-blk), or all on one controller
// (virtio-scsi).
const (
	BusVirtio = "virtio"
	BusSCSI   = "scsi"
)

// Disk returns the name of disk n, from 0, in a Linux guest (virtblk_name_format and
// sd_format_disk_name): vda or sda, up to vdz, then vdaa.
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

// SystemOf returns what an instance has from a system template.
func SystemOf(t SystemTemplate) System {
	return System{
		Serial: t.Serial, VNC: t.VNC, VNCBind: t.VNCBind, NodeLimit: t.NodeLimit, NodeSelector: t.NodeSelector,
		Autostart: t.NodeAutostart, MigrationMethod: t.MigrationMethod, MigrationMaxDowntime: t.MigrationDowntime.Milliseconds(),
		DiskBus: t.DiskBus, DiskCopy: t.DiskCopy,
	}
}
