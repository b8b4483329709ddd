//go:build ceph

package ceph

import (
	"context"
	"time"

	"github.com/ceph/go-ceph/rbd"
)

// A node that never comes back leaves what it was making. No other can tell that
// it does not, nor which nodes there are. So what nobody has open counts as
// abandoned a day after it was begun: nothing is made for so long without being
// open, but for moments. A node that wakes up even later finds the name gone, and
// its own step fails: no other thing ever has a building name.

// abandoned tells whether what has that name, and is another node's and unfinished, may be removed.
func (p *Pool) abandoned(s *session, name string) (bool, error) {
	begun, err := s.io.Stat(idObject + name)
	if err != nil {
		return false, ignore(err, enoent)
	}
	if time.Since(begun.ModTime) < p.cfg.Abandoned {
		return false, nil
	}
	user, err := s.watcher(name)
	return err == nil && user == "", err
}

// due tells whether the sweep removes what node has left unfinished.
func (p *Pool) due(s *session, name, node string) (bool, error) {
	if node == p.cfg.Node {
		return true, nil
	}
	return p.abandoned(s, name)
}

// takeBack removes what node was giving that final name. A rename that was cut
// off before the directory had the new name is taken back first.
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
