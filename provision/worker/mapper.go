package worker

import (
	"context"

	"seedbed"
)

// Mapper maps volumes to block devices of this host, so that file systems can be made and mounted
// on them. A mapped volume is in use: it is not removed, flattened or moved into the trash, and its
// domain is not started.
type Mapper interface {
	// MapVolume maps the volume to a block device of this host, for job, and returns the device's
	// path, such as "/dev/loop7". A volume that the same job has already mapped keeps its device.
	// Errors: ErrNotFound without the volume, ErrConflict if it is not tagged with id, ErrInUse if
	// another job has mapped it or a domain has it open, ErrUnavailable if this host cannot map it.
	// After an error it is not mapped for job.
	MapVolume(ctx context.Context, job seedbed.JobID, name string, id seedbed.InstanceID) (device string, err error)
	// UnmapVolume removes the device after everything that was written to it is in the volume. A
	// volume that is absent or not mapped counts as unmapped. Errors: ErrConflict for another
	// instance's volume, ErrInUse while the device is mounted or open, ErrUnavailable if it was not
	// removed in time; the call may then be repeated.
	UnmapVolume(ctx context.Context, name string, id seedbed.InstanceID) error
	// MappedVolumes returns the names of the instance's volumes that are mapped on this host.
	MappedVolumes(id seedbed.InstanceID) []string
}

// startUnmapped starts a domain if none of its volumes is mapped: two writers would destroy its
// file systems.
func (s *Server) startUnmapped(ctx context.Context, id seedbed.InstanceID) error {
	for _, pool := range s.poolNames() {
		if names := s.pools[pool].MappedVolumes(id); len(names) > 0 {
			return seedbed.Errorf(seedbed.ErrInUse,
				"volume %s of pool %s is mapped on this host: what uses it, such as a provisioning script, has to end before the domain can start",
				names[0], pool)
		}
	}
	if err := s.incarnation.awake(); err != nil {
		return err
	}
	return s.hypervisor.StartDomain(ctx, id)
}
