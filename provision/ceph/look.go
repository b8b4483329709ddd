//go:build ceph

package ceph

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/ceph/go-ceph/rbd"

	"seedbed"
	"seedbed/internal/sleep"
)

// look finds the image of a name. It returns nil if there is none, and ErrConflict if it is not
// ours. It removes what this node left unfinished under the name, and what another node left and
// will not continue: whatever was made for job, which only this node runs by now, and what is
// abandoned. The caller must hold the RBD name's key.
func (p *Pool) look(ctx context.Context, s *session, r role, name string, job seedbed.JobID) (*tag, error) {
	rbdName := rbdOf(r, name)
	t, there, err := s.readTag(rbdName)
	switch {
	case err != nil || !there:
		return nil, err
	case !isTagOf(t, rbdName):
		return nil, seedbed.Errorf(seedbed.ErrConflict,
			"RBD image %s/%s exists and does not carry seedbed's tag (image-meta %s): it is not changed", p.cfg.Pool, rbdName, tagKey)
	case t.State != stateBuilding:
		return t, nil
	case t.Node != p.cfg.Node && (job == "" || t.Job != job):
		if gone, err := p.abandoned(s, rbdName); err != nil {
			return nil, err
		} else if !gone {
			return nil, seedbed.Errorf(seedbed.ErrUnavailable,
				"%s %s in pool %s is being made by node %s: if that node does not come back, the name is free %s after that",
				r, name, p.cfg.Name, t.Node, p.cfg.Abandoned)
		}
	}
	p.log.Info("removing unfinished RBD image", "pool", p.cfg.Name, "image", rbdName, "node", t.Node)
	return nil, p.takeBack(ctx, s, rbdName, t.Node)
}

// delete removes an RBD image and waits for its users to close it. It succeeds if the image is
// absent. It also removes what a crash left of the name when the image cannot be opened.
func (p *Pool) delete(ctx context.Context, s *session, name string) error {
	return p.unused(ctx, s, name, func() error {
		err := rbd.RemoveImage(s.io, name)
		if !is(err, enoent) {
			return err
		}
		// librbd gives ENOENT also when it cannot move the image into the trash.
		if _, e := s.header(name); e == nil {
			return fmt.Errorf("RBD image %s/%s is still there after its removal (is the pool full?)", p.cfg.Pool, name)
		}
		return nil
	})
}

// unused repeats do while the RBD image is in use, for a limited time. It succeeds if the image is
// absent. It returns errLeftOpen if the user is our own connection. None of our calls may have the
// image open.
func (p *Pool) unused(ctx context.Context, s *session, name string, do func() error) error {
	end := time.Now().Add(p.cfg.WatcherFor)
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		err := do()
		switch {
		case err == nil || is(err, enoent):
			return nil
		case !is(err, ebusy):
			return err
		case time.Now().After(end):
			user, err := s.watcher(name)
			if err == nil && user.Id == int64(s.conn.GetInstanceID()) {
				return fmt.Errorf("RBD image %s/%s: %w", p.cfg.Pool, name, errLeftOpen)
			}
			by := "" // a user that cannot be named
			if err == nil && user.Addr != "" {
				by = " by " + user.Addr
			}
			return seedbed.Errorf(seedbed.ErrInUse, "RBD image %s/%s is in use%s: stop what uses it", p.cfg.Pool, name, by)
		}
		if id, err := s.idOf(name); err == nil {
			if _, err := s.dropLock(id); err != nil {
				return err
			}
		}
		if !sleep.For(ctx, wait) {
			return ctx.Err()
		}
	}
}

// own finds an instance's volume. It returns nil if there is none of that name, and ErrConflict if
// it belongs to another instance. The caller must hold the RBD name's key.
func (p *Pool) own(ctx context.Context, s *session, name string, id seedbed.InstanceID) (*tag, error) {
	have, err := p.look(ctx, s, roleVolume, name, "")
	if have == nil || err != nil {
		return nil, err
	}
	if err := have.CheckOwner(p.cfg.Name, id); err != nil {
		return nil, err
	}
	return have, nil
}

// there is like own for a volume that must exist.
func (p *Pool) there(ctx context.Context, s *session, name string, id seedbed.InstanceID) (*tag, error) {
	if err := seedbed.CheckName("volume", name); err != nil {
		return nil, err
	}
	have, err := p.own(ctx, s, name, id)
	if have == nil && err == nil {
		err = seedbed.Errorf(seedbed.ErrNotFound, "volume %q is not in pool %s", name, p.cfg.Name)
	}
	return have, err
}

// watcher returns a client that has the image open. Its address is empty if no client has, or if the
// image does not exist.
func (s *session) watcher(name string) (user rbd.ImageWatcher, err error) {
	id, err := s.idOf(name)
	if err == nil {
		user, err = s.watcherOf(id)
	}
	return user, ignore(err, enoent)
}

// watcherOf is like watcher for the image of that ID; ENOENT if it does not exist.
func (s *session) watcherOf(id string) (user rbd.ImageWatcher, err error) {
	img, err := rbd.OpenImageByIdReadOnly(s.io, id, rbd.NoSnapshot)
	if err != nil {
		return user, err
	}
	all, err := img.ListWatchers()
	if err := errors.Join(err, s.closeImage(img)); err != nil || len(all) == 0 {
		return user, err
	}
	return all[0], nil
}

// ignore returns nil if err has one of the codes, and err otherwise.
func ignore(err error, codes ...syscall.Errno) error {
	if is(err, codes...) {
		return nil
	}
	return err
}
