package worker

import (
	"context"

	"seedbed"
	"seedbed/provision/effects"
)

// handleTrash adds the effects on the trash. Operators request all of them except the first, so
// those are not fenced: each names its item, and the driver serializes them.
func (s *Server) handleTrash(h effects.Handlers) {
	effects.TrashVolume.Handle(h, func(
		ctx context.Context, _ seedbed.Call, a effects.VolumeRef, _ effects.Listener,
	) (*seedbed.TrashItem, error) {
		pool, err := s.owned(a.Pool, a.Instance)
		if err != nil {
			return nil, err
		}
		return pool.TrashVolume(ctx, a.Name, a.Instance)
	})
	effects.Trash.Handle(h, func(ctx context.Context, _ effects.None) ([]seedbed.TrashItem, error) { return s.removed(ctx) })
	effects.RestoreVolume.Handle(h, func(ctx context.Context, a effects.TrashRef) (info seedbed.VolumeInfo, err error) {
		pool, err := s.bin(a)
		if err != nil {
			return info, err
		}
		return pool.RestoreVolume(ctx, a.ID)
	})
	effects.DiscardVolume.Handle(h, func(ctx context.Context, a effects.ImageRef) (*seedbed.TrashItem, error) {
		return s.discard(ctx, a.Pool, a.Name)
	})
	effects.PurgeVolume.Handle(h, func(ctx context.Context, a effects.TrashRef) (none effects.None, err error) {
		pool, err := s.bin(a)
		if err != nil {
			return none, err
		}
		return none, pool.PurgeVolume(ctx, a.ID, a.Early)
	})
}

// bin returns the pool whose trash is meant.
func (s *Server) bin(a effects.TrashRef) (Pool, error) {
	p, err := s.pool(a.Pool)
	if err == nil {
		err = seedbed.CheckName("trash item", a.ID)
	}
	return p, err
}

// removed returns what is in the trash of every pool, and what was restored from it.
func (s *Server) removed(ctx context.Context) ([]seedbed.TrashItem, error) {
	var all []seedbed.TrashItem
	for _, name := range s.poolNames() {
		items, err := s.pools[name].Trash(ctx)
		if err != nil {
			return nil, err
		}
		volumes, err := s.pools[name].Volumes(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, items...)
		for _, v := range volumes {
			if v.Restored {
				all = append(all, seedbed.TrashItem{Pool: v.Pool, Name: v.Name, State: seedbed.Restored, Instance: v.Instance, Size: v.Size})
			}
		}
	}
	return all, nil
}

// discard puts a restored volume back into the trash. It returns ErrConflict for a volume that
// never was in the trash.
func (s *Server) discard(ctx context.Context, pool, name string) (*seedbed.TrashItem, error) {
	p, err := s.pool(pool)
	if err != nil {
		return nil, err
	}
	volumes, err := p.Volumes(ctx)
	if err != nil {
		return nil, err
	}
	for _, v := range volumes {
		switch {
		case v.Name != name:
		case !v.Restored:
			return nil, seedbed.Errorf(seedbed.ErrConflict,
				"volume %s in pool %s is instance %s's and did not come from the trash: it is removed with its instance", name, pool, v.Instance)
		default:
			return p.TrashVolume(ctx, name, v.Instance)
		}
	}
	return nil, seedbed.Errorf(seedbed.ErrNotFound, "volume %q is not in pool %s", name, pool)
}
