package dir

import (
	"context"
	"fmt"
	"os"

	"seedbed"
	"seedbed/provision/image"
	"seedbed/provision/pooltag"
)

// private returns the source in a form that no other process can change. A copy is in building/.
// Files that cannot be images are refused before anything is copied.
func (p *Pool) private(ctx context.Context, src *image.Source, progress func(seedbed.Progress)) (context.Context, *image.Private, error) {
	ctx, from, err := src.Private(ctx, p.building, p.need, progress)
	return ctx, from, p.room(err)
}

// CopyVolume implements worker.Copier. The copy is a file of its own. It is made outside the pool's turn, while no domain has the other
// volume's file open.
func (p *Pool) CopyVolume(
	ctx context.Context, job seedbed.JobID, spec seedbed.VolumeCopy, progress func(seedbed.Progress),
) (seedbed.VolumeInfo, error) {
	if err := pooltag.CheckCopy(spec); err != nil {
		return seedbed.VolumeInfo{}, err
	}
	if progress == nil {
		progress = func(seedbed.Progress) {}
	}
	want := tag{Name: spec.Name, Job: job, Instance: spec.Instance, Project: spec.Project, From: spec.From, Flat: true, Size: int64(spec.Size)}
	from, err := p.beginCopy(ctx, spec, want)
	if err == nil && from != nil {
		err = p.copyFile(ctx, *from, spec.At, want, progress)
	}
	if err != nil {
		return seedbed.VolumeInfo{}, fmt.Errorf("copy volume %s to %s in pool %s: %w", spec.From, spec.Name, p.name, err)
	}
	progress(seedbed.Progress{Done: spec.Size, Total: spec.Size})
	return p.volume(&want), nil
}

// beginCopy returns the file that is to be copied, if there is space for that; nil if the copy exists.
func (p *Pool) beginCopy(ctx context.Context, spec seedbed.VolumeCopy, want tag) (*image.Volume, error) {
	if err := p.enter(ctx); err != nil {
		return nil, err
	}
	defer p.leave()
	have, err := p.look(volumes, spec.Name)
	if err != nil {
		return nil, err
	}
	if have != nil {
		return nil, have.CheckSame(p.name, want)
	}
	from, err := p.there(spec.From, spec.Of)
	if err == nil {
		err = from.CheckCopied(p.name, spec)
	}
	if err != nil {
		return nil, err
	}
	return p.copied(from)
}

// copied returns the file of a volume that is to be copied, if there is space for that. The caller must have the pool's turn.
func (p *Pool) copied(from *tag) (*image.Volume, error) {
	if err := p.mapper.Free(p.name, from.Name); err != nil {
		return nil, err
	}
	file := p.contents(from)
	takes, err := allocated(file)
	if err != nil {
		return nil, err
	}
	return &file, p.need(takes)
}

// allocated returns the most that a copy of a volume's content takes.
func allocated(file image.Volume) (seedbed.Bytes, error) {
	takes := cloneRoom
	for _, path := range []string{file.Path, file.Backing} {
		if path == "" {
			continue
		}
		st, err := os.Stat(path)
		if err != nil {
			return 0, err
		}
		takes += image.Allocated(st)
	}
	return takes, nil
}

// copyFile makes the volume of that tag from the file of another.
func (p *Pool) copyFile(ctx context.Context, from image.Volume, at string, want tag, progress func(seedbed.Progress)) error {
	path, err := p.copyTo(ctx, from, at, seedbed.Bytes(want.Size), progress)
	if path != "" {
		defer p.discard(path)
	}
	if err != nil {
		return err
	}
	return p.publishNew(ctx, path, want)
}

// publishNew makes the finished file at path the volume of that tag, unless there is one.
func (p *Pool) publishNew(ctx context.Context, path string, want tag) error {
	if err := p.enter(ctx); err != nil {
		return err
	}
	defer p.leave()
	if have, err := p.look(volumes, want.Name); err != nil || have != nil { // another call was faster
		if err == nil {
			err = have.CheckSame(p.name, want)
		}
		return err
	}
	return p.publish(path, volumes, 0o600, want)
}

// copyTo writes what a volume has, or had at a snapshot, to a new file in building/, and returns its path.
func (p *Pool) copyTo(
	ctx context.Context, from image.Volume, at string, size seedbed.Bytes, progress func(seedbed.Progress),
) (string, error) {
	path, err := p.tempPath()
	if err != nil {
		return "", err
	}
	return path, p.room(from.Copy(ctx, at, path, size, func(percent float64) {
		progress(seedbed.Progress{Done: seedbed.Bytes(percent / 100 * float64(size)), Total: size})
	}))
}

// imageOf makes an image with what a volume has, or had at a snapshot. It works outside the pool's turn, as CopyVolume does.
func (p *Pool) imageOf(ctx context.Context, job seedbed.JobID, spec seedbed.ImageSpec, progress func(seedbed.Progress)) (*tag, error) {
	t := tag{Name: spec.Name, Project: spec.Project, Job: job, Format: string(image.QCOW2)}
	from, err := p.imageSource(ctx, spec.CopySource, &t)
	if err != nil {
		return nil, err
	}
	path, err := p.copyTo(ctx, *from, spec.At, seedbed.Bytes(t.Size), progress)
	if path != "" {
		defer p.discard(path)
	}
	if err != nil {
		return nil, err
	}
	if err := p.enter(ctx); err != nil {
		return nil, err
	}
	defer p.leave()
	if have, err := p.lookOwn(job, t.Name); err != nil || have != nil {
		return have, err
	}
	return &t, p.publish(path, images, 0o644, t)
}

// imageSource returns the file that an image is to be made from, and sets the size in the image's tag.
func (p *Pool) imageSource(ctx context.Context, source seedbed.CopySource, t *tag) (*image.Volume, error) {
	if err := p.enter(ctx); err != nil {
		return nil, err
	}
	defer p.leave()
	from, err := p.there(source.From, source.Of)
	if err == nil {
		err = from.CheckAt(p.name, source)
	}
	if err != nil {
		return nil, err
	}
	t.Size = from.Size
	return p.copied(from)
}
