package script

import (
	"context"
	"errors"
	"fmt"
	"path"

	"seedbed"
)

// deviceDir is where scripts find the block devices of volumes (PVC's, by krbd's udev rules).
const deviceDir = "/dev/rbd"

// device maps or unmaps a volume for the script, and returns the answer to it.
func (s *session) device(ctx context.Context, m message) (string, error) {
	v := volume{m.Args.Pool, m.Args.Name + s.start.Suffix}
	if err := errors.Join(seedbed.CheckName("pool", v.pool), seedbed.CheckName("volume", m.Args.Name),
		seedbed.CheckName("volume", v.name)); err != nil {
		return "", err
	}
	mapper, ok := s.mappers[v.pool]
	if !ok {
		return "", fmt.Errorf("pool %q has no volumes that this host can map", v.pool)
	}
	device := path.Join(deviceDir, v.pool, m.Args.Name)
	switch m.Call {
	case "map_volume":
		return device, s.mapVolume(ctx, mapper, v, device)
	case "unmap_volume":
		return fmt.Sprintf(`Unmapped RBD volume "%s" in pool "%s".`, m.Args.Name, v.pool), s.unmapVolume(ctx, v, device)
	}
	return "", fmt.Errorf("unknown call %q", seedbed.Clip(m.Call))
}

// source maps the volume that the engine made as a stand-in for an image that the script asked for,
// under the image's name: scripts never open the image itself.
func (s *session) source(ctx context.Context, asked volume, name string) (string, error) {
	device := path.Join(deviceDir, asked.pool, asked.name)
	return device, s.mapVolume(ctx, s.mappers[asked.pool], volume{asked.pool, name}, device)
}

func (s *session) mapVolume(ctx context.Context, mapper Mapper, v volume, device string) error {
	s.mu.Lock()
	_, there := s.mapped[device]
	there = there && !s.hidden[device]
	s.mapped[device] = v // first, because closing the session unmaps what is in mapped
	s.mu.Unlock()
	if there {
		return nil
	}
	host, err := mapper.MapVolume(ctx, s.call.Job, v.name, s.start.Instance)
	switch {
	case errors.Is(err, seedbed.ErrNotFound):
		err = seedbed.Errorf(seedbed.ErrNotFound, `No volume with name "%s" is present in pool "%s".`, path.Base(device), v.pool)
	case err == nil:
		if err = s.box.AddDevice(device, host); err != nil {
			err = errors.Join(err, mapper.UnmapVolume(ctx, v.name, s.start.Instance))
		}
	}
	if err != nil && ctx.Err() == nil {
		s.forget(device)
	}
	if err == nil {
		s.hide(device, false)
	}
	return err
}

func (s *session) unmapVolume(ctx context.Context, asked volume, device string) error {
	s.mu.Lock()
	v, there := s.mapped[device]
	s.mu.Unlock()
	if !there {
		return seedbed.Errorf(seedbed.ErrNotFound, `Volume "%s" in pool "%s" is not mapped.`, path.Base(device), asked.pool)
	}
	if err := s.box.RemoveDevice(device); err != nil {
		return err
	}
	s.hide(device, true)
	if err := s.mappers[v.pool].UnmapVolume(ctx, v.name, s.start.Instance); err != nil {
		return err
	}
	s.forget(device)
	return nil
}

// hide records whether the script does not see a device that is mapped.
func (s *session) hide(device string, hidden bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if hidden {
		s.hidden[device] = true
	} else {
		delete(s.hidden, device)
	}
}

func (s *session) forget(device string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.mapped, device)
	delete(s.hidden, device)
}
