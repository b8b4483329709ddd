package dir

import (
	"context"
	"fmt"
	"os"

	"seedbed"
	"seedbed/provision/image"
)

// FlattenVolume implements worker.Flattener. The file is filled in place while no domain has it
// open. Its snapshots would lose the data that they read from the image, so a volume with snapshots
// is refused with ErrInUse.
func (p *Pool) FlattenVolume(
	ctx context.Context,
	name string,
	id seedbed.InstanceID,
	progress func(seedbed.Progress),
) (seedbed.VolumeInfo, error) {
	if progress == nil {
		progress = func(seedbed.Progress) {}
	}
	have, err := p.beginFlatten(ctx, name, id)
	if err != nil {
		return seedbed.VolumeInfo{}, err
	}
	size := seedbed.Bytes(have.Size)
	if have.Clone() {
		err := p.contents(have).Flatten(ctx, func(percent float64) {
			progress(seedbed.Progress{Done: seedbed.Bytes(percent / 100 * float64(size)), Total: size})
		})
		if err == nil {
			have, err = p.endFlatten(ctx, name, id)
		}
		if err != nil {
			return seedbed.VolumeInfo{}, fmt.Errorf("flatten volume %s in pool %s: %w", name, p.name, p.room(err))
		}
	}
	progress(seedbed.Progress{Done: size, Total: size})
	return p.volume(have), nil
}

// beginFlatten checks that the volume can be flattened and that there is space.
func (p *Pool) beginFlatten(ctx context.Context, name string, id seedbed.InstanceID) (*tag, error) {
	if err := p.enter(ctx); err != nil {
		return nil, fmt.Errorf("flatten volume %s: %w", name, err)
	}
	defer p.leave()
	have, err := p.there(name, id)
	if err != nil || !have.Clone() {
		return have, err
	}
	if err := p.mapper.Free(p.name, name); err != nil {
		return nil, err
	}
	if n := len(have.Snapshots); n > 0 {
		return nil, seedbed.Errorf(seedbed.ErrInUse,
			"volume %s in pool %s has snapshots, which read from the image: remove them first (seedbed vm snapshot remove), such as %s", name,
			p.name, have.Snapshots[n-1].Name)
	}
	st, err := os.Stat(p.file(images, have.Image))
	if err != nil {
		return nil, fmt.Errorf("flatten volume %s: %w", name, err)
	}
	return have, p.need(image.Allocated(st))
}

// endFlatten records in the tag that the volume no longer needs its image.
func (p *Pool) endFlatten(ctx context.Context, name string, id seedbed.InstanceID) (*tag, error) {
	if err := p.enter(ctx); err != nil {
		return nil, err
	}
	defer p.leave()
	have, err := p.there(name, id)
	if err != nil {
		return nil, err
	}
	path := p.file(volumes, name)
	if err := syncPath(path); err != nil {
		return nil, err
	}
	have.Flat = true
	return have, p.writeTag(path+tagSuffix, *have)
}

// StopFlatten implements worker.Flattener. The copying ends with its call, so there is nothing to
// stop.
func (p *Pool) StopFlatten(ctx context.Context, name string, id seedbed.InstanceID) error {
	if err := seedbed.CheckName("volume", name); err != nil {
		return err
	}
	if err := p.enter(ctx); err != nil {
		return fmt.Errorf("stop the flatten of volume %s: %w", name, err)
	}
	defer p.leave()
	_, err := p.own(name, id)
	return err
}
