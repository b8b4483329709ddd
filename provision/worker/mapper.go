package worker

import (
	"context"

	"seedbed"
)

// Mapper shows volumes as block devices of this host, for file systems to be
// made and mounted on them. A mapped volume is in use: it is not removed,
// flattened or moved into the trash, and its domain is not started.
type Mapper interface {
	// MapVolume shows the volume as a block device of this host, for job, and
	// returns the device's path, such as "/dev/loop7". One that the same job has
	// mapped already is the same device. Errors: ErrNotFound without the volume,
	// ErrConflict when it is not tagged with id, ErrInUse when another job has
	// mapped it or a domain has it open, ErrUnavailable when this host has no way
	// to map it. Whatever the error, it is not mapped for job.
	MapVolume(ctx context.Context, job seedbed.JobID, name string, id seedbed.InstanceID) (device string, err error)
	// UnmapVolume takes the device away when everything that was written to it is
	// in the volume. A volume that is absent or not mapped is unmapped already.
	// Errors: ErrConflict when it is another instance's, ErrInUse while the device is
	// mounted or open, ErrUnavailable when it has not gone in time: it may be
	// asked again.
	UnmapVolume(ctx context.Context, name string, id seedbed.InstanceID) error
	// MappedVolumes are the names of the instance's volumes that are mapped on this host.
	MappedVolumes(id seedbed.InstanceID) []string
}

// startUnmapped starts a domain none of whose volumes is mapped: two writers would destroy its file systems.
func (s *Server) startUnmapped(ctx context.Context, id seedbed.InstanceID) error {
	for _, pool := range s.poolNames() {
		if names := s.pools[pool].MappedVolumes(id); len(names) > 0 {
			return seedbed.Errorf(seedbed.ErrInUse, "volume %s of pool %s is mapped on this host: what uses it, such as a provisioning script, has to end before the domain can start", names[0], pool)
		}
	}
	return s.hypervisor.StartDomain(ctx, id)
}
