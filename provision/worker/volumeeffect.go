package worker

import (
	"context"

	"seedbed"
)

// volumeEffects are the effects on volumes that are there, and on the trash.
// Those of the trash are asked for by people and not by jobs, so they are not fenced: each
// names what it wants, and the driver keeps them apart.
func (s *Server) volumeEffects() map[string]effect {
	return map[string]effect{
		createSnapshot: does(func(ctx context.Context, c seedbed.Call, a seedbed.SnapshotSpec, _ *outbox) (info seedbed.SnapshotInfo, err error) {
			pool, err := s.owned(a.Pool, a.Instance)
			if err != nil {
				return info, err
			}
			return pool.CreateSnapshot(ctx, c.Job, a)
		}),
		removeSnapshot: does(func(ctx context.Context, _ seedbed.Call, a snapshotArgs, _ *outbox) (none, error) {
			pool, err := s.owned(a.Pool, a.Instance)
			if err != nil {
				return none{}, err
			}
			return none{}, pool.RemoveSnapshot(ctx, a.SnapshotSpec, a.Of)
		}),
		snapshots: reads(func(ctx context.Context, a volumeArgs) ([]seedbed.SnapshotInfo, error) {
			pool, err := s.owned(a.Pool, a.Instance)
			if err != nil {
				return nil, err
			}
			return pool.Snapshots(ctx, a.Name, a.Instance)
		}),
		flattenVolume: does(func(ctx context.Context, _ seedbed.Call, a volumeArgs, out *outbox) (info seedbed.VolumeInfo, err error) {
			pool, err := s.owned(a.Pool, a.Instance)
			if err != nil {
				return info, err
			}
			return pool.FlattenVolume(ctx, a.Name, a.Instance, out.progress)
		}),
		stopFlatten: does(func(ctx context.Context, _ seedbed.Call, a volumeArgs, _ *outbox) (none, error) {
			pool, err := s.owned(a.Pool, a.Instance)
			if err != nil {
				return none{}, err
			}
			return none{}, pool.StopFlatten(ctx, a.Name, a.Instance)
		}),
		trashVolume: does(func(ctx context.Context, _ seedbed.Call, a volumeArgs, _ *outbox) (*seedbed.TrashItem, error) {
			pool, err := s.owned(a.Pool, a.Instance)
			if err != nil {
				return nil, err
			}
			return pool.TrashVolume(ctx, a.Name, a.Instance)
		}),
		trash: reads(func(ctx context.Context, _ none) ([]seedbed.TrashItem, error) { return s.removed(ctx) }),
		restoreVolume: reads(func(ctx context.Context, a trashArgs) (info seedbed.VolumeInfo, err error) {
			pool, err := s.bin(a)
			if err != nil {
				return info, err
			}
			return pool.RestoreVolume(ctx, a.ID)
		}),
		discardVolume: reads(func(ctx context.Context, a imageArgs) (*seedbed.TrashItem, error) {
			return s.discard(ctx, a.Pool, a.Name)
		}),
		purgeVolume: reads(func(ctx context.Context, a trashArgs) (none, error) {
			pool, err := s.bin(a)
			if err != nil {
				return none{}, err
			}
			return none{}, pool.PurgeVolume(ctx, a.ID, a.Early)
		}),
	}
}

// owned is the pool of an instance's volume.
func (s *Server) owned(pool string, id seedbed.InstanceID) (Pool, error) {
	p, err := s.pool(pool)
	if err == nil {
		err = checkInstance(id)
	}
	return p, err
}

// bin is the pool whose trash is meant.
func (s *Server) bin(a trashArgs) (Pool, error) {
	p, err := s.pool(a.Pool)
	if err == nil {
		err = seedbed.CheckName("trash item", a.ID)
	}
	return p, err
}

// removed is what is in the trash of every pool, and what came back from it.
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

// discard puts a restored volume back into the trash. It gives ErrConflict for one that never was there.
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
			return nil, seedbed.Errorf(seedbed.ErrConflict, "volume %s in pool %s is instance %s's and did not come from the trash: it goes with its instance", name, pool, v.Instance)
		default:
			return p.TrashVolume(ctx, name, v.Instance)
		}
	}
	return nil, seedbed.Errorf(seedbed.ErrNotFound, "volume %q is not in pool %s", name, pool)
}
