package seedbed

// JobAdopt and JobForget change whose a machine is, and nothing of what it is.
const (
	JobAdopt  JobKind = "adopt"  // take a domain and its disks under management
	JobForget JobKind = "forget" // let go of an instance, whose domain and disks stay
)

// ForeignDomain is a domain of a node that is nobody's instance, as it could be adopted.
type ForeignDomain struct {
	ID     InstanceID    `json:"id"`
	Name   string        `json:"name"`
	Node   string        `json:"node"`
	State  DomainState   `json:"state"`
	VCPUs  int           `json:"vcpus"`
	Memory Bytes         `json:"memory"`
	Disks  []ForeignDisk `json:"disks"`
	NICs   []ForeignNIC  `json:"nics"`
	// Problems say what keeps it from being adopted, and what would change that.
	Problems []string `json:"problems"`
}

// ForeignDisk is a disk of such a domain; what is no disk, such as a CD, is left as it is.
type ForeignDisk struct {
	// Target is what the guest knows it by, such as vda.
	Target string `json:"target"`
	// Type is file or rbd, and Source the path, or the Ceph pool and image with "/" between them.
	Type   string `json:"type"`
	Source string `json:"source"`
	Format string `json:"format"`
	// Pool is the pool that can take it, with its size and, for a clone, its image there.
	Pool  string `json:"pool"`
	Size  Bytes  `json:"size"`
	Image string `json:"image,omitempty"`
}

// ForeignNIC is a network interface of such a domain.
type ForeignNIC struct {
	MAC    MAC    `json:"mac"`
	Bridge string `json:"bridge"`
}

// AdoptRequest says how a domain is to be adopted.
type AdoptRequest struct {
	// Addresses are those of its NICs, in their order, as text; the others get free ones.
	Addresses []string          `json:"addresses"`
	Tags      map[string]string `json:"tags"`
}

// AdoptSpec is the input of an adopt job.
type AdoptSpec struct {
	// Sources are where the disks are until then, in the order of the volumes.
	Sources []string `json:"sources"`
}

// VolumeAdoption is a disk that becomes a volume, and its way back.
type VolumeAdoption struct {
	Pool     string     `json:"pool"`
	Name     string     `json:"name"`
	Instance InstanceID `json:"instance"`
	// Source is where it was, as in a ForeignDisk.
	Source string `json:"source"`
}

// DomainAdoption is a domain that becomes an instance's, and its way back. It
// stays as it is but for the sources of its disks and the names of its taps.
type DomainAdoption struct {
	ID      InstanceID `json:"id"`
	Name    string     `json:"name"`
	Job     JobID      `json:"job"`
	Profile string     `json:"profile"`
	// Disks are where its disks are from then on, and Sources where they were.
	Disks   []Disk      `json:"disks"`
	Sources []string    `json:"sources"`
	NICs    []DomainNIC `json:"nics"`
}
