package seedbed

import "time"

// JobAdopt and JobForget start and stop managing a domain; they leave the domain itself unchanged.
const (
	JobAdopt  JobKind = "adopt"  // start managing a domain and its disks
	JobForget JobKind = "forget" // stop managing an instance; its domain and disks stay
)

// MakesInstance reports whether a job of that kind creates its instance.
func (k JobKind) MakesInstance() bool {
	return k == JobCreate || k == JobAdopt || k == JobBackupRestore || k == JobClone
}

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

// OrphanKind is the kind of an orphan.
type OrphanKind string

// The kinds of orphan.
const (
	OrphanVolume   OrphanKind = "volume"
	OrphanSnapshot OrphanKind = "snapshot"
	OrphanImage    OrphanKind = "image"
	OrphanDomain   OrphanKind = "domain"
	// OrphanStage is the effect of a stage that was not undone, if nothing more is known.
	OrphanStage OrphanKind = "stage"
)

// Orphan is one thing that the undo of a job could not remove. It is recorded until it is gone:
// after a later attempt to undo the job, or with the instance or image that it belongs to.
//
// One without a Stage is a stray: it carries Seedbed's tag, but the database does not know its
// instance or job, for example after the database was restored from a backup. Seedbed never removes
// a stray; an operator decides.
type Orphan struct {
	// Job is the job that left it; for a stray image, the job in its tag.
	Job JobID `json:"job,omitempty"`
	// Of is the kind of the job. Subject, with its project, and Instance are those of the job, and Node is
	// where it was left. For a stray, Instance is from its tag and Node is where it was seen.
	// Project is the project of the job or, for a stray, that in its tag; empty if the tag is of a release
	// without projects.
	Project  string     `json:"project,omitempty"`
	Of       JobKind    `json:"of,omitempty"`
	Subject  string     `json:"subject,omitempty"`
	Instance InstanceID `json:"instance,omitempty"`
	Node     string     `json:"node,omitempty"`
	// Stage is the stage that was not undone.
	Stage string     `json:"stage,omitempty"`
	Kind  OrphanKind `json:"kind"`
	Pool  string     `json:"pool,omitempty"`
	// Name is the name of the volume, image, domain or stage, or a snapshot as volume@snapshot.
	Name string `json:"name"`
	// Why is the reason that it was not undone.
	Why string `json:"why"`
	// Since is when the undo first failed, Tries how often it failed, and Tried when it last
	// failed. For a stray, they say when and how often it was seen.
	Since time.Time `json:"since"`
	Tries int       `json:"tries"`
	Tried time.Time `json:"tried"`
}

// CleanupReport is what one run of the cleanup did or, in a dry run, would do.
type CleanupReport struct {
	// Items are what it removed or would remove.
	Items []CleanupItem `json:"tasks"`
	// Refused is why it did nothing; empty if the run completed.
	Refused string `json:"refused"`
	// Skipped says why some nodes were skipped.
	Skipped []string `json:"skipped"`
}

// CleanupItem is one thing that the cleanup removed.
type CleanupItem struct {
	Task    string `json:"name"`    // mappings, leases, deliveries, outgoing, access, output, audit, requests, trash or orphans
	Action  string `json:"action"`  // release, delete, purge or undo
	Subject string `json:"subject"` // an instance's full name, a MAC address, or how many records
	Detail  string `json:"detail"`
}
