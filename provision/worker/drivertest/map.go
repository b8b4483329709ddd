package drivertest

import (
	"context"
	"maps"
	"slices"

	"seedbed"
)

// mapped is the device of a volume in memory, and its job.
type mapped struct {
	job    seedbed.JobID
	device string
}

// MapVolume implements worker.Mapper. The device is a path that does not exist.
func (p *Pool) MapVolume(ctx context.Context, job seedbed.JobID, name string, id seedbed.InstanceID) (string, error) {
	return effect(ctx, p, "MapVolume", func() (string, error) { return p.mapFor(job, name, id) })
}

// mapFor maps a volume for the job. The lock is held.
func (p *Pool) mapFor(job seedbed.JobID, name string, id seedbed.InstanceID) (string, error) {
	v, err := p.must(name, id)
	if err != nil {
		return "", err
	}
	if v.mapped == nil {
		v.mapped = &mapped{job, "/memory/dev/" + name}
		p.volumes[name] = *v
	}
	if v.mapped.job != job {
		return "", p.unused(v)
	}
	return v.mapped.device, nil
}

// UnmapVolume implements worker.Mapper.
func (p *Pool) UnmapVolume(ctx context.Context, name string, id seedbed.InstanceID) error {
	return p.effect(ctx, "UnmapVolume", func() error {
		if v, ok := p.volumes[name]; !ok || v.mapped == nil {
			return nil
		}
		v, err := p.own(name, id)
		if err != nil {
			return err
		}
		v.mapped = nil
		p.volumes[name] = *v
		return nil
	})
}

// MappedVolumes implements worker.Mapper.
func (p *Pool) MappedVolumes(id seedbed.InstanceID) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []string
	for _, name := range slices.Sorted(maps.Keys(p.volumes)) {
		if v := p.volumes[name]; v.Instance == id && v.mapped != nil {
			all = append(all, name)
		}
	}
	return all
}

// unused refuses a volume that is mapped. The lock is held.
func (p *Pool) unused(v *volume) error {
	if v.mapped != nil {
		return seedbed.Errorf(seedbed.ErrInUse, "volume %s is mapped for job %s", v.Name, v.mapped.job)
	}
	return nil
}
