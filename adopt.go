package seedbed

// JobAdopt and JobForget start and stop managing a domain; they leave the domain itself unchanged.
const (
	JobAdopt  JobKind = "adopt"  // start managing a domain and its disks
	JobForget JobKind = "forget" // stop managing an instance; its domain and disks stay
)

// ForeignDomain is a domain of a node that does not belong to an instance and may be adopted.
type ForeignDomain struct {
	ID   InstanceID `json:"id"`
	Name string     `json:"name"`
	Node string     `json:"node"`
	// Project is the project in the tag of the instance that it is a copy of, as virt-clone makes one;
	// else empty.
	Project string        `json:"project,omitempty"`
	State   DomainState   `json:"state"`
	VCPUs   int           `json:"vcpus"`
	Memory  Bytes         `json:"memory"`
	Disks   []ForeignDisk `json:"disks"`
	NICs    []ForeignNIC  `json:"nics"`
	// Problems say why it cannot be adopted, and how to change that.
	Problems []string `json:"problems"`
}

// ForeignDisk is a disk of a ForeignDomain. Other devices, such as a CD, are not listed and stay
// unchanged.
type ForeignDisk struct {
	// Target is the disk's name in the guest, such as vda.
	Target string `json:"target"`
	// Type is "file" or "rbd". Source is the path, or the Ceph pool and image as pool/image.
	Type   string `json:"type"`
	Source string `json:"source"`
	Format string `json:"format"`
	// Pool is the pool that the disk would belong to. Size is its size, and Image the image in that
	// pool that it is a clone of.
	Pool  string `json:"pool"`
	Size  Bytes  `json:"size"`
	Image string `json:"image,omitempty"`
}

// ForeignNIC is a network interface of a ForeignDomain.
type ForeignNIC struct {
	MAC    MAC    `json:"mac"`
	Bridge string `json:"bridge"`
}

// AdoptRequest says how to adopt a domain.
type AdoptRequest struct {
	// Addresses are the IP addresses of the NICs as text, in the order of the NICs. A NIC without
	// one gets a free address.
	Addresses []string          `json:"addresses"`
	Tags      map[string]string `json:"tags"`
}

// AdoptSpec is the input of an adopt job.
type AdoptSpec struct {
	// Sources are where the disks are before the adoption, in the order of the volumes.
	Sources []string `json:"sources"`
}

// VolumeAdoption asks for a disk to become a volume. It also describes how to undo that.
type VolumeAdoption struct {
	Pool     string     `json:"pool"`
	Name     string     `json:"name"`
	Instance InstanceID `json:"instance"`
	// Project is the name of the instance's project.
	Project string `json:"project,omitempty"`
	// Source is where the disk was, as in a ForeignDisk.
	Source string `json:"source"`
}

// DomainAdoption asks for a domain to become that of an instance. It also describes how to undo
// that. Only the sources of the disks and the names of the taps change.
type DomainAdoption struct {
	ID      InstanceID `json:"id"`
	Name    string     `json:"name"`
	Job     JobID      `json:"job"`
	Profile string     `json:"profile"`
	// Project is the name of the instance's project.
	Project string `json:"project,omitempty"`
	// Disks are where the disks are afterwards, and Sources where they were before.
	Disks   []Disk      `json:"disks"`
	Sources []string    `json:"sources"`
	NICs    []DomainNIC `json:"nics"`
}
