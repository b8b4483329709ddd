package dir

import (
	"context"
	"fmt"

	"seedbed"
	"seedbed/provision/image"
)

// ImportImage implements worker.ImageStore. The file of a volume is copied while no domain has it open. Another file that was not
// uploaded is frozen, or copied into the pool first, so that the file that is checked is the file that is used (image.Source). The disk
// is then converted to qcow2, so the pool temporarily needs space for both. Progress counts the bytes of a copied file twice, once for
// each half of the work.
func (p *Pool) ImportImage(
	ctx context.Context,
	job seedbed.JobID,
	spec seedbed.ImageSpec,
	progress func(seedbed.Progress),
) (seedbed.ImageInfo, error) {
	if err := image.CheckSpec(spec); err != nil {
		return seedbed.ImageInfo{}, err
	}
	if progress == nil {
		progress = func(seedbed.Progress) {}
	}
	have, err := p.importedBy(ctx, job, spec.Name)
	if err != nil || have != nil {
		return have.ImageInfo(p.name), err
	}
	if spec.From != "" {
		t, err := p.imageOf(ctx, job, spec, progress)
		if err != nil {
			err = fmt.Errorf("make image %s of volume %s in pool %s: %w", spec.Name, spec.From, p.name, err)
		}
		return t.ImageInfo(p.name), err
	}
	src, err := image.OpenSource(spec, p.spool, p.imports)
	if err != nil {
		return seedbed.ImageInfo{}, err
	}
	defer src.Close()
	t, err := p.importFile(ctx, src, spec, job, progress)
	return t.ImageInfo(p.name), src.Failed(err)
}

// CheckImport implements worker.ImageStore.
func (p *Pool) CheckImport(_ context.Context, spec seedbed.ImageSpec) error {
	return image.CheckSource(spec, p.imports)
}

// importedBy finds the image of that name. It returns nil if there is none, and ErrConflict if
// another job imported it.
func (p *Pool) importedBy(ctx context.Context, job seedbed.JobID, name string) (*tag, error) {
	if err := p.enter(ctx); err != nil {
		return nil, fmt.Errorf("import image %s: %w", name, err)
	}
	defer p.leave()
	return p.lookOwn(job, name)
}

func (p *Pool) lookOwn(job seedbed.JobID, name string) (*tag, error) {
	have, err := p.look(images, name)
	if have == nil || err != nil {
		return nil, err
	}
	if err := have.CheckImporter(p.name, job); err != nil {
		return nil, err
	}
	return have, nil
}

// importFile makes the image. An ErrInvalid that it returns describes the file.
func (p *Pool) importFile(
	ctx context.Context,
	src *image.Source,
	spec seedbed.ImageSpec,
	job seedbed.JobID,
	progress func(seedbed.Progress),
) (*tag, error) {
	ctx, from, err := p.private(ctx, src, progress)
	if err != nil {
		return nil, err
	}
	defer from.Close()
	made, err := p.importPrivate(ctx, from, tag{Name: spec.Name, Project: spec.Project, Job: job, Firmware: src.Firmware},
		func(percent float64) { progress(from.Written(percent)) })
	if err != nil {
		return nil, image.Cause(ctx, err)
	}
	progress(from.Written(100))
	return made, nil
}

// importPrivate checks the file, converts it, and gives the result its name.
func (p *Pool) importPrivate(ctx context.Context, from *image.Private, t tag, report func(float64)) (*tag, error) {
	info, err := image.Inspect(ctx, from.Path())
	if err != nil {
		return nil, err
	}
	result, err := p.convert(ctx, from.Path(), info.Format, report)
	if result != "" {
		defer p.discard(result)
	}
	if err != nil {
		return nil, err
	}
	if t.SHA256, err = from.Digest(func() { report(100) }); err != nil {
		return nil, err
	}
	t.Size, t.Format = int64(info.Size), string(info.Format)
	if err := p.enter(ctx); err != nil {
		return nil, err
	}
	defer p.leave()
	if have, err := p.lookOwn(t.Job, t.Name); err != nil || have != nil {
		return have, err
	}
	return &t, p.publish(result, images, 0o644, t)
}

// convert makes a qcow2 file from the private one, if there is space for it.
func (p *Pool) convert(ctx context.Context, private string, format image.Format, report func(float64)) (string, error) {
	size, err := image.Measure(ctx, private, format)
	if err != nil {
		return "", err
	}
	if err := p.need(size); err != nil {
		return "", err
	}
	path, err := p.tempPath()
	if err != nil {
		return "", err
	}
	return path, p.room(image.Convert(ctx, private, format, path, size, report))
}

// ImageDisk implements worker.ImageStore.
func (p *Pool) ImageDisk(ctx context.Context, name string) (seedbed.Disk, error) {
	if err := seedbed.CheckQualifiedName("image", name); err != nil {
		return seedbed.Disk{}, err
	}
	if err := p.enter(ctx); err != nil {
		return seedbed.Disk{}, fmt.Errorf("look at image %s: %w", name, err)
	}
	defer p.leave()
	have, err := p.look(images, name)
	if have == nil && err == nil {
		err = seedbed.Errorf(seedbed.ErrNotFound, "image %q is not in pool %s", name, p.name)
	}
	return seedbed.Disk{Type: "file", Source: p.file(images, name), Format: string(image.QCOW2)}, err
}

// RemoveImage implements worker.ImageStore.
func (p *Pool) RemoveImage(ctx context.Context, job seedbed.JobID, name string) error {
	if err := seedbed.CheckQualifiedName("image", name); err != nil {
		return err
	}
	if err := p.enter(ctx); err != nil {
		return fmt.Errorf("remove image %s: %w", name, err)
	}
	defer p.leave()
	have, err := p.lookOwn(job, name)
	if have == nil || err != nil {
		return err
	}
	for kind, hint := range map[string]string{volumes: "", trash: ", which is in the trash: purge it first (seedbed trash purge %s)"} {
		clones, err := p.tags(kind)
		if err != nil {
			return fmt.Errorf("remove image %s: %w", name, err)
		}
		for _, v := range clones {
			if !v.Clone() || v.Image != name {
				continue
			}
			if kind == trash {
				hint = fmt.Sprintf(hint, v.Trash.ID)
			}
			return seedbed.Errorf(seedbed.ErrInUse, "image %s in pool %s has clones: volume %s of instance %s is one%s", name, p.name, v.Name,
				v.Instance, hint)
		}
	}
	if err := p.withdraw(images, name); err != nil {
		return fmt.Errorf("remove image %s: %w", name, err)
	}
	return nil
}
