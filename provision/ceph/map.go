//go:build ceph

package ceph

import (
	"context"

	"seedbed"
	"seedbed/provision/mapper"
)

// MapVolume implements worker.Mapper. RBD lets two clients open an image, so this looks for users
// first, and waits for a dead one to time out.
func (p *Pool) MapVolume(ctx context.Context, job seedbed.JobID, name string, id seedbed.InstanceID) (string, error) {
	rbdName := rbdOf(roleVolume, name)
	v := mapper.Volume{Pool: p.cfg.Name, Name: name, Instance: id, Job: job, RBD: &mapper.RBD{
		Pool: p.cfg.Pool, Image: rbdName, User: p.cfg.User, Conf: p.cfg.ConfFile, Keyring: p.cfg.Keyring,
	}}
	return p.cfg.Mapper.Map(ctx, v, func(ctx context.Context, mapped bool) error {
		return p.do(ctx, "map volume "+name, rbdName, func(ctx context.Context, s *session) error {
			if _, err := p.there(ctx, s, name, id); err != nil || mapped {
				return err
			}
			return p.unused(ctx, s, rbdName, func() error { return s.unwatched(rbdName) })
		})
	})
}

// UnmapVolume implements worker.Mapper.
func (p *Pool) UnmapVolume(ctx context.Context, name string, id seedbed.InstanceID) error {
	return p.cfg.Mapper.Unmap(ctx, p.cfg.Name, name, id)
}

// MappedVolumes implements worker.Mapper.
func (p *Pool) MappedVolumes(id seedbed.InstanceID) []string {
	return p.cfg.Mapper.Volumes(p.cfg.Name, id)
}

// free is like own for a volume that must not be used on this host: ErrInUse if it is mapped.
func (p *Pool) free(ctx context.Context, s *session, name string, id seedbed.InstanceID) (*tag, error) {
	have, err := p.own(ctx, s, name, id)
	if have == nil || err != nil {
		return nil, err
	}
	return have, p.cfg.Mapper.Free(p.cfg.Name, name)
}

// unwatched returns EBUSY while a client has the image open.
func (s *session) unwatched(rbdName string) error {
	switch user, err := s.watcher(rbdName); {
	case err != nil:
		return err
	case user.Addr != "":
		return errBusy{}
	}
	return nil
}
