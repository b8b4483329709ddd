package seedbed

import "time"

// Call says on whose behalf an effect is asked for. The worker refuses an
// epoch lower than the highest it has seen for the job, and ends a running
// call of a lower epoch before it starts one of a higher.
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
	// Image is an image of the same pool; empty makes a blank volume.
	Image string `json:"image,omitempty"`
	// Size is the virtual size; at least the image's. Zero means the image's.
	Size Bytes `json:"size"`
}

// Disk is how a hypervisor reaches a volume.
type Disk struct {
	// Type is "file" (Source is a path) or "rbd" (Source is pool/image).
	Type   string `json:"type"`
	Source string `json:"source"`
	// Format is "qcow2" or "raw".
	Format string `json:"format"`
	// Backing is the qcow2 file of the image that a file is a clone of; empty for
	// one that stands alone. Clones share it, so a hypervisor must not change its owner.
	Backing string `json:"backing,omitempty"`
	// RBD is how to reach the cluster of a Disk of type rbd; else zero.
	RBD RBDSource `json:"rbd,omitzero"`
}

// RBDSource is a Ceph cluster as a hypervisor reaches it. It holds no key:
// the hypervisor has that under Secret.
type RBDSource struct {
	// Monitors are all monitors, as host:port, separated by commas.
	Monitors string `json:"monitors"`
	// User is the Ceph user, without "client.".
	User string `json:"user"`
	// Secret is the UUID of the hypervisor's secret that holds the user's key.
	Secret string `json:"secret"`
}

// VolumeInfo is a volume as a pool has it.
type VolumeInfo struct {
	Pool     string     `json:"pool"`
	Name     string     `json:"name"`
	Instance InstanceID `json:"instance"`
	Job      JobID      `json:"job"`
	Size     Bytes      `json:"size"`
	Disk     Disk       `json:"disk"`
	// Restored is true for a volume that came back from the trash: it is of no
	// instance, and no cleanup may take it.
	Restored bool `json:"restored,omitempty"`
}

// ImageSpec asks for an image to be imported from a file on the worker's host,
// or from one that was uploaded.
type ImageSpec struct {
	Pool string `json:"pool"`
	Name string `json:"name"`
	// Path is the file; empty with Upload, the ID of a file that the pool has taken in.
	Path   string `json:"path,omitempty"`
	Upload string `json:"upload,omitempty"`
	// SHA256 is the digest of the file: it must have it or, uploaded, was found to.
	SHA256 string `json:"sha256,omitempty"`
	// Member is the disk of an OVA, by the name of its file; empty means the only one.
	Member string `json:"member,omitempty"`
	// Format is what the file must be; empty means any that can be imported.
	Format string `json:"format,omitempty"`
}

// ImageInfo is an image as a pool has it.
type ImageInfo struct {
	Pool   string `json:"pool"`
	Name   string `json:"name"`
	Job    JobID  `json:"job"`
	Size   Bytes  `json:"size"`
	Format string `json:"format"`
	// SHA256 is the digest of the file; empty where it was not found.
	SHA256 string `json:"sha256"`
	// Firmware is what the OVA says that the disk comes from; else empty.
	Firmware Firmware `json:"firmware,omitempty"`
}

// PoolInfo is the room in a pool.
type PoolInfo struct {
	Name string `json:"name"`
	Type string `json:"type"` // "dir" or "ceph"
	Size Bytes  `json:"size"`
	Free Bytes  `json:"free"`
	// Shared is true where every node that has the pool sees the same volumes in it.
	Shared bool `json:"shared,omitempty"`
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
	Job     JobID       `json:"job"`
	// Datasource is what the SMBIOS values announce; empty is DatasourceEC2.
	Datasource Datasource `json:"datasource,omitempty"`
	// Firmware is its root disk's; empty is the BIOS.
	Firmware Firmware `json:"firmware,omitempty"`
	// System is what it has besides; nil is what a machine without a system template has.
	System *System `json:"system,omitempty"`
	// Script is the document that a script made for it; nil has the driver make one.
	Script *DomainScript `json:"script,omitempty"`
}

// DomainNIC is one NIC of a domain.
type DomainNIC struct {
	Tap    string `json:"tap"`
	MAC    MAC    `json:"mac"`
	Bridge string `json:"bridge"`
}

// DomainState is what a hypervisor says of a domain.
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
	ID    InstanceID  `json:"id"`
	Name  string      `json:"name"`
	Job   JobID       `json:"job"`
	State DomainState `json:"state"`
}

// DomainEvent is one change of a domain's life.
type DomainEvent struct {
	ID   InstanceID `json:"id"`
	Name string     `json:"name"`
	// Event is defined, undefined, started, suspended, resumed, stopped, shutdown, crashed or resync;
	// resync (with no ID) says that events may have been lost and the inventory must be read.
	Event string    `json:"event"`
	At    time.Time `json:"at"`
}

// Inventory is everything on one node that carries Seedbed's tag.
type Inventory struct {
	Node string `json:"node"`
	// Complete is true only when the hypervisor and every pool answered in full.
	Complete bool `json:"complete"`
	// Problem says why it is not complete.
	Problem string       `json:"problem,omitempty"`
	Domains []DomainInfo `json:"domains"`
	Volumes []VolumeInfo `json:"volumes"`
	Images  []ImageInfo  `json:"images"`
	// Taken are the MAC addresses on the node that others use, as far as they are known.
	Taken []TakenMAC `json:"taken,omitempty"`
}

// TakenMAC is a MAC address that is in use, and by whom, for people to read.
type TakenMAC struct {
	MAC MAC    `json:"mac"`
	By  string `json:"by"`
}

// Progress is how far an effect is.
type Progress struct {
	Done  Bytes `json:"done"`
	Total Bytes `json:"total"`
}

// Percent is Done over Total, 0 to 100; 0 when Total is unknown.
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
	// Detail is what was found; Hint is what to do about it when not OK.
	Detail string `json:"detail,omitempty"`
	Hint   string `json:"hint,omitempty"`
}
