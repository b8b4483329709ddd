package feed

import (
	"context"
	"errors"

	"seedbed"
)

// refused reports whether the same batch would always meet this error again. ErrForbidden does not
// count: it refuses the node, which may be admitted later.
func refused(err error) bool {
	for _, kind := range []error{seedbed.ErrInvalid, seedbed.ErrNotFound, seedbed.ErrExists, seedbed.ErrConflict} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}

// send sends batch after batch until ctx ends. A batch that the server refuses for good is sent
// event by event, so that one bad event does not lose others.
func (s *Spool) send(ctx context.Context) {
	var retry backoff
	single, down := 0, false
	for {
		most := maxEvents
		if single > 0 {
			most = 1
		}
		b := s.journal.oldest(most)
		if b == nil {
			select {
			case <-s.more:
				continue
			case <-ctx.Done():
				return
			}
		}
		err := s.up.events(ctx, s.cfg.Node, b.seg.spool, b.lines)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			s.sent.Add(int64(len(b.lines)))
		case refused(err) && len(b.lines) > 1:
			single = len(b.lines)
			continue
		case refused(err):
			s.lost.Add(1)
			s.cfg.Log.Error("seedbedd refused a guest event", "err", err)
		default:
			if !down {
				s.cfg.Log.Warn("guest events wait for seedbedd", "err", err)
			}
			down = true
			if !retry.wait(ctx) {
				return
			}
			continue
		}
		s.journal.done(b)
		single = max(0, single-1)
		retry, down = backoff{}, false
	}
}
