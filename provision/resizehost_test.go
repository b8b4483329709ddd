package provision

import (
	"context"

	"seedbed"
)

func (h *host) ResizeVolume(
	ctx context.Context, call seedbed.Call, _, name string, id seedbed.InstanceID, size seedbed.Bytes,
) (seedbed.VolumeInfo, error) {
	if err := h.fence(call); err != nil {
		return seedbed.VolumeInfo{}, err
	}
	have, err := h.pool.Volume(ctx, name, id)
	if err != nil {
		return have, err
	}
	if err := h.hv.ResizeDisk(ctx, id, have.Disk, size); err != nil {
		return have, err
	}
	return h.pool.ResizeVolume(ctx, name, id, size)
}

func (h *host) ResizeDomain(ctx context.Context, call seedbed.Call, id seedbed.InstanceID, vcpus int, memory seedbed.Bytes) error {
	if err := h.fence(call); err != nil {
		return err
	}
	return h.hv.ResizeDomain(ctx, id, vcpus, memory)
}
