//go:build ceph

package ceph

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/ceph/go-ceph/rbd"

	"seedbed/internal/sleep"
)

const (
	backoffFirst = time.Second
	backoffLast  = 30 * time.Second
	sweepEvery   = 24 * time.Hour
)

// soil requests a sweep of the pool.
func (p *Pool) soil() {
	select {
	case p.dirty <- struct{}{}:
	default:
	}
}

// clean sweeps on request, again a while later, and each day for what other nodes have abandoned,
// until ctx ends.
func (p *Pool) clean(ctx context.Context) {
	timer := time.NewTimer(sweepEvery)
	defer timer.Stop()
	for {
		next := sweepEvery
		select {
		case <-p.dirty:
			next = p.cfg.SweepAgain
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		for wait := backoffFirst; ; wait = min(2*wait, backoffLast) {
			if !sleep.For(ctx, wait) {
				return
			}
			err := p.sweep(ctx)
			if err == nil {
				break
			}
			p.log.Debug("Ceph pool is not swept yet", "pool", p.cfg.Name, "err", err)
		}
		timer.Reset(next)
	}
}

// sweep removes what ended calls of this node left unfinished, what other nodes have abandoned, and
// images that went to RBD's trash because a clone of them was made during their removal.
func (p *Pool) sweep(ctx context.Context) error {
	names, err := call(ctx, p, "list images", "", func(_ context.Context, s *session) ([]string, error) {
		if err := s.makeTrash(); err != nil {
			return nil, err
		}
		return rbd.GetImageNames(s.io)
	})
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range names {
		if !strings.HasPrefix(name, prefix) || p.isActive(name) {
			continue
		}
		if err := p.sweepOne(ctx, name); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(append(errs, p.emptyTrash(ctx))...)
}

func (p *Pool) sweepOne(ctx context.Context, name string) error {
	if _, _, ok := split(name); ok {
		return p.do(ctx, "sweep "+name, name, func(ctx context.Context, s *session) error {
			t, _, err := s.readTag(name)
			if err != nil || !isTagOf(t, name) || t.State != stateBuilding {
				return err
			}
			if due, err := p.due(s, name, t.Node); err != nil || !due {
				return err
			}
			return p.takeBack(ctx, s, name, t.Node)
		})
	}
	node, ok := builder(name)
	if !ok {
		return nil
	}
	due := false
	t, err := call(ctx, p, "sweep "+name, "", func(_ context.Context, s *session) (t *tag, err error) {
		if due, err = p.due(s, name, node); err == nil && due {
			t, _, err = s.readTag(name)
		}
		return t, err
	})
	if err != nil || !due {
		return err
	}
	// An image without a tag was never finished; a clone starts with its image's tag.
	to := name
	if t != nil && t.State == stateBuilding {
		to = rbdOf(t.Role, t.Name)
	}
	err = p.do(ctx, "sweep "+name, to, func(ctx context.Context, s *session) error {
		if to == name {
			return errors.Join(p.dropSnapshot(s, name), p.delete(ctx, s, name))
		}
		return p.unmake(ctx, s, name, to, node)
	})
	if err == nil {
		p.log.Info("removed unfinished RBD image", "pool", p.cfg.Name, "image", name, "node", node)
	}
	return err
}

// emptyTrash removes the images that RemoveImage moved to RBD's trash, unless they are still in
// use.
func (p *Pool) emptyTrash(ctx context.Context) error {
	return p.do(ctx, "empty the trash", "", func(ctx context.Context, s *session) error {
		all, err := rbd.GetTrashList(s.io)
		if err != nil {
			return err
		}
		for _, e := range all {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			t, err := s.trashTag(e, roleImage)
			if err != nil {
				return err
			}
			if t == nil || t.State != stateRemoving { // not put there by us
				continue
			}
			err = rbd.TrashRemove(s.io, e.Id, false)
			if err := ignore(err, enoent, ebusy, enotempty, eperm); err != nil {
				return err
			}
		}
		return nil
	})
}
