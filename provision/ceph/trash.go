//go:build ceph

package ceph

import (
	"context"
	"errors"
	"strings"

	"github.com/ceph/go-ceph/rbd"

	"seedbed"
)

// TrashVolume implements worker.Trash, with RBD's own trash. The tag changes first, so that every
// item in the trash says what it is.
func (p *Pool) TrashVolume(ctx context.Context, name string, id seedbed.InstanceID) (*seedbed.TrashItem, error) {
	if p.cfg.Trash == 0 {
		return nil, p.RemoveVolume(ctx, name, id)
	}
	if err := seedbed.CheckName("volume", name); err != nil {
		return nil, err
	}
	rbdName := rbdOf(roleVolume, name)
	return call(ctx, p, "move volume "+name+" into the trash", rbdName, func(ctx context.Context, s *session) (*seedbed.TrashItem, error) {
		have, err := p.free(ctx, s, name, id)
		if err != nil {
			return nil, err
		}
		move := func() error {
			// Unlike a removal, a move does not look for users by itself: it would take a running
			// domain's disk away.
			if err := s.unwatched(rbdName); err != nil {
				return err
			}
			return rbd.GetImage(s.io, rbdName).Trash(p.cfg.Trash)
		}
		if have == nil { // an interrupted move leaves a name without an image
			return nil, p.unused(ctx, s, rbdName, move)
		}
		h, err := s.header(rbdName)
		if err != nil {
			return nil, err
		}
		if err := p.onlyOurs(s, h, have); err != nil {
			return nil, err
		}
		t := have.Trashed("", p.cfg.Trash) // RBD's trash gives the ID
		if err := s.writeTag(h, t); err != nil {
			return nil, err
		}
		if err := p.unused(ctx, s, rbdName, move); err != nil {
			// If the name is gone, the volume was moved after all.
			return nil, errors.Join(err, ignore(s.setTag(rbdName, *have), enoent))
		}
		item := t.TrashItem(p.cfg.Name, h.id)
		return &item, nil
	})
}

// errBusy is EBUSY in the form that librbd returns it.
type errBusy struct{}

// Error implements error.
func (errBusy) Error() string { return ebusy.Error() }

// ErrorCode returns the code as librbd's own errors do.
func (errBusy) ErrorCode() int { return -int(ebusy) }

// Trash implements worker.Trash. It leaves out what other programs put into RBD's trash.
func (p *Pool) Trash(ctx context.Context) ([]seedbed.TrashItem, error) {
	return call(ctx, p, "list the trash", "", func(ctx context.Context, s *session) ([]seedbed.TrashItem, error) {
		entries, err := rbd.GetTrashList(s.io)
		if err != nil {
			return nil, err
		}
		var all []seedbed.TrashItem
		for _, e := range entries {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			t, err := s.trashedVolume(e)
			if err != nil {
				return nil, err
			}
			if t != nil {
				all = append(all, t.TrashItem(p.cfg.Name, e.Id))
			}
		}
		return all, nil
	})
}

// trashTag reads the tag of an item of that role in the trash. It returns nil for items that are
// not ours, and for those that are just being purged.
func (s *session) trashTag(e rbd.TrashInfo, r role) (*tag, error) {
	if !strings.HasPrefix(e.Name, rbdOf(r, "")) {
		return nil, nil
	}
	t, _, err := s.tagOf(e.Name, e.Id)
	if err != nil || !isTagOf(t, e.Name) {
		return nil, err
	}
	return t, nil
}

// trashedVolume is trashTag for a volume. It returns nil if Seedbed did not put it there.
func (s *session) trashedVolume(e rbd.TrashInfo) (*tag, error) {
	t, err := s.trashTag(e, roleVolume)
	if t == nil || err != nil || t.Trash == nil {
		return nil, err
	}
	return t, nil
}

// trashed finds the item of that ID in the trash, or nil if we have none.
func (s *session) trashed(id string) (*tag, error) {
	entries, err := rbd.GetTrashList(s.io)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if e.Id == id {
			return s.trashedVolume(e)
		}
	}
	return nil, nil
}

// keyOf returns the key for calls about the item of that ID in the trash: its volume's former name,
// which it has again when it is restored.
func (p *Pool) keyOf(ctx context.Context, what, id string) (string, error) {
	if err := seedbed.CheckName("trash item", id); err != nil {
		return "", err
	}
	return call(ctx, p, what, "", func(_ context.Context, s *session) (string, error) {
		t, err := s.trashed(id)
		if t == nil || err != nil {
			return "", err
		}
		return rbdOf(t.Role, t.Name), nil
	})
}

// RestoreVolume implements worker.Trash.
func (p *Pool) RestoreVolume(ctx context.Context, id string) (seedbed.VolumeInfo, error) {
	what := "restore " + id + " from the trash"
	rbdName, err := p.keyOf(ctx, what, id)
	if err != nil {
		return seedbed.VolumeInfo{}, err
	}
	return call(ctx, p, what, rbdName, func(_ context.Context, s *session) (seedbed.VolumeInfo, error) {
		t, err := s.trashed(id)
		if err != nil {
			return seedbed.VolumeInfo{}, err
		}
		if t == nil {
			return seedbed.VolumeInfo{}, seedbed.Errorf(seedbed.ErrNotFound, "%q is not in the trash of pool %s", id, p.cfg.Name)
		}
		err = rbd.TrashRestore(s.io, id, rbdName)
		if is(err, eexist) {
			return seedbed.VolumeInfo{}, seedbed.Errorf(seedbed.ErrExists,
				"volume %s exists in pool %s again: remove it before the one in the trash can be restored", t.Name, p.cfg.Name)
		}
		return p.volume(s, t), err
	})
}

// PurgeVolume implements worker.Trash.
func (p *Pool) PurgeVolume(ctx context.Context, id string, early bool) error {
	what := "purge " + id + " from the trash"
	key, err := p.keyOf(ctx, what, id)
	if key == "" || err != nil {
		return err
	}
	return p.do(ctx, what, key, func(_ context.Context, s *session) error {
		t, err := s.trashed(id)
		if t == nil || err != nil {
			return err
		}
		if !early {
			if err := t.CheckExpired(p.cfg.Name, id); err != nil {
				return err
			}
		}
		h, err := s.headerOf(id)
		if err != nil {
			return ignore(err, enoent)
		}
		if err := p.dropSnapshots(s, h, t); err != nil {
			return err
		}
		// RBD's own expiry differs by a second at most, and ours has passed.
		return ignore(rbd.TrashRemove(s.io, id, true), enoent)
	})
}
