package provision

import (
	"cmp"
	"context"

	"seedbed"
	"seedbed/provision/effects"
)

func (h *host) ResizeVolume(
	ctx context.Context, call seedbed.Call, name string, id, domain seedbed.InstanceID, size seedbed.Bytes,
) (seedbed.VolumeInfo, error) {
	if err := h.fence(call); err != nil {
		return seedbed.VolumeInfo{}, err
	}
	have, err := h.pool.Volume(ctx, name, id)
	if err != nil {
		return have, err
	}
	if err := h.hv.ResizeDisk(ctx, cmp.Or(domain, id), have.Disk, size); err != nil {
		return have, err
	}
	return h.pool.ResizeVolume(ctx, name, id, size)
}

func (h *host) AttachDisk(ctx context.Context, call seedbed.Call, a effects.DiskAttachment) error {
	if err := h.fence(call); err != nil {
		return err
	}
	info, err := h.in(a.Volume.Pool).Volume(ctx, a.Volume.Name, a.Volume.Instance)
	if err != nil {
		return err
	}
	return h.hv.AttachDisk(ctx, a.ID, seedbed.AttachedDisk{Disk: info.Disk, Serial: a.Serial, Bus: a.Bus, Device: a.Device, Limits: a.Limits})
}

func (h *host) DetachDisk(ctx context.Context, call seedbed.Call, a effects.DiskSerial) error {
	if err := h.fence(call); err != nil {
		return err
	}
	return h.hv.DetachDisk(ctx, a.ID, a.Serial)
}

func (h *host) AttachNIC(ctx context.Context, call seedbed.Call, a effects.NICAttachment) error {
	if err := h.fence(call); err != nil {
		return err
	}
	return h.hv.AttachNIC(ctx, a.ID, a.NIC)
}

func (h *host) DetachNIC(ctx context.Context, call seedbed.Call, a effects.NICRef) error {
	if err := h.fence(call); err != nil {
		return err
	}
	return h.hv.DetachNIC(ctx, a.ID, a.MAC)
}

func (m *mortal) SetHardware(ctx context.Context, ref seedbed.JobRef, h seedbed.Hardware, pending []string) error {
	return m.around("hardware", h.CDROM+" "+h.BootFrom, func() error { return m.taken(ref, m.DB.SetHardware(ctx, ref, h, pending)) })
}

func (m *mortal) SetNIC(ctx context.Context, ref seedbed.JobRef, to seedbed.NICState) error {
	return m.around("nic", string(to), func() error { return m.taken(ref, m.DB.SetNIC(ctx, ref, to)) })
}

func (m *mortal) MoveNIC(ctx context.Context, ref seedbed.JobRef, network string) error {
	return m.around("nic", network, func() error { return m.taken(ref, m.DB.MoveNIC(ctx, ref, network)) })
}

func (m *mortal) DropNIC(ctx context.Context, ref seedbed.JobRef) error {
	return m.around("nic", "", func() error { return m.taken(ref, m.DB.DropNIC(ctx, ref)) })
}

func (m *mortal) SetAttachment(ctx context.Context, ref seedbed.JobRef, to seedbed.VolumeState) error {
	return m.around("attachment", string(to), func() error { return m.taken(ref, m.DB.SetAttachment(ctx, ref, to)) })
}

func (m *mortal) SetVolumeSize(ctx context.Context, ref seedbed.JobRef, size seedbed.Bytes) error {
	return m.around("size", size.String(), func() error { return m.taken(ref, m.DB.SetVolumeSize(ctx, ref, size)) })
}

func (m *mortal) SetVolumeLimits(ctx context.Context, ref seedbed.JobRef, l seedbed.IOLimits) error {
	return m.around("limits", l.String(), func() error { return m.taken(ref, m.DB.SetVolumeLimits(ctx, ref, l)) })
}

func (m *mortal) SetVolumePlace(ctx context.Context, ref seedbed.JobRef, to seedbed.VolumePlace) error {
	return m.around("place", to.Pool, func() error { return m.taken(ref, m.DB.SetVolumePlace(ctx, ref, to)) })
}

func (h *host) LimitDisk(ctx context.Context, call seedbed.Call, a effects.DiskLimits) error {
	if err := h.fence(call); err != nil {
		return err
	}
	return h.hv.LimitDisk(ctx, a.ID, a.Serial, a.Limits)
}

func (h *host) ResizeDomain(ctx context.Context, call seedbed.Call, id seedbed.InstanceID, vcpus int, memory seedbed.Bytes) error {
	if err := h.fence(call); err != nil {
		return err
	}
	return h.hv.ResizeDomain(ctx, id, vcpus, memory)
}
