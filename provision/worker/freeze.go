package worker

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"seedbed"
	"seedbed/provision/effects"
)

const (
	// thawTime limits one request to thaw a guest, and thawAgain is the pause before the next one. A guest whose agent has not answered
	// is not asked for a while.
	thawTime  = 20 * time.Second
	thawAgain = 10 * time.Second
	// thawTries is how often a guest that was left frozen is asked to thaw.
	thawTries = 30
)

// freezes has guests' agents freeze their file systems, and thaws those that the caller leaves.
type freezes struct {
	agents agents
	limit  time.Duration
	log    *slog.Logger

	mu   sync.Mutex
	left map[seedbed.InstanceID]*time.Timer // thaw a guest
}

// HandleFreezes adds the effects that freeze and thaw guests.
func HandleFreezes(h effects.Handlers, hypervisor Agent, log *slog.Logger) {
	f := &freezes{agents: agents{agent: hypervisor}, limit: effects.FreezeTime, log: log, left: map[seedbed.InstanceID]*time.Timer{}}
	effects.FreezeGuest.Handle(h, func(ctx context.Context, _ seedbed.Call, a effects.DomainRef) error { return f.freeze(ctx, a.ID) })
	effects.ThawGuest.Handle(h, func(ctx context.Context, _ seedbed.Call, a effects.DomainRef, _ effects.Listener) (int, error) {
		if err := checkInstance(a.ID); err != nil {
			return 0, err
		}
		return f.thaw(ctx, a.ID)
	})
}

// freeze freezes a guest. One that an earlier call has left frozen, of a worker that has ended since, is thawed first: an agent refuses to
// freeze twice.
func (f *freezes) freeze(ctx context.Context, id seedbed.InstanceID) error {
	if err := checkInstance(id); err != nil {
		return err
	}
	if _, err := f.thaw(ctx, id); err != nil {
		return err
	}
	// From here on it may be frozen, whatever the answer is.
	f.mu.Lock()
	f.left[id] = time.AfterFunc(f.limit, func() { f.release(id) })
	f.mu.Unlock()
	n, err := ask[int](ctx, f.agents, id, "guest-fsfreeze-freeze", struct{}{})
	if err == nil && n <= 0 {
		err = seedbed.Errorf(seedbed.ErrAgentRefuses, "the guest agent of domain %s has frozen no file system", id)
	}
	if err != nil {
		thawing, cancel := context.WithTimeout(context.WithoutCancel(ctx), thawTime)
		defer cancel()
		if _, e := f.thaw(thawing, id); e != nil {
			f.log.Warn("a guest may be frozen, and is asked again to thaw", "instance", id, "err", e)
		}
	}
	return err
}

// thaw thaws a guest, and returns how many file systems were frozen. After an error it is asked again later, if it was frozen here.
func (f *freezes) thaw(ctx context.Context, id seedbed.InstanceID) (int, error) {
	n, err := ask[int](ctx, f.agents, id, "guest-fsfreeze-thaw", struct{}{})
	if err != nil {
		return 0, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if t := f.left[id]; t != nil {
		t.Stop()
		delete(f.left, id)
	}
	return n, nil
}

// release thaws a guest that its caller has left.
func (f *freezes) release(id seedbed.InstanceID) {
	for n := range thawTries {
		if n > 0 {
			time.Sleep(thawAgain)
		}
		f.mu.Lock()
		due := f.left[id] != nil
		f.mu.Unlock()
		if !due {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), thawTime)
		thawed, err := f.thaw(ctx, id)
		cancel()
		if err == nil {
			f.log.Warn("a guest was left frozen, and is thawed", "instance", id, "systems", thawed)
			return
		}
		f.log.Warn("a guest was left frozen, and does not thaw", "instance", id, "err", err)
	}
}
