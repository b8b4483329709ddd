package seedbed

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
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
	// BootFrom is BootNetwork or BootCDROM if its firmware tries the network of NIC 0, or the CD-ROM drive, before the first disk; empty
	// means the disk alone. It is what the profile or the request says, not a system template.
	BootFrom string `json:"boot_from,omitempty"`
	// Restart is RestartAlways if the instance is started on another node once its own was fenced; empty means RestartNever. Those of the
	// highest Priority are started first. Both are what the request says.
	Restart  string `json:"restart,omitempty"`
	Priority int    `json:"restart_priority,omitempty"`
	// Firmware is what starts it, as its request or the backup that it was made of says; empty means that of its image.
	Firmware Firmware `json:"firmware,omitempty"`
	// TPM gives it a virtual TPM 2.0. Its state stays on its node, is migrated with a guest that runs, and is in no snapshot or backup.
	TPM bool `json:"tpm,omitempty"`
}

// What becomes of an instance whose node was fenced.
const (
	RestartNever  = "never"
	RestartAlways = "always"
)

// MaxPriority is the highest priority of an instance, and its negative the lowest.
const MaxPriority = 1000

// CheckRestart returns ErrInvalid unless restart is RestartNever, RestartAlways or empty, and priority within its bounds.
func CheckRestart(restart string, priority int) error {
	if restart != "" && restart != RestartNever && restart != RestartAlways {
		return Errorf(ErrInvalid, "restart %q is unknown: expected %s or %s", Clip(restart), RestartNever, RestartAlways)
	}
	if priority < -MaxPriority || priority > MaxPriority {
		return Errorf(ErrInvalid, "restart_priority is %d: expected %d to %d", priority, -MaxPriority, MaxPriority)
	}
	return nil
}

// Restarts returns restart as System.Restart has it: RestartNever is empty.
func Restarts(restart string) string {
	if restart == RestartNever {
		return ""
	}
	return restart
}

// What the firmware of an instance boots from: its first disk, or before that the network of NIC 0 or the CD-ROM drive.
const (
	BootDisk    = "disk"
	BootNetwork = "network"
	BootCDROM   = "cdrom"
)

// CheckBootFrom returns ErrInvalid unless s is BootDisk, BootNetwork, BootCDROM or empty.
func CheckBootFrom(s string) error {
	if s != "" && s != BootDisk && s != BootNetwork && s != BootCDROM {
		return Errorf(ErrInvalid, "boot_from %q is unknown: expected %s, %s or %s", Clip(s), BootDisk, BootNetwork, BootCDROM)
	}
	return nil
}

// BootsFrom returns boot_from as System.BootFrom has it: BootDisk is empty.
func BootsFrom(s string) string {
	if s == BootDisk {
		return ""
	}
	return s
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

// JobSet changes what an instance's domain is apart from its size, its disks and its NICs, or the ISO image in its CD-ROM drive.
const JobSet JobKind = "set"

// Hardware is what JobSet can change of an instance.
type Hardware struct {
	// CDROM is the ISO image in its CD-ROM drive; empty if that is empty or absent.
	CDROM string `json:"cdrom,omitempty"`
	// The rest is as in System.
	BootFrom  string `json:"boot_from,omitempty"`
	Serial    bool   `json:"serial"`
	VNC       bool   `json:"vnc"`
	VNCBind   string `json:"vnc_bind,omitempty"`
	Autostart bool   `json:"autostart"`
	Restart   string `json:"restart,omitempty"`
	Priority  int    `json:"restart_priority,omitempty"`
	// Group is as Instance.PlacementGroup.
	Group string `json:"placement_group,omitempty"`
}

// Hardware returns what JobSet can change of the instance.
func (i Instance) Hardware() Hardware {
	s := i.System
	return Hardware{CDROM: i.CDROM, BootFrom: s.BootFrom, Serial: s.Serial, VNC: s.VNC, VNCBind: s.VNCBind, Autostart: s.Autostart,
		Restart: s.Restart, Priority: s.Priority, Group: i.PlacementGroup}
}

// WithHardware returns the instance with that hardware.
func (i Instance) WithHardware(h Hardware) Instance {
	i.CDROM, i.System.BootFrom, i.System.Serial, i.System.VNC, i.System.VNCBind, i.System.Autostart =
		h.CDROM, h.BootFrom, h.Serial, h.VNC, h.VNCBind, h.Autostart
	i.System.Restart, i.System.Priority, i.PlacementGroup = h.Restart, h.Priority, h.Group
	return i
}

// HardwareChange asks for a change of an instance's Hardware. Nil leaves something as it is.
type HardwareChange struct {
	// CDROM is an image in the format ISO; empty ejects the one that is in the drive.
	CDROM     *string `json:"cdrom,omitempty"`
	BootFrom  *string `json:"boot_from,omitempty"`
	Serial    *bool   `json:"serial,omitempty"`
	VNC       *bool   `json:"vnc,omitempty"`
	VNCBind   *string `json:"vnc_bind,omitempty"`
	Autostart *bool   `json:"autostart,omitempty"`
	// Restart RestartAlways takes Autostart away: the node would start the guest again that was started on another one.
	Restart  *string `json:"restart,omitempty"`
	Priority *int    `json:"restart_priority,omitempty"`
	// Group is a placement group of the instance's project; empty takes it out of the one that it is in.
	Group *string `json:"placement_group,omitempty"`
	// Force opens the CD-ROM drive even if the guest has locked it.
	Force bool `json:"force,omitempty"`
}

// Of returns what the change makes of h, and the names of what it changes. It returns ErrInvalid for a wrong value, and if nothing would
// change.
func (c HardwareChange) Of(h Hardware) (to Hardware, changed []string, err error) {
	to = h
	if c.Force && c.CDROM == nil {
		return h, nil, Errorf(ErrInvalid, "force is only for a change of cdrom")
	}
	put(&to.CDROM, c.CDROM)
	put(&to.BootFrom, c.BootFrom)
	if err := CheckBootFrom(to.BootFrom); err != nil {
		return h, nil, err
	}
	to.BootFrom = BootsFrom(to.BootFrom)
	put(&to.Serial, c.Serial)
	put(&to.VNC, c.VNC)
	put(&to.VNCBind, c.VNCBind)
	put(&to.Autostart, c.Autostart)
	put(&to.Restart, c.Restart)
	put(&to.Priority, c.Priority)
	put(&to.Group, c.Group)
	if err := CheckRestart(to.Restart, to.Priority); err != nil {
		return h, nil, err
	}
	if to.Restart = Restarts(to.Restart); to.Restart == RestartAlways {
		if c.Autostart != nil && *c.Autostart {
			return h, nil, Errorf(ErrInvalid, "autostart has a node start the instance, also after it was started on another one by restart %s: "+
				"expected one of them", RestartAlways)
		}
		to.Autostart = false
	}
	if _, err := netip.ParseAddr(to.VNCBind); to.VNCBind != "" && err != nil {
		return h, nil, Errorf(ErrInvalid, "vnc_bind is %q: expected an IP address of the node, or none for its loopback", Clip(to.VNCBind))
	}
	if to.VNCBind != h.VNCBind && !to.VNC {
		return h, nil, Errorf(ErrInvalid, "vnc_bind is the address of a screen, and the instance has none: expected vnc true as well")
	}
	if changed = to.Differs(h); len(changed) == 0 {
		return h, nil, Errorf(ErrInvalid, "the instance has that already: expected a change of %s", strings.Join(HardwareFields(), ", "))
	}
	return to, changed, nil
}

// CheckHardware returns ErrInvalid for hardware that the instance cannot have.
func (i Instance) CheckHardware(h Hardware) error {
	if h.BootFrom == BootNetwork && NICAt(i.NICs, 0) < 0 {
		return Errorf(ErrInvalid, "boot_from is network, and instance %q has no NIC 0: expected disk or cdrom", i.Name)
	}
	return nil
}

func put[T any](to *T, value *T) {
	if value != nil {
		*to = *value
	}
}

// HardwareFields returns the names of what JobSet can change.
func HardwareFields() []string {
	return []string{"cdrom", "boot_from", "serial", "vnc", "vnc_bind", "autostart", "restart", "restart_priority", "placement_group"}
}

// Differs returns the names of what h and other do not have in common.
func (h Hardware) Differs(other Hardware) (names []string) {
	for n, differs := range []bool{h.CDROM != other.CDROM, h.BootFrom != other.BootFrom, h.Serial != other.Serial, h.VNC != other.VNC,
		h.VNCBind != other.VNCBind, h.Autostart != other.Autostart,
		h.Restart != other.Restart, h.Priority != other.Priority, h.Group != other.Group} {
		if differs {
			names = append(names, HardwareFields()[n])
		}
	}
	return names
}

// HardwareJob is the input of a JobSet.
type HardwareJob struct {
	// Set is what was asked for. Was and To are what the instance had and what it gets, and Changed names what differs; the store sets
	// these when the job is accepted.
	Set     HardwareChange `json:"set"`
	Was     *Hardware      `json:"was,omitempty"`
	To      *Hardware      `json:"to,omitempty"`
	Changed []string       `json:"changed,omitempty"`
}

// JobRename gives an instance that is off another name. Its ID, and what is named by that, stays.
const JobRename JobKind = "rename"

// RenameJob is the input of a JobRename.
type RenameJob struct {
	From string `json:"from"` // the store sets it
	To   string `json:"to"`
}

// CheckRename returns an error if the instance cannot get another name: ErrInvalid for an unusable name or the one that it has, ErrConflict
// unless it is stopped.
func (i Instance) CheckRename(to string) error {
	if err := CheckInstanceName(to); err != nil {
		return err
	}
	switch {
	case to == i.Name:
		return Errorf(ErrInvalid, "instance %q has that name already: expected another one", i.Name)
	case i.State != InstanceStopped:
		return Errorf(ErrConflict, "instance %q is %s: it can be renamed while it is stopped (seedbed vm stop)", i.Name, i.State)
	}
	return nil
}

// FormatISO is the format of images with an ISO 9660 file system, which CD-ROM drives take.
const FormatISO = "iso"

// CheckISO returns ErrInvalid unless the image can be in a CD-ROM drive.
func (i Image) CheckISO() error {
	switch {
	case i.State != ImageActive:
		return Errorf(ErrInvalid, "image %q is %s: wait for its import to end", i.Name, i.State)
	case i.Format != FormatISO:
		return Errorf(ErrInvalid, "image %q is in %s format, and not in a CD-ROM's: expected an image that was imported from an ISO",
			i.Name, i.Format)
	}
	return nil
}
