package guestplane

import (
	"context"
	"time"

	"seedbed/internal/sleep"
)

// linkEvent says whether a bridge is up.
type linkEvent struct {
	bridge string
	up     bool
}

// follower is one subscription to the state of some bridges.
type follower struct {
	names, uplinks []string
	cancel         context.CancelFunc
	done           chan struct{}
}

func (f *follower) stop() {
	if f != nil {
		f.cancel()
		<-f.done
	}
}

// follow sends the current state and every change of the bridges to events. It renews a
// subscription that breaks.
func (p *Plane) follow(ctx context.Context, names, uplinks []string, events chan<- linkEvent) *follower {
	ctx, cancel := context.WithCancel(ctx)
	f := &follower{names: names, uplinks: uplinks, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(f.done)
		for ctx.Err() == nil {
			err := p.host.Follow(ctx, names, uplinks, func(bridge string, up bool) {
				select {
				case events <- linkEvent{bridge, up}:
				case <-ctx.Done():
				}
			})
			if err != nil && ctx.Err() == nil {
				p.log.Warn("following the bridges broke off; trying again", "err", err)
				sleep.For(ctx, time.Second)
			}
		}
	}()
	return f
}
