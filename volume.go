package seedbed

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// JobResize gives an instance a larger disk, or changes its vCPUs and memory.
const JobResize JobKind = "resize"

// ResizeRequest asks for an instance to be resized. A zero field changes nothing.
type ResizeRequest struct {
	// Disk is a volume of the instance, by its index from 0 or by its name; empty means its only
	// volume. Size is the new size of the volume.
	Disk   string `json:"disk,omitempty"`
	Size   Bytes  `json:"size,omitempty"`
	VCPUs  int    `json:"vcpus,omitempty"`
	Memory Bytes  `json:"memory,omitempty"`
}

// ResizeSpec is the input of a resize job, and what one of its stages has changed. A zero field
// changes nothing.
type ResizeSpec struct {
	Pool   string `json:"pool,omitempty"`
	Volume string `json:"volume,omitempty"`
	Size   Bytes  `json:"size,omitempty"` // of that volume
	VCPUs  int    `json:"vcpus,omitempty"`
	Memory Bytes  `json:"memory,omitempty"`
}

// Machine reports whether the vCPUs or the memory change.
func (s ResizeSpec) Machine() bool { return s.VCPUs != 0 || s.Memory != 0 }

// SpecOf returns the input of the job that resizes i as requested. It returns ErrInvalid for a size
// out of range, for a disk that would become smaller, and if nothing would change, and ErrNotFound
// for a disk that the instance does not have.
func (r ResizeRequest) SpecOf(i Instance) (ResizeSpec, error) {
	s := ResizeSpec{Size: r.Size, VCPUs: r.VCPUs, Memory: r.Memory}
	if r.Size != 0 || r.Disk != "" {
		v, err := r.volume(i)
		if err != nil {
			return s, err
		}
		if r.Size == 0 {
			return s, Errorf(ErrInvalid, "disk %s: the size that it is to have is missing", Clip(r.Disk))
		}
		s.Pool, s.Volume = v.Pool, v.Name
	}
	if s.VCPUs == i.VCPUs { // an unchanged value does not require the instance to be stopped
		s.VCPUs = 0
	}
	if s.Memory == i.Memory {
		s.Memory = 0
	}
	if _, err := s.Of(i); err != nil {
		return s, err
	}
	return s, nil
}

// volume returns the volume that the request names.
func (r ResizeRequest) volume(i Instance) (Volume, error) {
	var have []string
	for _, v := range i.Volumes {
		if r.Disk == strconv.Itoa(v.Index) || r.Disk == v.Name || r.Disk == "" && len(i.Volumes) == 1 {
			return v, nil
		}
		have = append(have, fmt.Sprintf("%d (%s, %s)", v.Index, v.Name, v.Size))
	}
	if r.Disk == "" {
		return Volume{}, Errorf(ErrInvalid, "instance %q has %d disks: choose one of %s", i.Name, len(have), strings.Join(have, ", "))
	}
	return Volume{}, Errorf(ErrNotFound, "instance %q has no disk %q: expected one of %s", i.Name, Clip(r.Disk), strings.Join(have, ", "))
}

// Of returns the resized instance. Errors are as for SpecOf.
func (s ResizeSpec) Of(i Instance) (Instance, error) {
	was := i
	i.Volumes = slices.Clone(i.Volumes)
	if s.VCPUs != 0 {
		if err := CheckVCPUs(s.VCPUs); err != nil {
			return was, err
		}
		i.VCPUs = s.VCPUs
	}
	if s.Memory != 0 {
		if err := CheckMemory(s.Memory); err != nil {
			return was, err
		}
		i.Memory = s.Memory
	}
	changed := i.VCPUs != was.VCPUs || i.Memory != was.Memory
	if s.Size != 0 {
		if err := CheckDisk("size", s.Size); err != nil {
			return was, err
		}
		n := slices.IndexFunc(i.Volumes, func(v Volume) bool { return v.Pool == s.Pool && v.Name == s.Volume })
		switch {
		case n < 0:
			return was, Errorf(ErrNotFound, "instance %q has no disk %s in pool %s", i.Name, Clip(s.Volume), Clip(s.Pool))
		case s.Size < i.Volumes[n].Size:
			return was, Errorf(ErrInvalid, "disk %d of instance %q has %s: with %s it would lose what is at its end; a disk can only become larger",
				i.Volumes[n].Index, i.Name, i.Volumes[n].Size, s.Size)
		}
		changed = changed || s.Size != i.Volumes[n].Size
		i.Volumes[n].Size = s.Size
	}
	if !changed {
		return was, Errorf(ErrInvalid, "instance %q already has that size: expected a larger disk, or other vcpus or memory", i.Name)
	}
	return i, nil
}

// CheckGrowth returns ErrInvalid if size is smaller than that of the volume.
func (v VolumeInfo) CheckGrowth(size Bytes) error {
	if size >= v.Size {
		return nil
	}
	return Errorf(ErrInvalid, "volume %s in pool %s has %s, and would lose everything after %s: expected at least its current size",
		v.Name, v.Pool, v.Size, size)
}

// The kinds of job on the volumes of projects.
const (
	JobVolumeAdd      JobKind = "volume_add"      // make a volume that no instance has
	JobVolumeRemove   JobKind = "volume_remove"   // remove a volume that no instance has
	JobVolumeResize   JobKind = "volume_resize"   // give a volume more room, whether an instance has it or not
	JobVolumeSet      JobKind = "volume_set"      // change how fast a volume may be
	JobVolumeMove     JobKind = "volume_move"     // take a volume to another pool
	JobVolumeDownload JobKind = "volume_download" // make a file of a volume, to be downloaded
	JobAttach         JobKind = "attach"          // give an instance a volume of its project
	JobDetach         JobKind = "detach"          // take such a volume from an instance
)

// VolumeState is where a volume of a project is in its lifecycle.
type VolumeState string

// The states of a volume of a project.
const (
	VolumeMaking    VolumeState = "making"    // the job that makes it has not ended
	VolumeFree      VolumeState = "free"      // no instance has it
	VolumeAttaching VolumeState = "attaching" // promised to an instance, whose guest does not count on it yet
	VolumeAttached  VolumeState = "attached"  // an instance has it
	VolumeDetaching VolumeState = "detaching" // its instance still may have it open
	VolumeChanging  VolumeState = "changing"  // no instance has it, and a job that changes it has not ended
	VolumeRemoving  VolumeState = "removing"  // its removal was accepted, and has not succeeded
)

// VolumeStates returns all states of volumes of projects.
func VolumeStates() []VolumeState {
	return []VolumeState{VolumeMaking, VolumeFree, VolumeAttaching, VolumeAttached, VolumeDetaching, VolumeChanging, VolumeRemoving}
}

// ProjectVolume is a volume that belongs to a project: it exists without an instance, and can be attached
// to one at a time. In a list of volumes, it also stands for a disk that was made with an instance, which
// has no ID.
type ProjectVolume struct {
	// ID identifies it as long as it exists. It is a lower-case UUID, empty for a disk of an instance.
	ID string `json:"id,omitempty"`
	// Name is unique in the project. A disk of an instance has the name of its volume in the pool.
	Project string `json:"project"`
	Name    string `json:"name"`
	// Serial is by what a guest finds it, such as /dev/disk/by-id/virtio-SERIAL (SerialOf).
	Serial string `json:"serial,omitempty"`
	Pool   string `json:"pool"`
	// Volume is its name in the pool, and Owner the ID in its tag there: the instance that it was made with,
	// or its own ID. Neither ever changes.
	Volume string     `json:"volume"`
	Owner  InstanceID `json:"-"`
	// Token is the name of the token that made it, or the instance that it was made with; empty if none did.
	Token string `json:"-"`
	// Node is the node that has it; empty if the pool is shared.
	Node  string      `json:"node,omitempty"`
	State VolumeState `json:"state"`
	Size  Bytes       `json:"size"`
	// Wanted is the size that a job is giving it, which quotas count from its acceptance; zero for none.
	Wanted Bytes `json:"-"`
	// Image is the image that it is a clone of; empty if it depends on none.
	Image string `json:"image,omitempty"`
	IOLimits
	// Instance is the instance that has it, and Holder the name of that; empty if none does.
	Instance InstanceID `json:"-"`
	Holder   string     `json:"instance,omitempty"`
	// Index is its place among the disks of the instance, from 0, and Bus how it is attached. Device is what
	// the instance's domain calls it.
	Index  int    `json:"-"`
	Bus    string `json:"bus,omitempty"`
	Device string `json:"device,omitempty"`
	// Keep says what becomes of it when its instance is removed: it stays, or is removed as well.
	Keep     bool      `json:"keep"`
	Revision int64     `json:"revision,omitempty"`
	Created  time.Time `json:"created"`
}

// SerialOf returns the serial number of the volume with that ID: its first 20 digits, which is as much as virtio has room for.
func SerialOf(id string) string {
	s := strings.ReplaceAll(id, "-", "")
	return s[:min(20, len(s))]
}

// CheckOwn returns ErrConflict for a disk that was made with an instance.
func (v ProjectVolume) CheckOwn() error {
	if v.ID != "" {
		return nil
	}
	return Errorf(ErrConflict, "volume %q is disk %d of instance %q, which was made with it: it stays with the instance", v.Name, v.Index,
		v.Holder)
}

// CheckIdle returns ErrInUse if an instance has the volume.
func (v ProjectVolume) CheckIdle() error {
	if v.Instance == "" {
		return nil
	}
	return Errorf(ErrInUse, "volume %q is attached to instance %q: detach it first (seedbed volume detach %s)", v.Name, v.Holder, v.Name)
}

// CheckAttach returns ErrInUse or ErrConflict if the volume cannot be attached to the instance.
func (v ProjectVolume) CheckAttach(i Instance) error {
	switch n := len(i.Volumes) + len(i.Attached); {
	case v.Instance != "":
		return v.CheckIdle()
	case v.State != VolumeFree:
		return Errorf(ErrConflict, "volume %q is %s: only one that is free can be attached", v.Name, v.State)
	case v.Node != "" && v.Node != i.Node:
		return Errorf(ErrConflict, "volume %q is on node %s, in a pool that is not shared, and instance %q on node %s", v.Name, v.Node, i.Name,
			i.Node)
	case n >= MaxDisks:
		return Errorf(ErrConflict, "instance %q has %d disks: no further one can be attached", i.Name, n)
	}
	return nil
}

// CheckHolder returns ErrConflict if the instance of a job does not have the volume.
func (v ProjectVolume) CheckHolder(j Job) error {
	if v.Instance == j.Instance {
		return nil
	}
	return Errorf(ErrConflict, "volume %q is no longer that of instance %q, so %s job %s cannot go on (seedbed volume show %s)", v.Name,
		j.Subject, j.Kind, j.ID.Short(), v.Name)
}

// NewVolumeID returns a new ID for a volume of a project.
func NewVolumeID() string { return string(DatasourceNone.NewInstanceID()) }

// MaxDisks is how many disks an instance may have to which a volume is attached, with that volume.
const MaxDisks = 16

// FreeIndex returns the index for one more volume that is attached to the instance: the lowest after
// those of its own disks and its CD-ROM that no other attached volume has.
func (i Instance) FreeIndex() int {
	n := i.firstAttached()
	for slices.ContainsFunc(i.Attached, func(v ProjectVolume) bool { return v.Index == n }) {
		n++
	}
	return n
}

func (i Instance) firstAttached() (n int) {
	for _, v := range i.Volumes {
		n = max(n, v.Index+1)
	}
	if i.Metadata.By == MetadataCDROM {
		n++
	}
	return n
}

// Reindexed returns those of the attached volumes whose place a disk of the instance has taken, as a
// rebuild with more disks does, with new ones.
func (i Instance) Reindexed() (moved []ProjectVolume) {
	first := i.firstAttached()
	i.Attached = slices.Clone(i.Attached)
	for n := range i.Attached {
		if i.Attached[n].Index < first {
			i.Attached[n].Index = i.FreeIndex()
			moved = append(moved, i.Attached[n])
		}
	}
	return moved
}

// DeviceOf returns what the domain of an instance calls a volume that is attached to it.
func DeviceOf(v ProjectVolume) string { return System{DiskBus: v.Bus}.Disk(v.Index) }

// VolumeRequest asks for a volume of a project.
type VolumeRequest struct {
	Project string `json:"-"`
	Name    string `json:"name"`
	Pool    string `json:"pool,omitempty"`
	// Size is its size; zero means that of the image.
	Size Bytes `json:"size,omitempty"`
	// Image is the image that it becomes a clone of; empty makes a blank one.
	Image string `json:"image,omitempty"`
	// From is the volume whose content it gets: its name, that of an instance for its first disk, INSTANCE:INDEX for a disk, or one of
	// these two with @SNAPSHOT. It excludes Image and Node.
	From string `json:"from,omitempty"`
	// Node is the node that is to have it; empty leaves the choice.
	Node string `json:"node,omitempty"`
	// Upload is an uploaded file whose disk it gets; nil for none. It excludes Image and From.
	Upload *VolumeUpload `json:"-"`
	IOLimits
}

// Attachment says how a volume is attached to an instance.
type Attachment struct {
	Instance string `json:"instance"`
	// Bus is BusVirtio or BusSCSI; empty is the former.
	Bus string `json:"bus,omitempty"`
	// Keep is what ProjectVolume has; nil means true.
	Keep *bool `json:"keep,omitempty"`
}

// CheckBus returns the bus of an attached volume, or ErrInvalid.
func CheckBus(bus string) (string, error) {
	switch bus {
	case "", BusVirtio:
		return BusVirtio, nil
	case BusSCSI:
		return bus, nil
	}
	return "", Errorf(ErrInvalid, "bus %q is unknown: expected %s or %s", Clip(bus), BusVirtio, BusSCSI)
}

// VolumeJob is the input of the jobs on volumes of projects.
type VolumeJob struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Bus  string `json:"bus,omitempty"`
	Keep bool   `json:"keep,omitempty"`
	// From is what a volume_add job copies; nil for none.
	From *VolumeSource `json:"from,omitempty"`
	// Upload is the uploaded file whose disk a volume_add job makes the volume of; nil for none.
	Upload *VolumeUpload `json:"upload,omitempty"`
	// Size is what a volume_resize job gives the volume.
	Size Bytes `json:"size,omitempty"`
	// Set is what a volume_set job changes, Limits what the volume has after it, and Was what it had.
	Set    *VolumeLimits `json:"set,omitempty"`
	Limits *IOLimits     `json:"limits,omitempty"`
	Was    *IOLimits     `json:"was,omitempty"`
	// Place is where a volume_move job takes the volume, and Former where it was.
	Place  *VolumePlace `json:"place,omitempty"`
	Former *VolumePlace `json:"former,omitempty"`
	// Download is the file that a volume_download job makes.
	Download *VolumeDownload `json:"download,omitempty"`
}

// VolumeResize asks for a larger volume.
type VolumeResize struct {
	Size Bytes `json:"size"`
}

// CheckLarger returns ErrInvalid unless size is one that the volume can be given, which has less now.
func (v ProjectVolume) CheckLarger(size Bytes) error {
	if size == 0 {
		return Errorf(ErrInvalid, "volume %q: the size that it is to have is missing", v.Name)
	}
	if err := CheckDisk("size", size); err != nil {
		return err
	}
	switch {
	case size < v.Size:
		return Errorf(ErrInvalid, "volume %q has %s: with %s it would lose what is at its end; a volume can only become larger", v.Name, v.Size,
			size)
	case size == v.Size:
		return Errorf(ErrInvalid, "volume %q already has %s: expected a larger size", v.Name, v.Size)
	}
	return nil
}

// Removal is the input of a job that removes an instance.
type Removal struct {
	// KeepDisks makes the disks of the instance volumes of its project.
	KeepDisks bool `json:"keep_disks,omitempty"`
	// Left are disks that its rebuilds left behind. They are removed even then.
	Left []Volume `json:"left,omitempty"`
}

// KeptName returns the name of the volume that a disk becomes when it outlives its instance.
func KeptName(instance string, index int) string {
	return instance[:min(50, len(instance))] + "-" + strconv.Itoa(index) // with room for another number
}

// FreeName returns the name or, if it is taken, the name with the lowest number from 2 that is not.
func FreeName(name string, taken func(string) (bool, error)) (string, error) {
	for n := 1; ; n++ {
		try := name
		if n > 1 {
			try += "-" + strconv.Itoa(n)
		}
		if used, err := taken(try); err != nil || !used {
			return try, err
		}
	}
}
