package seedbed

import (
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Call names the job on whose behalf an effect is requested. The worker refuses an epoch lower than
// the highest it has seen for the job. It ends a running call of a lower epoch before it starts one
// of a higher epoch.
type Call struct {
	Job   JobID  `json:"job"`
	Epoch int64  `json:"epoch"`
	Stage string `json:"stage"`
}

// VolumeSpec asks for a volume that is a clone of an image, or blank.
type VolumeSpec struct {
	Pool     string     `json:"pool"`
	Name     string     `json:"name"`
	Instance InstanceID `json:"instance"`
	// Project is the name of the instance's project.
	Project string `json:"project,omitempty"`
	// Image is an image of the same pool; empty makes a blank volume.
	Image string `json:"image,omitempty"`
	// Size is the virtual size, at least that of the image. Zero means the size of the image.
	Size Bytes `json:"size"`
}

// Disk says how a hypervisor reaches a volume.
type Disk struct {
	// Type is "file" (Source is a path) or "rbd" (Source is pool/image).
	Type   string `json:"type"`
	Source string `json:"source"`
	// Format is "qcow2" or "raw".
	Format string `json:"format"`
	// Backing is the qcow2 file of the image that a file is a clone of; empty for a file without
	// one. Clones share it, so a hypervisor must not change its owner.
	Backing string `json:"backing,omitempty"`
	// RBD says how to reach the cluster of a Disk of type rbd; else zero.
	RBD RBDSource `json:"rbd,omitzero"`
}

// RBDSource says how a hypervisor reaches a Ceph cluster. It does not contain the key, which the
// hypervisor stores under Secret.
type RBDSource struct {
	// Monitors are all monitors, as host:port, separated by commas.
	Monitors string `json:"monitors"`
	// User is the Ceph user, without "client.".
	User string `json:"user"`
	// Secret is the UUID of the hypervisor's secret that holds the user's key.
	Secret string `json:"secret"`
}

// VolumeInfo is a volume as its pool reports it.
type VolumeInfo struct {
	Pool     string     `json:"pool"`
	Name     string     `json:"name"`
	Instance InstanceID `json:"instance"`
	// Project is the project in its tag; empty if the tag is of a release without projects.
	Project string `json:"project,omitempty"`
	Job     JobID  `json:"job"`
	Size    Bytes  `json:"size"`
	Disk    Disk   `json:"disk"`
	// Restored is true for a volume that was restored from the trash. It does not belong to an
	// instance, and the cleanup must not remove it.
	Restored bool `json:"restored,omitempty"`
}

// ImageSpec asks for an image to be made from a file on the worker's host, from an uploaded file, or
// from a volume.
type ImageSpec struct {
	Pool string `json:"pool"`
	Name string `json:"name"`
	// Project is the name of the project whose job imports it.
	Project string `json:"project,omitempty"`
	// Path is the file; empty with Upload, the ID of a file that was uploaded to the pool.
	Path   string `json:"path,omitempty"`
	Upload string `json:"upload,omitempty"`
	// SHA256 is the digest that a file at Path must have. For an upload it is the digest that was
	// computed.
	SHA256 string `json:"sha256,omitempty"`
	// Member is the name of a disk's file in an OVA; empty means its only disk.
	Member string `json:"member,omitempty"`
	// Format is what the file must be; empty means any that can be imported.
	Format string `json:"format,omitempty"`
	// CopySource is the volume of the same pool that the image gets the content of; zero with a file.
	CopySource
}

// ImageInfo is an image as its pool reports it.
type ImageInfo struct {
	Pool string `json:"pool"`
	Name string `json:"name"`
	// Project is the project in its tag; empty if the tag is of a release without projects.
	Project string `json:"project,omitempty"`
	Job     JobID  `json:"job"`
	Size    Bytes  `json:"size"`
	Format  string `json:"format"`
	// SHA256 is the digest of the file; empty if it was not computed.
	SHA256 string `json:"sha256"`
	// Firmware is the firmware that the OVA of the disk states; else empty.
	Firmware Firmware `json:"firmware,omitempty"`
}

// PoolDir is the type of a pool that is a directory of qcow2 files.
const PoolDir = "dir"

// PoolInfo is the room in a pool.
type PoolInfo struct {
	Name string `json:"name"`
	Type string `json:"type"` // PoolDir or "ceph"
	Size Bytes  `json:"size"`
	Free Bytes  `json:"free"`
	// Shared is true if every node that has the pool sees the same volumes in it.
	Shared bool `json:"shared,omitempty"`
	// Problem is why the pool did not say what room it has; empty if it did.
	Problem string `json:"problem,omitempty"`
}

// DomainSpec asks for a libvirt domain.
type DomainSpec struct {
	ID      InstanceID  `json:"id"`
	Name    string      `json:"name"`
	VCPUs   int         `json:"vcpus"`
	Memory  Bytes       `json:"memory"`
	Disks   []Disk      `json:"disks"`
	NICs    []DomainNIC `json:"nics"`
	Profile string      `json:"profile"`
	// Attached are the volumes that are attached to it.
	Attached []AttachedDisk `json:"attached,omitempty"`
	// Project is the name of the instance's project.
	Project string `json:"project,omitempty"`
	Job     JobID  `json:"job"`
	// Datasource is what the SMBIOS values announce; empty means DatasourceEC2.
	Datasource Datasource `json:"datasource,omitempty"`
	// CDROM is true if its metadata is on its CD-ROM, which was made before. Its datasource is DatasourceNoCloud.
	CDROM bool `json:"cdrom,omitempty"`
	// Drive is its CD-ROM drive for ISO images; nil if it has none.
	Drive *CDROMDrive `json:"drive,omitempty"`
	// Firmware is what starts it; empty means the BIOS.
	Firmware Firmware `json:"firmware,omitempty"`
	// System is its further virtual hardware. Nil means that of an instance without a system
	// template.
	System *System `json:"system,omitempty"`
	// Script is the document that a script made for it. If it is nil, the driver makes one.
	Script *DomainScript `json:"script,omitempty"`
}

// CDROMDrive is the CD-ROM drive of a domain for ISO images, which its guest only reads.
type CDROMDrive struct {
	// Disk is the image in it; nil if it is empty.
	Disk *Disk `json:"disk,omitempty"`
}

// DomainChange says what is to change of a domain. Nil leaves something as it is.
type DomainChange struct {
	ID InstanceID `json:"id"`
	// Drive is what the CD-ROM drive is to have. Force opens it even if the guest has locked it.
	Drive *CDROMDrive `json:"drive,omitempty"`
	Force bool        `json:"force,omitempty"`
	// BootFrom is one of BootDisk, BootNetwork and BootCDROM, and BootMAC the MAC address of the NIC for BootNetwork.
	BootFrom *string `json:"boot_from,omitempty"`
	BootMAC  MAC     `json:"boot_mac,omitzero"`
	// Serial and VNC say whether it has a serial console and a screen. VNCBind is the address of the latter; it counts with VNC.
	Serial    *bool  `json:"serial,omitempty"`
	VNC       *bool  `json:"vnc,omitempty"`
	VNCBind   string `json:"vnc_bind,omitempty"`
	Autostart *bool  `json:"autostart,omitempty"`
}

// AttachedDisk is a volume that is attached to a domain, besides its own disks.
type AttachedDisk struct {
	Disk
	// Serial is the serial number by which its guest and the hypervisor find it.
	Serial string `json:"serial"`
	// Bus is BusVirtio or BusSCSI, and Device its name on that bus, such as "vdb".
	Bus    string `json:"bus"`
	Device string `json:"device"`
	// Limits say how fast it may be.
	Limits IOLimits `json:"limits,omitzero"`
}

// DomainNIC is one NIC of a domain: at a bridge, or at an uplink.
type DomainNIC struct {
	Tap    string `json:"tap"`
	MAC    MAC    `json:"mac"`
	Bridge string `json:"bridge"`
	// MTU is told to the guest; 0 leaves it the default.
	MTU int `json:"mtu,omitempty"`
	// Uplink, Mode and VLAN are those of a direct network. The NIC then has neither a tap nor a bridge.
	Uplink string `json:"uplink,omitempty"`
	Mode   string `json:"mode,omitempty"`
	VLAN   int    `json:"vlan,omitempty"`
	// Boot is true for the NIC whose network the firmware boots from before the first disk.
	Boot bool `json:"boot,omitempty"`
	// Added is true for a NIC that was added to the instance: the document of a script does not have it.
	Added bool `json:"added,omitempty"`
}

// Seed asks for the CD-ROM by which an instance gets its metadata: the files of a NoCloud seed.
type Seed struct {
	ID    InstanceID `json:"id"`
	Files []SeedFile `json:"files"`
}

// SeedFile is one file of a seed.
type SeedFile struct {
	Name string `json:"name"`
	Data []byte `json:"data"`
}

// SeedFiles returns the names of the files that a seed may have.
func SeedFiles() []string { return []string{"meta-data", "user-data", "vendor-data", "network-config"} }

// MaxSeed limits the files of a seed, in bytes. A call to a worker has room for no more.
const MaxSeed = 5 * MiB

// MaxSeedDocuments limits the user-data and vendor-data of a seed together, in bytes. It leaves room for its other files.
const MaxSeedDocuments = MaxSeed - MiB

// Check returns ErrInvalid unless the files are those of a seed.
func (s Seed) Check() error {
	var size Bytes
	for _, f := range s.Files {
		if !slices.Contains(SeedFiles(), f.Name) {
			return Errorf(ErrInvalid, "the CD-ROM of instance %s has a file %q: expected %s", s.ID, Clip(f.Name), strings.Join(SeedFiles(), ", "))
		}
		size += Bytes(len(f.Data))
	}
	if size > MaxSeed {
		return Errorf(ErrInvalid, "the metadata of instance %s has %d bytes: expected at most %s on a CD-ROM", s.ID, size, MaxSeed)
	}
	return nil
}

// DomainCopy is a domain as another node gets it.
type DomainCopy struct {
	ID InstanceID `json:"id"`
	// XML is its definition, with its passwords, as it is at the next start.
	XML string `json:"xml"`
	// Variables are the variables of its UEFI firmware; nil if it has none.
	Variables []byte `json:"variables,omitempty"`
	// Console is the end of its console.
	Console []byte `json:"console,omitempty"`
	// Dirs are those of the node that it is from.
	Dirs HostDirs `json:"dirs,omitzero"`
}

// HostDirs are directories of a node that definitions of domains name. They may differ between nodes.
type HostDirs struct {
	Console string `json:"console_dir,omitempty"`
	CDROM   string `json:"cdrom_dir,omitempty"`
}

// The bounds of a DomainCopy. A call to a worker has room for no more.
const (
	MaxVariables   = 2 * MiB
	MaxConsoleCopy = MiB
)

// Migration asks for a domain that runs to go to the hypervisor of another node without a stop of its guest.
type Migration struct {
	ID InstanceID `json:"id"`
	MigrationTarget
}

// MigrationTarget is how the hypervisors of other nodes reach that of a node. The zero value means that they do not.
type MigrationTarget struct {
	// URI is libvirt's (https://libvirt.org/uri.html), such as qemu+tls://hv2.example/system.
	URI string `json:"uri,omitempty"`
	// Data is where the memory of guests goes, such as tcp://10.0.0.2; empty leaves that to libvirt.
	Data string `json:"data,omitempty"`
	// TLS is true if the memory of guests is encrypted on its way (migrate_tls_x509_cert_dir in qemu.conf).
	TLS bool `json:"tls,omitempty"`
	// Dirs are the directories of the node.
	Dirs HostDirs `json:"dirs,omitzero"`
}

// DomainState is the state of a domain as the hypervisor reports it.
type DomainState string

// The states of a domain.
const (
	DomainRunning DomainState = "running"
	DomainPaused  DomainState = "paused"
	DomainOff     DomainState = "off"
	DomainCrashed DomainState = "crashed"
)

// DomainInfo is one domain that carries Seedbed's tag.
type DomainInfo struct {
	ID   InstanceID `json:"id"`
	Name string     `json:"name"`
	// Project is the project in its tag; empty if the tag is of a release without projects.
	Project string      `json:"project,omitempty"`
	Job     JobID       `json:"job"`
	State   DomainState `json:"state"`
}

// DomainEvent is one change in the lifecycle of a domain.
type DomainEvent struct {
	ID   InstanceID `json:"id"`
	Name string     `json:"name"`
	// Event is defined, undefined, started, suspended, resumed, stopped, shutdown, crashed or
	// resync. A resync has no ID: events may have been lost, and the inventory must be read.
	Event string    `json:"event"`
	At    time.Time `json:"at"`
}

// Inventory is everything on one node that carries Seedbed's tag.
type Inventory struct {
	Node string `json:"node"`
	// Complete is true only if the hypervisor and every pool answered in full.
	Complete bool `json:"complete"`
	// Problem is why it is not complete.
	Problem string       `json:"problem,omitempty"`
	Domains []DomainInfo `json:"domains"`
	Volumes []VolumeInfo `json:"volumes"`
	Images  []ImageInfo  `json:"images"`
	// Taken are the MAC addresses on the node that others are known to use.
	Taken []TakenMAC `json:"taken,omitempty"`
}

// TakenMAC is a MAC address that is in use. By says who uses it, for people to read.
type TakenMAC struct {
	MAC MAC    `json:"mac"`
	By  string `json:"by"`
}

// Progress is how far an effect has got.
type Progress struct {
	Done  Bytes `json:"done"`
	Total Bytes `json:"total"`
}

// Percent returns Done over Total, 0 to 100. It is 0 if Total is unknown.
func (p Progress) Percent() int {
	if p.Total <= 0 {
		return 0
	}
	return int(min(100, float64(p.Done)*100/float64(p.Total)))
}

// Check is one line of a health report.
type Check struct {
	Name string `json:"name"`
	OK   bool   `json:"ok"`
	// Detail is what was found. Hint is what to do about it if the check is not OK.
	Detail string `json:"detail,omitempty"`
	Hint   string `json:"hint,omitempty"`
}

// AddressProbe asks whether hosts use addresses on the network that a bridge reaches by its uplink.
type AddressProbe struct {
	Bridge string `json:"bridge"`
	// MAC is that of the NIC which is to have the addresses. The requests are sent from it.
	MAC   MAC          `json:"mac"`
	Addrs []netip.Addr `json:"addrs"`
}

// AddressesProbed is what the hosts answered.
type AddressesProbed struct {
	Used []AddressUse `json:"used,omitempty"`
	// Unasked says why nobody could be asked by a bridge.
	Unasked map[string]string `json:"unasked,omitempty"`
}

// AddressUse is an address that a host uses, and the MAC address of that host.
type AddressUse struct {
	Bridge string     `json:"bridge"`
	Addr   netip.Addr `json:"addr"`
	MAC    MAC        `json:"mac"`
}

// Conflict returns ErrConflict: a host uses the address in a network. own is whether the host has a MAC address of the instance that is
// to have the address.
func (u AddressUse) Conflict(network string, own bool) error {
	if own {
		return Errorf(ErrConflict, "address %s of network %s is used by a host with the instance's own MAC address %s: "+
			"does its guest still run on another node?", u.Addr, network, u.MAC)
	}
	return Errorf(ErrConflict, "address %s of network %s is used by a host with the MAC address %s: "+
		"keep the address out of the network (--kept), or free it; if a router answers for all addresses, say --no-probe",
		u.Addr, network, u.MAC)
}
