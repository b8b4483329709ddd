package worker

import (
	"cmp"
	"context"

	"seedbed"
	"seedbed/provision/effects"
)

// Resizer enlarges volumes.
type Resizer interface {
	// Volume returns one volume; ErrNotFound without it, ErrConflict if it is not tagged with id.
	Volume(ctx context.Context, name string, id seedbed.InstanceID) (seedbed.VolumeInfo, error)
	// ResizeVolume makes sure that the volume has that size, and returns it. The domain that has it
	// open may already have given it the size (DomainResizer). From then on CloneVolume accepts any
	// size that the volume has had. Errors are those of Volume, ErrInvalid if the volume would
	// become smaller, ErrInUse if the driver cannot resize an open volume, ErrFull without room.
	ResizeVolume(ctx context.Context, name string, id seedbed.InstanceID, size seedbed.Bytes) (seedbed.VolumeInfo, error)
}

// DomainResizer changes the size of domains.
type DomainResizer interface {
	// ResizeDisk gives the disk of a running domain that size, and tells its guest. It does nothing
	// for a domain that is off, absent or without that disk. Errors: ErrConflict if the domain is
	// not tagged, ErrInvalid if the disk is already larger.
	ResizeDisk(ctx context.Context, id seedbed.InstanceID, disk seedbed.Disk, size seedbed.Bytes) error
	// ResizeDomain sets the vCPUs and memory of a domain that is off. Zero leaves a value
	// unchanged, and nothing else changes. A domain that already has that size is not changed, and
	// may run. Errors: ErrNotFound, ErrInUse while it runs, ErrConflict if it is not tagged.
	ResizeDomain(ctx context.Context, id seedbed.InstanceID, vcpus int, memory seedbed.Bytes) error
}

// DomainChanger changes domains apart from their sizes, disks and NICs.
type DomainChanger interface {
	// ChangeDomain changes a domain's definition and, if it runs, what can be changed of its guest: the image in a CD-ROM drive that
	// the guest has. It returns the names, of seedbed.HardwareFields, of what the guest gets only when it is started again. A domain
	// that is as asked is not changed. Errors: ErrNotFound without the domain, ErrConflict if it is not tagged, ErrInvalid for a
	// change that cannot be made, ErrInUse if the guest has locked the drive and c.Force is not set; the definition has changed then.
	ChangeDomain(ctx context.Context, c seedbed.DomainChange) (pending []string, err error)
	// RenameDomain gives a domain that is off another name, and what is named by it on the host. A domain that has that name is not changed.
	// It may be repeated, with the former name as well. Errors: ErrNotFound without the domain, ErrInUse while it runs, ErrConflict if it
	// is not tagged or if another domain has the name.
	RenameDomain(ctx context.Context, id seedbed.InstanceID, name string) error
}

// DiskAttacher attaches volumes to domains.
type DiskAttacher interface {
	// AttachDisk attaches a volume to a domain: to its definition and, if it runs, to its guest. A volume with the same serial number
	// that is attached already is not changed. Errors: ErrNotFound without the domain, ErrConflict if it is not tagged, if another
	// disk has the device's name, or if a running domain has no place for another disk, ErrInvalid for a disk that cannot be used.
	AttachDisk(ctx context.Context, id seedbed.InstanceID, disk seedbed.AttachedDisk) error
	// DetachDisk takes the volume with that serial number from a domain. It asks the guest of a running one first, and returns ErrInUse
	// if that does not let go of it; the guest may still do so later. A volume that is not attached, or an absent domain, counts as
	// detached. ErrConflict if the domain is not tagged.
	DetachDisk(ctx context.Context, id seedbed.InstanceID, serial string) error
	// LimitDisk says how fast the volume with that serial number may be, in the domain's definition and at a guest that runs. A domain
	// without that volume, and an absent domain, are not changed. ErrConflict if the domain is not tagged.
	LimitDisk(ctx context.Context, id seedbed.InstanceID, serial string, l seedbed.IOLimits) error
}

// NICAttacher attaches NICs to domains.
type NICAttacher interface {
	// AttachNIC attaches a NIC to a domain: to its definition and, if it runs, to its guest. The guest plane has its filters by then. A NIC
	// with the same MAC address at the same place is not changed. Errors: ErrNotFound without the domain, ErrConflict if it is not tagged,
	// if it has a NIC with that MAC address at another place, or if a running domain has no place for another NIC, ErrInvalid for a NIC
	// that cannot be made.
	AttachNIC(ctx context.Context, id seedbed.InstanceID, nic seedbed.DomainNIC) error
	// DetachNIC takes the NIC with that MAC address from a domain. It asks the guest of a running one first, and returns ErrInUse if that
	// does not let go of it; the guest may still do so later. A NIC that is not there, or an absent domain, counts as detached.
	// ErrConflict if the domain is not tagged.
	DetachNIC(ctx context.Context, id seedbed.InstanceID, mac seedbed.MAC) error
}

// attach attaches a volume of a pool to a domain.
func (s *Server) attach(ctx context.Context, a effects.DiskAttachment) error {
	pool, err := s.owned(a.Volume.Pool, a.Volume.Instance)
	if err == nil {
		err = checkInstance(a.ID)
	}
	if err != nil {
		return err
	}
	info, err := pool.Volume(ctx, a.Volume.Name, a.Volume.Instance)
	if err != nil {
		return err
	}
	return s.hypervisor.AttachDisk(ctx, a.ID,
		seedbed.AttachedDisk{Disk: info.Disk, Serial: a.Serial, Bus: a.Bus, Device: a.Device, Limits: a.Limits})
}

// resize enlarges a volume. A domain that has it open resizes it first; the pool then makes sure of
// the size and records it.
func (s *Server) resize(ctx context.Context, a effects.VolumeSize) (seedbed.VolumeInfo, error) {
	pool, err := s.owned(a.Pool, a.Instance)
	domain := cmp.Or(a.Domain, a.Instance)
	if err == nil {
		err = cmp.Or(checkInstance(domain), seedbed.CheckDisk("size", a.Size))
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
	if err := s.hypervisor.ResizeDisk(ctx, domain, have.Disk, a.Size); err != nil {
		return seedbed.VolumeInfo{}, err
	}
	return pool.ResizeVolume(ctx, a.Name, a.Instance, a.Size)
}
