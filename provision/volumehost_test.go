package provision

import (
	"context"

	"seedbed"
	"seedbed/provision/worker/drivertest"
)

// second is the name of a pool that the host of a lab has besides its first one.
const second = "second"

// in returns the pool of that name.
func (h *host) in(pool string) *drivertest.Pool {
	if pool == second {
		return h.other
	}
	return h.pool
}

func (h *host) TrashVolume(ctx context.Context, call seedbed.Call, pool, name string, id seedbed.InstanceID) (*seedbed.TrashItem, error) {
	if err := h.fence(call); err != nil {
		return nil, err
	}
	return h.in(pool).TrashVolume(ctx, name, id)
}

func (h *host) CreateSnapshot(ctx context.Context, call seedbed.Call, spec seedbed.SnapshotSpec) (seedbed.SnapshotInfo, error) {
	if err := h.fence(call); err != nil {
		return seedbed.SnapshotInfo{}, err
	}
	return h.in(spec.Pool).CreateSnapshot(ctx, call.Job, spec)
}

func (h *host) RestoreSnapshot(ctx context.Context, call seedbed.Call, spec seedbed.SnapshotSpec) error {
	if err := h.fence(call); err != nil {
		return err
	}
	if d, err := h.hv.DomainState(ctx, spec.Instance); err == nil && d.State != seedbed.DomainOff {
		return seedbed.Errorf(seedbed.ErrInUse, "domain %s has volume %s open", d.Name, spec.Volume)
	}
	return h.pool.RestoreSnapshot(ctx, spec)
}

func (h *host) FlattenVolume(
	ctx context.Context, call seedbed.Call, _, name string, id seedbed.InstanceID, progress func(seedbed.Progress),
) (seedbed.VolumeInfo, error) {
	if err := h.fence(call); err != nil {
		return seedbed.VolumeInfo{}, err
	}
	return h.pool.FlattenVolume(ctx, name, id, progress)
}

func (h *host) StopFlatten(ctx context.Context, call seedbed.Call, pool, name string, id seedbed.InstanceID) error {
	if err := h.fence(call); err != nil {
		return err
	}
	return h.in(pool).StopFlatten(ctx, name, id)
}

func (h *host) Trash(ctx context.Context) ([]seedbed.TrashItem, error) { return h.pool.Trash(ctx) }

func (h *host) PurgeVolume(ctx context.Context, _, id string, early bool) error {
	return h.pool.PurgeVolume(ctx, id, early)
}

func (h *host) AdoptVolume(ctx context.Context, call seedbed.Call, a seedbed.VolumeAdoption) (seedbed.VolumeInfo, error) {
	if err := h.fence(call); err != nil {
		return seedbed.VolumeInfo{}, err
	}
	return h.pool.AdoptVolume(ctx, call.Job, a)
}

func (h *host) ReleaseVolume(ctx context.Context, call seedbed.Call, a seedbed.VolumeAdoption) error {
	if err := h.fence(call); err != nil {
		return err
	}
	return h.pool.ReleaseVolume(ctx, a)
}

func (h *host) AdoptDomain(ctx context.Context, call seedbed.Call, a seedbed.DomainAdoption) error {
	if err := h.fence(call); err != nil {
		return err
	}
	return h.hv.AdoptDomain(ctx, a)
}

func (h *host) ReleaseDomain(ctx context.Context, call seedbed.Call, a seedbed.DomainAdoption) error {
	if err := h.fence(call); err != nil {
		return err
	}
	return h.hv.ReleaseDomain(ctx, a)
}

func (h *host) DropUpload(ctx context.Context, _, id string) error { return h.pool.DropUpload(ctx, id) }
