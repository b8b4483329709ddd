package worker

import (
	"context"

	"seedbed"
	"seedbed/provision/effects"
)

// Resizer makes volumes larger.
type Resizer interface {
	// Volume is one volume; ErrNotFound without it, ErrConflict when it is not tagged with id.
	Volume(ctx context.Context, name string, id seedbed.InstanceID) (seedbed.VolumeInfo, error)
	// ResizeVolume makes sure that the volume has that size, and returns it. It may
	// have been given the size by the domain that has it open (DomainResizer); from
	// then on a clone that asks for any size that it had is answered with it. Errors
	// are Volume's, ErrInvalid when it would become smaller, ErrInUse where the driver
	// cannot do it while the volume is open, ErrFull without room.
	ResizeVolume(ctx context.Context, name string, id seedbed.InstanceID, size seedbed.Bytes) (seedbed.VolumeInfo, error)
}

// DomainResizer changes the size of domains.
type DomainResizer interface {
	// ResizeDisk gives the disk of a domain that runs that size, and tells its guest.
	// A domain that is off or absent, or has not that disk, has nothing to be told.
	// ErrConflict when it is not tagged, ErrInvalid when the disk is larger already.
	ResizeDisk(ctx context.Context, id seedbed.InstanceID, disk seedbed.Disk, size seedbed.Bytes) error
	// ResizeDomain gives a domain that is off so many vcpus and so much memory; what
	// is zero stays, and so does all else of it. One that has that size already stays
	// as it is, and may run. ErrNotFound, ErrInUse while it runs, ErrConflict when it
	// is not tagged.
	ResizeDomain(ctx context.Context, id seedbed.InstanceID, vcpus int, memory seedbed.Bytes) error
}

// resize makes a volume larger. Whoever has it open goes first, and the pool then
// makes sure of it and writes it down.
func (s *Server) resize(ctx context.Context, a effects.VolumeSize) (seedbed.VolumeInfo, error) {
	pool, err := s.owned(a.Pool, a.Instance)
	if err == nil {
		err = seedbed.CheckDisk("size", a.Size)
	}
	if err != nil {
		return seedbed.VolumeInfo{}, err
	}
	have, err := pool.Volume(ctx, a.Name, a.Instance)
	if err != nil {
		return seedbed.VolumeInfo{}, err
	}
	if err := have.CheckGrowth(a.Size); err != nil {
		return seedbed.VolumeInfo{}, err
	}
	if err := s.hypervisor.ResizeDisk(ctx, a.Instance, have.Disk, a.Size); err != nil {
		return seedbed.VolumeInfo{}, err
	}
	return pool.ResizeVolume(ctx, a.Name, a.Instance, a.Size)
}
