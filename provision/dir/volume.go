package dir

import (
	"context"
	"fmt"
	"path/filepath"

	"seedbed"
	"seedbed/provision/image"
)

// cloneRoom is more than a new, empty qcow2 file takes.
const cloneRoom = 1 * seedbed.MiB

// sector is the unit of virtual sizes.
const sector = 512

// CloneVolume implements worker.Cloner. The volume is a thin qcow2 file with the image as its
// backing file. The path is relative, so that the pool can be moved.
func (p *Pool) CloneVolume(ctx context.Context, job seedbed.JobID, spec seedbed.VolumeSpec) (seedbed.VolumeInfo, error) {
	if err := seedbed.CheckName("volume", spec.Name); err != nil {
		return seedbed.VolumeInfo{}, err
	}
	if err := p.enter(ctx); err != nil {
		return seedbed.VolumeInfo{}, fmt.Errorf("make volume %s: %w", spec.Name, err)
	}
	defer p.leave()
	size, err := p.volumeSize(spec)
	if err != nil {
		return seedbed.VolumeInfo{}, err
	}
	want := tag{Name: spec.Name, Job: job, Instance: spec.Instance, Image: spec.Image, Size: int64(size)}
	have, err := p.look(volumes, spec.Name)
	if err != nil {
		return seedbed.VolumeInfo{}, err
	}
	if have != nil {
		return p.adopt(have, want)
	}
	if err := p.makeVolume(ctx, want); err != nil {
		return seedbed.VolumeInfo{}, fmt.Errorf("make volume %s: %w", spec.Name, err)
	}
	return p.volume(&want), nil
}

// volumeSize checks the requested size against the image's.
func (p *Pool) volumeSize(spec seedbed.VolumeSpec) (seedbed.Bytes, error) {
	size := spec.Size
	if size < 0 || size%sector != 0 || size > image.MaxSize {
		return 0, seedbed.Errorf(seedbed.ErrInvalid, "size %d of volume %s is not usable: expected a multiple of %d bytes, at most %s", size,
			spec.Name, sector, image.MaxSize)
	}
	if spec.Image == "" {
		if size == 0 {
			return 0, seedbed.Errorf(seedbed.ErrInvalid, "volume %s has no image and no size: a blank volume needs a size", spec.Name)
		}
		return size, nil
	}
	if err := seedbed.CheckName("image", spec.Image); err != nil {
		return 0, err
	}
	base, err := p.look(images, spec.Image)
	if err != nil {
		return 0, err
	}
	if base == nil {
		return 0, seedbed.Errorf(seedbed.ErrNotFound, "image %q is not in pool %s", spec.Image, p.name)
	}
	if size == 0 {
		return seedbed.Bytes(base.Size), nil
	}
	if size < seedbed.Bytes(base.Size) {
		return 0, seedbed.Errorf(seedbed.ErrInvalid, "disk size %s is smaller than image %s, which needs at least %s", size, spec.Image,
			seedbed.Bytes(base.Size))
	}
	return size, nil
}

// adopt accepts an existing volume, or returns why it cannot.
func (p *Pool) adopt(have *tag, want tag) (seedbed.VolumeInfo, error) {
	switch {
	case have.Instance != want.Instance:
		return seedbed.VolumeInfo{}, seedbed.Errorf(seedbed.ErrConflict, "volume %s in pool %s belongs to instance %s", have.Name, p.name,
			have.Instance)
	case have.Image != want.Image && !(have.Flat && want.Image == "") || !have.had(want.Size):
		return seedbed.VolumeInfo{}, seedbed.Errorf(seedbed.ErrConflict,
			"volume %s in pool %s exists with image %q and size %s, not image %q and size %s", have.Name, p.name, have.Image,
			seedbed.Bytes(have.Size), want.Image, seedbed.Bytes(want.Size))
	}
	return p.volume(have), nil
}

func (p *Pool) makeVolume(ctx context.Context, t tag) error {
	if err := p.need(cloneRoom); err != nil {
		return err
	}
	path, err := p.tempPath()
	if err != nil {
		return err
	}
	defer p.discard(path)
	backing := ""
	if t.Image != "" {
		backing = filepath.Join("..", images, t.Image+suffix)
	}
	if err := image.Create(ctx, path, backing, seedbed.Bytes(t.Size)); err != nil {
		return p.room(err)
	}
	return p.publish(path, volumes, 0o600, t)
}

// RemoveVolume implements worker.Remover.
func (p *Pool) RemoveVolume(ctx context.Context, name string, id seedbed.InstanceID) error {
	if err := seedbed.CheckName("volume", name); err != nil {
		return err
	}
	if err := p.enter(ctx); err != nil {
		return fmt.Errorf("remove volume %s: %w", name, err)
	}
	defer p.leave()
	have, err := p.free(name, id)
	if have == nil || err != nil {
		return err
	}
	if err := p.withdraw(volumes, name); err != nil {
		return fmt.Errorf("remove volume %s: %w", name, err)
	}
	return nil
}

func (p *Pool) volume(t *tag) seedbed.VolumeInfo {
	disk := seedbed.Disk{Type: "file", Source: p.file(volumes, t.Name), Format: string(image.QCOW2)}
	if t.clone(t.Image) {
		disk.Backing = p.file(images, t.Image)
	}
	return seedbed.VolumeInfo{
		Pool: p.name, Name: t.Name, Instance: t.Instance, Job: t.Job, Size: seedbed.Bytes(t.Size), Disk: disk, Restored: t.Trash != nil,
	}
}

// own finds an instance's volume. It returns nil if there is none of that name, and ErrConflict if
// it belongs to another instance.
func (p *Pool) own(name string, id seedbed.InstanceID) (*tag, error) {
	have, err := p.look(volumes, name)
	if have != nil && (id == "" || have.Instance != id) {
		return nil, seedbed.Errorf(seedbed.ErrConflict, "volume %s in pool %s belongs to instance %s, not to %s: it is not changed", name, p.name,
			have.Instance, id)
	}
	return have, err
}

// there is like own for a volume that must exist.
func (p *Pool) there(name string, id seedbed.InstanceID) (*tag, error) {
	if err := seedbed.CheckName("volume", name); err != nil {
		return nil, err
	}
	have, err := p.own(name, id)
	if have == nil && err == nil {
		err = seedbed.Errorf(seedbed.ErrNotFound, "volume %q is not in pool %s", name, p.name)
	}
	return have, err
}
