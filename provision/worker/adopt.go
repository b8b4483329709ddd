package worker

import (
	"context"
	"errors"

	"seedbed"
	"seedbed/provision/effects"
)

// Adopter makes existing disks volumes, and releases volumes.
type Adopter interface {
	// Locate returns what the disk would be as a volume: its pool, size and image. Errors:
	// ErrNotFound if it is nowhere that the pool reaches, ErrInvalid or ErrConflict if it exists
	// and cannot be adopted.
	Locate(ctx context.Context, d seedbed.ForeignDisk) (seedbed.ForeignDisk, error)
	// AdoptVolume gives the disk the name and the tag of a volume, and returns it. A disk that is
	// already adopted is returned unchanged. Errors are those of Locate, ErrInUse while the disk is
	// open, ErrConflict if the name is taken.
	AdoptVolume(ctx context.Context, job seedbed.JobID, a seedbed.VolumeAdoption) (seedbed.VolumeInfo, error)
	// ReleaseVolume removes the tag from a volume that is tagged with the instance. With a source
	// it also moves the disk back there. A disk that is not a volume counts as released.
	// ErrConflict for a volume of another instance, or if the source is taken.
	ReleaseVolume(ctx context.Context, a seedbed.VolumeAdoption) error
}

// DomainAdopter makes existing domains those of instances, and releases them.
type DomainAdopter interface {
	// ForeignDomains returns all domains without the tag, and without their disks and NICs.
	ForeignDomains(ctx context.Context) ([]seedbed.ForeignDomain, error)
	// ForeignDomain returns one of them by its name, with the reasons why it cannot be adopted.
	// Errors: ErrNotFound, ErrConflict for a tagged domain.
	ForeignDomain(ctx context.Context, name string) (seedbed.ForeignDomain, error)
	// AdoptDomain tags the domain, and points its disks and NICs to their new places. A domain that
	// is already tagged is not changed. Errors: ErrNotFound, ErrInUse while the domain runs,
	// ErrConflict if its name or its disks are not those of the adoption.
	AdoptDomain(ctx context.Context, a seedbed.DomainAdoption) error
	// ReleaseDomain removes the tag. With sources it restores what the domain was before; the
	// domain must be off. Without sources the domain does not otherwise change, and may run. A
	// domain that is absent or not tagged counts as released.
	ReleaseDomain(ctx context.Context, a seedbed.DomainAdoption) error
}

// handleForeign adds the effects that adopt and release domains and volumes.
func (s *Server) handleForeign(h effects.Handlers) {
	effects.ForeignDomains.Handle(h, func(ctx context.Context, _ effects.None) ([]seedbed.ForeignDomain, error) {
		all, err := s.hypervisor.ForeignDomains(ctx)
		for i := range all {
			all[i].Node = s.node
		}
		return all, err
	})
	effects.ForeignDomain.Handle(h, func(ctx context.Context, a effects.DomainName) (seedbed.ForeignDomain, error) {
		return s.foreign(ctx, a.Name)
	})
	effects.AdoptVolume.Handle(h, func(
		ctx context.Context, c seedbed.Call, a seedbed.VolumeAdoption, _ effects.Listener,
	) (info seedbed.VolumeInfo, err error) {
		pool, err := s.owned(a.Pool, a.Instance)
		if err != nil {
			return info, err
		}
		return pool.AdoptVolume(ctx, c.Job, a)
	})
	effects.ReleaseVolume.Handle(h, func(ctx context.Context, _ seedbed.Call, a seedbed.VolumeAdoption) error {
		pool, err := s.owned(a.Pool, a.Instance)
		if err != nil {
			return err
		}
		return pool.ReleaseVolume(ctx, a)
	})
	effects.AdoptDomain.Handle(h, func(ctx context.Context, _ seedbed.Call, a seedbed.DomainAdoption) error {
		if err := checkInstance(a.ID); err != nil {
			return err
		}
		return s.hypervisor.AdoptDomain(ctx, a)
	})
	effects.ReleaseDomain.Handle(h, func(ctx context.Context, _ seedbed.Call, a seedbed.DomainAdoption) error {
		if err := checkInstance(a.ID); err != nil {
			return err
		}
		return s.hypervisor.ReleaseDomain(ctx, a)
	})
}

// foreign returns a domain that could be adopted, with the pools that can take its disks.
func (s *Server) foreign(ctx context.Context, name string) (seedbed.ForeignDomain, error) {
	d, err := s.hypervisor.ForeignDomain(ctx, name)
	if err != nil {
		return d, err
	}
	d.Node = s.node
	for i, disk := range d.Disks {
		found, err := s.locate(ctx, disk)
		switch {
		case err == nil:
			d.Disks[i] = found
		case errors.Is(err, seedbed.ErrUnavailable):
			return d, err
		default:
			d.Problems = append(d.Problems, err.Error())
		}
	}
	return d, nil
}

func (s *Server) locate(ctx context.Context, d seedbed.ForeignDisk) (seedbed.ForeignDisk, error) {
	for _, name := range s.poolNames() {
		found, err := s.pools[name].Locate(ctx, d)
		if !errors.Is(err, seedbed.ErrNotFound) {
			return found, err
		}
	}
	return d, seedbed.Errorf(seedbed.ErrNotFound,
		"disk %s is at %s, which no pool reaches: move it to the file system or the Ceph pool of one", d.Target, d.Source)
}
