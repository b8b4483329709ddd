package worker

import (
	"context"
	"errors"

	"seedbed"
	"seedbed/provision/effects"
)

// Adopter takes disks that are there as volumes, and lets go of volumes.
type Adopter interface {
	// Locate tells whether the pool can take the disk, and what it would be: its
	// pool, size and image. ErrNotFound when it is nowhere that the pool reaches,
	// ErrInvalid or ErrConflict when it is there and cannot be taken.
	Locate(ctx context.Context, d seedbed.ForeignDisk) (seedbed.ForeignDisk, error)
	// AdoptVolume gives the disk the name and the tag of a volume, and returns it. One
	// that was taken already is returned as it is. Errors are Locate's, ErrInUse while it
	// is open, ErrConflict when the name is taken.
	AdoptVolume(ctx context.Context, job seedbed.JobID, a seedbed.VolumeAdoption) (seedbed.VolumeInfo, error)
	// ReleaseVolume takes the tag off a volume that is tagged with the instance: with
	// a source it also goes back there. One that is not a volume is released already.
	// ErrConflict for another's volume, or when the source is taken.
	ReleaseVolume(ctx context.Context, a seedbed.VolumeAdoption) error
}

// DomainAdopter takes domains that are there as instances', and lets go of them.
type DomainAdopter interface {
	// ForeignDomains are all that do not carry the tag, without their disks and NICs.
	ForeignDomains(ctx context.Context) ([]seedbed.ForeignDomain, error)
	// ForeignDomain is one of them by its name, with what keeps it from being
	// adopted; ErrNotFound, ErrConflict for one that is tagged.
	ForeignDomain(ctx context.Context, name string) (seedbed.ForeignDomain, error)
	// AdoptDomain tags the domain, and points its disks and NICs to where they are
	// from now on. One that is tagged already stays as it is. ErrNotFound, ErrInUse
	// while it runs, ErrConflict when its name or its disks are not those of the adoption.
	AdoptDomain(ctx context.Context, a seedbed.DomainAdoption) error
	// ReleaseDomain takes the tag off. With sources the domain, which must be off,
	// is what it was before; without, it stays as it is, and may run. One that is absent
	// or not tagged is released already.
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

// foreign is a domain that could be adopted, with the pools that can take its disks.
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
	return d, seedbed.Errorf(seedbed.ErrNotFound, "disk %s is at %s, which no pool reaches: move it to the file system or the Ceph pool of one", d.Target, d.Source)
}
