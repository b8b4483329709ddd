//go:build ceph

package ceph

import (
	"context"
	"errors"

	"github.com/ceph/go-ceph/rbd"

	"seedbed"
	"seedbed/provision/image"
	"seedbed/provision/pooltag"
)

// cloneTimeouts is how many timeouts of one operation a clone may take. It is a dozen small operations, of which each has a
// timeout, but librbd sometimes waits without end if the monitors go away in the middle.
const cloneTimeouts = 8

// CloneVolume implements worker.Cloner. The volume is a copy-on-write clone of the image's
// snapshot, in clone format 2, which does not require a protected snapshot.
func (p *Pool) CloneVolume(ctx context.Context, job seedbed.JobID, spec seedbed.VolumeSpec) (seedbed.VolumeInfo, error) {
	if err := pooltag.CheckSpec(spec); err != nil {
		return seedbed.VolumeInfo{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, cloneTimeouts*p.cfg.Timeout)
	defer cancel()
	return call(
		ctx,
		p,
		"make volume "+spec.Name,
		rbdOf(roleVolume, spec.Name),
		func(ctx context.Context, s *session) (seedbed.VolumeInfo, error) {
			size, err := p.volumeSize(s, spec)
			if err != nil {
				return seedbed.VolumeInfo{}, err
			}
			want := tag{
				Role: roleVolume, Name: spec.Name, Job: job, Instance: spec.Instance, Project: spec.Project, Image: spec.Image, Size: int64(size),
			}
			have, err := p.look(ctx, s, roleVolume, spec.Name, "")
			if err != nil {
				return seedbed.VolumeInfo{}, err
			}
			if have == nil {
				of := parent{}
				if spec.Image != "" {
					of = parent{rbdOf(roleImage, spec.Image), snapshot}
				}
				have, err = p.makeVolume(ctx, s, want, of)
			}
			if errors.Is(err, errTaken) { // perhaps another node was asked to make it too
				have, err = p.look(ctx, s, roleVolume, spec.Name, "")
				if err == nil && have == nil {
					err = seedbed.Errorf(seedbed.ErrConflict, "volume %s: the name %s in Ceph pool %s was taken and freed while it was made", spec.Name,
						rbdOf(roleVolume, spec.Name), p.cfg.Pool)
				}
			}
			if err == nil {
				err = have.CheckSame(p.cfg.Name, want)
			}
			if err != nil {
				return seedbed.VolumeInfo{}, err
			}
			return p.volume(s, have), nil
		},
	)
}

// volumeSize checks the requested size against the image's.
func (p *Pool) volumeSize(s *session, spec seedbed.VolumeSpec) (seedbed.Bytes, error) {
	if spec.Image == "" {
		return spec.Size, nil
	}
	rbdName := rbdOf(roleImage, spec.Image)
	base, there, err := s.readTag(rbdName)
	switch {
	case err != nil:
		return 0, err
	case there && !isTagOf(base, rbdName):
		return 0, seedbed.Errorf(seedbed.ErrConflict, "RBD image %s/%s does not carry seedbed's tag: it is not an image of Seedbed", p.cfg.Pool,
			rbdName)
	case !there || base.State != stateReady:
		return 0, p.noImage(spec.Image)
	}
	size, err := base.CloneSize(spec)
	return whole(size), err
}

func (p *Pool) noImage(name string) error {
	return seedbed.Errorf(seedbed.ErrNotFound, "image %q is not in pool %s", name, p.cfg.Name)
}

// whole rounds a size up to whole sectors.
func whole(size seedbed.Bytes) seedbed.Bytes {
	return (size + pooltag.Sector - 1) / pooltag.Sector * pooltag.Sector
}

func (p *Pool) makeVolume(ctx context.Context, s *session, t tag, of parent) (*tag, error) {
	if err := p.need(s, 0); err != nil {
		return nil, err
	}
	from := buildingName(p.cfg.Node)
	done := p.making(from)
	defer done()
	made, err := p.cloneTo(ctx, s, from, t, of)
	if err != nil {
		p.undo(s, from, t, err)
	}
	return made, err
}

func (p *Pool) cloneTo(ctx context.Context, s *session, from string, t tag, of parent) (*tag, error) {
	opts := rbd.NewRbdImageOptions()
	defer opts.Destroy()
	var err error
	if of.image == "" {
		err = rbd.CreateImage(s.io, from, uint64(t.Size), opts)
	} else if err = s.clone(of, from, opts); t.Image != "" && is(err, enoent) {
		err = p.noImage(t.Image) // removed in the meantime
	}
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	h, err := s.header(from)
	if err != nil {
		return nil, err
	}
	t.State, t.Node = stateBuilding, p.cfg.Node
	if err := s.tagSized(h, t); err != nil {
		return nil, err
	}
	return p.give(ctx, s, from, h, t)
}

// undo removes what could not be finished because of why, inside a call that holds the final name's
// key. The sweep does it later if the cluster does not answer.
func (p *Pool) undo(s *session, from string, t tag, why error) {
	if errors.Is(explain("", why), seedbed.ErrUnavailable) {
		p.soil()
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), cleanFor)
	defer cancel()
	if err := p.unmake(ctx, s, from, rbdOf(t.Role, t.Name), p.cfg.Node); err != nil {
		p.log.Warn("unfinished RBD image not removed yet", "pool", p.cfg.Name, "image", from, "err", err)
		p.soil()
	}
}

// RemoveVolume implements worker.Remover. It waits for the volume's last user.
func (p *Pool) RemoveVolume(ctx context.Context, name string, id seedbed.InstanceID) error {
	if err := seedbed.CheckName("volume", name); err != nil {
		return err
	}
	rbdName := rbdOf(roleVolume, name)
	return p.do(ctx, "remove volume "+name, rbdName, func(ctx context.Context, s *session) error {
		have, err := p.free(ctx, s, name, id)
		if err != nil {
			return err
		}
		if have != nil {
			h, err := s.header(rbdName)
			if err != nil {
				return err
			}
			if err := p.dropSnapshots(s, h, have); err != nil {
				return err
			}
		}
		return p.delete(ctx, s, rbdName) // also removes a name without an image, which an interrupted removal leaves
	})
}

func (p *Pool) volume(s *session, t *tag) seedbed.VolumeInfo {
	return t.VolumeInfo(p.cfg.Name, p.disk(s, t))
}

// disk returns how a hypervisor reaches a volume or an image.
func (p *Pool) disk(s *session, t *tag) seedbed.Disk {
	return seedbed.Disk{
		Type: "rbd", Source: p.cfg.Pool + "/" + rbdOf(t.Role, t.Name), Format: string(image.Raw),
		RBD: seedbed.RBDSource{Monitors: p.link.monitors(s), User: p.cfg.User, Secret: SecretID(p.cfg.Name, p.cfg.User)},
	}
}
