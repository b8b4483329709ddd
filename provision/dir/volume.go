package dir

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"seedbed"
	"seedbed/provision/image"
	"seedbed/provision/pooltag"
)

// cloneRoom is more than a new, empty qcow2 file takes.
const cloneRoom = 1 * seedbed.MiB

// CloneVolume implements worker.Cloner. The volume is a thin qcow2 file with the image as its
// backing file. The path is relative, so that the pool can be moved.
func (p *Pool) CloneVolume(ctx context.Context, job seedbed.JobID, spec seedbed.VolumeSpec) (seedbed.VolumeInfo, error) {
	if err := pooltag.CheckSpec(spec); err != nil {
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
	want := tag{Name: spec.Name, Job: job, Instance: spec.Instance, Project: spec.Project, Image: spec.Image, Size: int64(size)}
	have, err := p.look(volumes, spec.Name)
	if err != nil {
		return seedbed.VolumeInfo{}, err
	}
	if have != nil {
		if err := have.CheckSame(p.name, want); err != nil {
			return seedbed.VolumeInfo{}, err
		}
		return p.volume(have), nil
	}
	if err := p.makeVolume(ctx, want); err != nil {
		return seedbed.VolumeInfo{}, fmt.Errorf("make volume %s: %w", spec.Name, err)
	}
	return p.volume(&want), nil
}

// volumeSize checks the requested size against the image's.
func (p *Pool) volumeSize(spec seedbed.VolumeSpec) (seedbed.Bytes, error) {
	if spec.Image == "" {
		return spec.Size, nil
	}
	base, err := p.look(images, spec.Image)
	if err != nil {
		return 0, err
	}
	if base == nil {
		return 0, seedbed.Errorf(seedbed.ErrNotFound, "image %q is not in pool %s", spec.Image, p.name)
	}
	return base.CloneSize(spec)
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
		backing = filepath.Join("..", images, pooltag.FileName(t.Image)+suffix)
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
	file := p.contents(t)
	return t.VolumeInfo(p.name, seedbed.Disk{Type: "file", Source: file.Path, Format: string(image.QCOW2), Backing: file.Backing})
}

// contents returns the volume's file, with the image that its tag says.
func (p *Pool) contents(t *tag) image.Volume {
	file := image.Volume{Path: p.file(volumes, t.Name)}
	if t.Clone() {
		file.Backing = p.file(images, t.Image)
	}
	return file
}

// VolumeAt returns the volume whose file is at path. ok is false if that is not a volume of this pool.
func (p *Pool) VolumeAt(path string) (file image.Volume, ok bool, err error) {
	name, ok := strings.CutSuffix(filepath.Base(path), suffix)
	if !ok || path != p.file(volumes, name) {
		return image.Volume{}, false, nil
	}
	t, err := p.look(volumes, name)
	if errors.Is(err, seedbed.ErrConflict) { // a file without our tag
		return image.Volume{}, false, nil
	}
	if t == nil || err != nil {
		return image.Volume{}, false, err
	}
	return p.contents(t), true, nil
}

// own finds an instance's volume. It returns nil if there is none of that name, and ErrConflict if
// it belongs to another instance.
func (p *Pool) own(name string, id seedbed.InstanceID) (*tag, error) {
	have, err := p.look(volumes, name)
	if have == nil || err != nil {
		return nil, err
	}
	if err := have.CheckOwner(p.name, id); err != nil {
		return nil, err
	}
	return have, nil
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
