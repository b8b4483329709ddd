package seedbed

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
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
