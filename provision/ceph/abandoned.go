//go:build ceph

package ceph

import (
	"context"
	"time"

	"github.com/ceph/go-ceph/rbd"
)

// A node that never comes back leaves unfinished images behind. The other nodes do not know which
// nodes exist, and cannot tell that it is gone. So an unfinished image counts as abandoned a day
// after it was begun, if no client has it open: an image that is being made is closed for moments
// only. A node that wakes up even later finds the name gone, and its own step fails, because
// building names are never reused.

// abandoned reports whether another node's unfinished image of that name may be removed.
func (p *Pool) abandoned(s *session, name string) (bool, error) {
	begun, err := s.io.Stat(idObject + name)
	if err != nil {
		return false, ignore(err, enoent)
	}
	if time.Since(begun.ModTime) < p.cfg.Abandoned {
		return false, nil
	}
	user, err := s.watcher(name)
	return err == nil && user.Addr == "", err
}

// due reports whether the sweep removes what node has left unfinished.
func (p *Pool) due(s *session, name, node string) (bool, error) {
	if node == p.cfg.Node {
		return true, nil
	}
	return p.abandoned(s, name)
}

// takeBack removes the image that node was renaming to that final name. It first undoes a rename
// that was cut off before the directory had the new name.
func (p *Pool) takeBack(ctx context.Context, s *session, to, node string) error {
	names, err := rbd.GetImageNames(s.io)
	if err != nil {
		return err
	}
	for _, from := range names {
		if by, ok := builder(from); !ok || by != node {
			continue
		}
		half, err := s.sameID(from, to)
		if err != nil {
			return err
		}
		if half {
			return p.unmake(ctx, s, from, to, node)
		}
	}
	return p.unready(ctx, s, to, node)
}
