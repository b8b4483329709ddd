package dir

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"seedbed"
	"seedbed/provision/backup"
	"seedbed/provision/image"
	"seedbed/provision/pooltag"
)

// rawSuffix ends the names of raw disks in building/.
const rawSuffix = ".part"

// OpenSnapshot implements worker.Archiver. The disk is copied from the snapshot inside the qcow2 file to a sparse file in building/, so
// the pool needs space for it in the meantime. It is not known what has changed since base.
func (p *Pool) OpenSnapshot(ctx context.Context, spec seedbed.SnapshotSpec, _ string) (backup.Source, error) {
	what := fmt.Sprintf("read snapshot %s of volume %s", spec.Name, spec.Volume)
	file, size, err := p.beginRead(ctx, spec)
	if err != nil {
		return nil, fmt.Errorf("%s in pool %s: %w", what, p.name, err)
	}
	return p.openRaw(what, size, func(path string) error { return file.CopySnapshot(ctx, spec.Name, path) })
}

// OpenVolume implements worker.Archiver. The disk is copied as by OpenSnapshot, while no domain has the file open.
func (p *Pool) OpenVolume(ctx context.Context, _ seedbed.JobID, s seedbed.CopySource) (backup.Source, error) {
	if s.At != "" {
		return p.OpenSnapshot(ctx, seedbed.SnapshotSpec{Volume: s.From, Instance: s.Of, Name: s.At}, "")
	}
	if err := s.Check(); err != nil {
		return nil, err
	}
	what := "read volume " + s.From
	file, size, err := p.beginOpen(ctx, s)
	if err != nil {
		return nil, fmt.Errorf("%s in pool %s: %w", what, p.name, err)
	}
	return p.openRaw(what, size, func(path string) error { return file.CopyRaw(ctx, path) })
}

// beginOpen returns the file of a volume, and the size of the disk, if there is space for a copy.
func (p *Pool) beginOpen(ctx context.Context, s seedbed.CopySource) (*image.Volume, seedbed.Bytes, error) {
	if err := p.enter(ctx); err != nil {
		return nil, 0, err
	}
	defer p.leave()
	have, err := p.there(s.From, s.Of)
	if err != nil {
		return nil, 0, err
	}
	file, err := p.copied(have)
	return file, seedbed.Bytes(have.Size), err
}

// openRaw opens a disk of that size that copy writes to a file which exists. The file has no name afterwards.
func (p *Pool) openRaw(what string, size seedbed.Bytes, copy func(path string) error) (backup.Source, error) {
	path, err := p.rawPath()
	if err != nil {
		return nil, err
	}
	err = copy(path)
	var f *os.File
	if err == nil {
		f, err = os.Open(path)
	}
	p.discard(path)
	if err != nil {
		return nil, fmt.Errorf("%s in pool %s: %w", what, p.name, p.room(err))
	}
	src, err := backup.NewFile(f, size)
	if err != nil {
		return nil, err
	}
	return src, nil
}

// beginRead returns the file of a volume that has a snapshot, and the size of the disk at it, if there is space for a copy.
func (p *Pool) beginRead(ctx context.Context, spec seedbed.SnapshotSpec) (file image.Volume, size seedbed.Bytes, err error) {
	if err := p.enter(ctx); err != nil {
		return file, 0, err
	}
	defer p.leave()
	have, err := p.there(spec.Volume, spec.Instance)
	if err == nil {
		err = have.FindToRestore(p.name, spec.Name)
	}
	if err != nil {
		return file, 0, err
	}
	file = p.contents(have)
	inside, err := file.Header()
	if err != nil {
		return file, 0, err
	}
	if !slices.Contains(inside.Snapshots, spec.Name) {
		return file, 0, seedbed.Errorf(seedbed.ErrNotFound, "its file has no snapshot of that name")
	}
	takes, err := allocated(file)
	if err != nil {
		return file, 0, err
	}
	return file, have.Snapshots[have.Find(spec.Name)].Info().Size, p.need(takes)
}

// rawPath makes an empty file for a raw disk.
func (p *Pool) rawPath() (string, error) {
	f, err := p.temp(rawSuffix)
	if err != nil {
		return "", p.room(err)
	}
	return f.Name(), f.Close()
}

// FillVolume implements worker.Archiver. The disk is first written to a sparse file in building/ and then converted, so the pool needs
// space for both in the meantime.
func (p *Pool) FillVolume(
	ctx context.Context, job seedbed.JobID, spec seedbed.VolumeSpec, from string, fill func(context.Context, backup.Sink) error,
) (seedbed.VolumeInfo, error) {
	if err := pooltag.CheckSpec(spec); err != nil {
		return seedbed.VolumeInfo{}, err
	}
	want := tag{Name: spec.Name, Job: job, Instance: spec.Instance, Project: spec.Project, From: from, Flat: true, Size: int64(spec.Size)}
	there, err := p.beginFill(ctx, want)
	if err == nil && !there {
		err = p.fill(ctx, want, fill)
	}
	if err != nil {
		return seedbed.VolumeInfo{}, fmt.Errorf("restore volume %s in pool %s: %w", spec.Name, p.name, err)
	}
	return p.volume(&want), nil
}

// beginFill reports whether the volume exists that is to be made.
func (p *Pool) beginFill(ctx context.Context, want tag) (bool, error) {
	if err := p.enter(ctx); err != nil {
		return false, err
	}
	defer p.leave()
	have, err := p.look(volumes, want.Name)
	if err != nil {
		return false, err
	}
	if have != nil {
		return true, have.CheckSame(p.name, want)
	}
	return false, p.need(cloneRoom)
}

// fill makes the volume of that tag.
func (p *Pool) fill(ctx context.Context, want tag, fill func(context.Context, backup.Sink) error) error {
	f, err := p.temp(rawSuffix)
	if err != nil {
		return p.room(err)
	}
	defer p.discard(f.Name())
	err = f.Truncate(want.Size)
	if err == nil {
		err = fill(ctx, backup.FileSink{File: f, Need: p.need})
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return p.room(err)
	}
	path, err := p.convert(ctx, f.Name(), image.Raw, nil)
	if path != "" {
		defer p.discard(path)
	}
	if err != nil {
		return err
	}
	return p.publishNew(ctx, path, want)
}
