package dir

import (
	"context"
	"fmt"
	"path/filepath"

	"seedbed"
	"seedbed/provision/mapper"
)

// MapVolume implements worker.Mapper. QEMU's own lock keeps domains and mappings from using the
// same file.
func (p *Pool) MapVolume(ctx context.Context, job seedbed.JobID, name string, id seedbed.InstanceID) (string, error) {
	v := mapper.Volume{Pool: p.name, Name: name, Instance: id, Job: job, File: p.file(volumes, name),
		Images: filepath.Join(p.path, images)}
	return p.mapper.Map(ctx, v, func(ctx context.Context, _ bool) error {
		if err := p.enter(ctx); err != nil {
			return fmt.Errorf("map volume %s: %w", name, err)
		}
		defer p.leave()
		have, err := p.there(name, id)
		if err != nil {
			return err
		}
		_, err = p.contents(have).Header() // which its reader believes
		return err
	})
}

// UnmapVolume implements worker.Mapper.
func (p *Pool) UnmapVolume(ctx context.Context, name string, id seedbed.InstanceID) error {
	return p.mapper.Unmap(ctx, p.name, name, id)
}

// MappedVolumes implements worker.Mapper.
func (p *Pool) MappedVolumes(id seedbed.InstanceID) []string { return p.mapper.Volumes(p.name, id) }

// free is like own for a volume that must not be in use: ErrInUse if it is mapped. The caller must
// have the pool's turn.
func (p *Pool) free(name string, id seedbed.InstanceID) (*tag, error) {
	have, err := p.own(name, id)
	if have == nil || err != nil {
		return nil, err
	}
	return have, p.mapper.Free(p.name, name)
}
