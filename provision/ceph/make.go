//go:build ceph

package ceph

import (
	"context"
	"fmt"
	"time"

	"github.com/ceph/go-ceph/rbd"

	"seedbed"
)

// cleanFor bounds the removal of an image that could not be finished.
const cleanFor = 20 * time.Second

// errTaken is returned if the name was taken while its image was being made.
var errTaken = seedbed.Errorf(seedbed.ErrConflict, "taken by another client in the meantime")

// commit gives the finished RBD image at the building name its tag and its final name. The caller
// must hold the final name's key, and the final name must be free. The tag says ready only under
// the final name, because a rename has three steps (librbd/operation/RenameRequest.h) and the image
// has both names until the second.
func (p *Pool) commit(ctx context.Context, s *session, from string, t tag) (*tag, error) {
	h, err := s.header(from)
	if err != nil {
		return nil, err
	}
	t.State, t.Node = stateBuilding, p.cfg.Node
	if err := s.writeTag(h, t); err != nil {
		return nil, err
	}
	return p.give(ctx, s, from, h, t)
}

// give is like commit for an image that has its tag.
func (p *Pool) give(ctx context.Context, s *session, from string, h header, t tag) (*tag, error) {
	to := rbdOf(t.Role, t.Name)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	done := p.making(to)
	defer done()
	if err := s.rename(h, from, to); err != nil {
		if is(err, eexist) {
			return nil, fmt.Errorf("%w: RBD image %s/%s", errTaken, p.cfg.Pool, to)
		}
		return nil, err
	}
	t.State = stateReady
	if err := s.writeTag(h, t); err != nil {
		return nil, err
	}
	return &t, nil
}

// discard removes an unfinished image under its building name, or one that is half renamed to its
// final name. The sweep removes it later if this fails.
func (p *Pool) discard(ctx context.Context, from string, t tag) {
	to := rbdOf(t.Role, t.Name)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanFor)
	defer cancel()
	err := p.do(ctx, "discard "+from, to, func(ctx context.Context, s *session) error {
		return p.unmake(ctx, s, from, to, p.cfg.Node)
	})
	if err != nil {
		p.log.Warn("unfinished RBD image not removed yet", "pool", p.cfg.Name, "image", from, "err", err)
		p.soil()
	}
}

// unmake is like discard, inside a call that holds the final name's key, for an image that node has
// made.
func (p *Pool) unmake(ctx context.Context, s *session, from, to, node string) error {
	names, err := rbd.GetImageNames(s.io)
	if err != nil {
		return err
	}
	half, err := s.sameID(from, to)
	if err != nil {
		return err
	}
	listed := false
	for _, n := range names {
		listed = listed || n == from
	}
	switch {
	case half && listed:
		// The directory has the old name: delete the new name's object.
		err = ignore(s.io.Delete(idObject+to), enoent)
	case half:
		// The directory has the new name: delete the old name's object, and the image if it is not
		// ready.
		if err = ignore(s.io.Delete(idObject+from), enoent); err == nil {
			return p.unready(ctx, s, to, node)
		}
	}
	if err != nil {
		return err
	}
	if err := p.dropSnapshot(s, from); err != nil {
		return err
	}
	if err := p.delete(ctx, s, from); err != nil {
		return err
	}
	return p.unready(ctx, s, to, node)
}

// unready removes the image of that final name if node has not finished it.
func (p *Pool) unready(ctx context.Context, s *session, to, node string) error {
	t, there, err := s.readTag(to)
	if err != nil || !there || !isTagOf(t, to) || t.State != stateBuilding || t.Node != node {
		return err
	}
	if err := p.dropSnapshot(s, to); err != nil {
		return err
	}
	return p.delete(ctx, s, to)
}

// dropSnapshot removes an image's snapshot, if it has one.
func (p *Pool) dropSnapshot(s *session, name string) error {
	err := s.byName(name, func(img *rbd.Image) error {
		snap := img.GetSnapshot(snapshot)
		if err := ignore(snap.Unprotect(), enoent, einval); err != nil { // not protected yet
			return err
		}
		return ignore(snap.Remove(), enoent)
	})
	return ignore(err, enoent)
}
