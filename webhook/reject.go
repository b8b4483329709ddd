package webhook

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"seedbed"
)

const (
	// maxRejected is how many counts wait to be written. Above that, senders are counted together.
	maxRejected = 256
	// rejectPause is the least time between two writes of counts.
	rejectPause = time.Second
)

// rejections counts deliveries whose sender was not accepted until the counts are written. Anyone can
// cause them, so there is no write for each.
type rejections struct {
	mu   sync.Mutex
	seen map[rejected]*seedbed.Rejection
	// more is given when there is something to write.
	more chan struct{}
}

// rejected is what is counted together.
type rejected struct{ hook, peer, reason string }

// reject logs why a delivery to an existing hook is not accepted, and counts it.
func (r *Server) reject(d *delivered, reason string, more ...any) {
	d.log().Warn("webhook refused", append(more, "err", reason)...)
	r.rejections.add(rejected{d.hook.Name, d.Peer, reason}, d.Received)
}

func (r *rejections) add(what rejected, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.seen) >= maxRejected && r.seen[what] == nil {
		what.peer = ""
	}
	of := r.seen[what]
	switch {
	case of == nil && len(r.seen) >= 2*maxRejected:
		return
	case of == nil:
		of = &seedbed.Rejection{Hook: what.hook, Peer: what.peer, Reason: what.reason, First: at}
		r.seen[what] = of
	}
	of.Times, of.Last = of.Times+1, at
	select {
	case r.more <- struct{}{}:
	default:
	}
}

// run writes the counts until ctx ends, and what is left then.
func (r *rejections) run(ctx context.Context, history History, log *slog.Logger) {
	for {
		select {
		case <-ctx.Done():
		case <-r.more:
		}
		r.write(ctx, history, log)
		pause := time.NewTimer(rejectPause)
		select {
		case <-ctx.Done():
			pause.Stop()
			r.write(ctx, history, log)
			return
		case <-pause.C:
		}
	}
}

func (r *rejections) write(ctx context.Context, history History, log *slog.Logger) {
	r.mu.Lock()
	all := slices.Collect(maps.Values(r.seen))
	clear(r.seen)
	r.mu.Unlock()
	if len(all) == 0 {
		return
	}
	counts := make([]seedbed.Rejection, len(all))
	for i, of := range all {
		counts[i] = *of
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), submitTimeout)
	defer cancel()
	if err := history.RecordRejections(ctx, counts); err != nil {
		log.Warn("rejected webhooks were not counted", "err", err)
	}
}
