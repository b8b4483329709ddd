package worker

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
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
	dir    string          // of a file for each guest that may be frozen, by its ID; empty keeps none
	closed <-chan struct{} // once it is closed, guests are no longer asked again; nil never is

	mu   sync.Mutex
	left map[seedbed.InstanceID]*frozen
}

// frozen is a guest that may be frozen, and what thaws it.
type frozen struct{ timer *time.Timer }

func newFreezes(agent Agent, dir string, log *slog.Logger) *freezes {
	return &freezes{agents: agents{agent: agent}, limit: effects.FreezeTime, dir: dir, log: log, left: map[seedbed.InstanceID]*frozen{}}
}

// HandleFreezes adds the effects that freeze and thaw guests. It keeps no record of those that are frozen. Guests that do not thaw are
// asked again until closed is closed.
func HandleFreezes(h effects.Handlers, hypervisor Agent, closed <-chan struct{}, log *slog.Logger) {
	f := newFreezes(hypervisor, "", log)
	f.closed = closed
	f.handle(h)
}

func (f *freezes) handle(h effects.Handlers) {
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
	if err := f.note(id); err != nil {
		f.log.Warn("a guest is not frozen, since a worker that starts later would not know of it", "instance", id, "err", err)
		return seedbed.Errorf(seedbed.ErrUnavailable, "the worker cannot record that domain %s is frozen, and does not freeze it", id)
	}
	// From here on it may be frozen, whatever the answer is.
	f.watch(id, f.limit)
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

// watch thaws a guest after a while, unless its caller does.
func (f *freezes) watch(id seedbed.InstanceID, after time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := &frozen{}
	now.timer = time.AfterFunc(after, func() { f.release(id, now) })
	f.left[id] = now
}

// thaw thaws a guest, and returns how many file systems were frozen. After an error it is asked again later, if it was frozen here.
func (f *freezes) thaw(ctx context.Context, id seedbed.InstanceID) (int, error) {
	n, err := ask[int](ctx, f.agents, id, "guest-fsfreeze-thaw", struct{}{})
	if err == nil {
		f.forget(id)
	}
	return n, err
}

func (f *freezes) forget(id seedbed.InstanceID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now := f.left[id]; now != nil {
		now.timer.Stop()
		delete(f.left, id)
	}
	if f.dir == "" {
		return
	}
	if err := os.Remove(filepath.Join(f.dir, string(id))); err != nil && !errors.Is(err, fs.ErrNotExist) {
		f.log.Warn("the record that a guest is frozen stays", "err", err)
	}
}

// release thaws a guest that its caller has left. now is what it became when it was frozen: it may have been frozen again since.
func (f *freezes) release(id seedbed.InstanceID, now *frozen) {
	for n := range thawTries {
		if n > 0 {
			select {
			case <-time.After(thawAgain):
			case <-f.closed:
				return
			}
		}
		f.mu.Lock()
		due := f.left[id] == now
		f.mu.Unlock()
		if !due {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), thawTime)
		thawed, err := f.thaw(ctx, id)
		cancel()
		switch {
		case err == nil && thawed > 0:
			f.log.Warn("a guest was left frozen, and is thawed", "instance", id, "systems", thawed)
		case errors.Is(err, seedbed.ErrNotFound):
			f.forget(id)
		}
		if err == nil || errors.Is(err, seedbed.ErrNotFound) {
			return
		}
		f.log.Warn("a guest was left frozen, and does not thaw", "instance", id, "err", err)
	}
}

// note records that a guest may be frozen. The record need not survive the host: its guests do not either.
func (f *freezes) note(id seedbed.InstanceID) error {
	if f.dir == "" {
		return nil
	}
	return errors.Join(os.MkdirAll(f.dir, 0o700), os.WriteFile(filepath.Join(f.dir, string(id)), nil, 0o600))
}

// begin thaws the guests that a worker left frozen which has ended.
func (f *freezes) begin() {
	if f.dir == "" {
		return
	}
	all, err := os.ReadDir(f.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		f.log.Warn("guests that an earlier worker left frozen are not known", "err", err)
	}
	for _, e := range all {
		if id, err := seedbed.ParseInstanceID(e.Name()); err == nil {
			f.watch(id, 0)
		}
	}
}

// end thaws the guests that are still frozen, before the worker stops. One that does not answer is thawed when a worker starts.
func (f *freezes) end(ctx context.Context) {
	f.mu.Lock()
	ids := slices.Collect(maps.Keys(f.left))
	f.mu.Unlock()
	var thawing sync.WaitGroup
	for _, id := range ids {
		thawing.Go(func() {
			if _, err := f.thaw(ctx, id); err != nil {
				f.log.Warn("a guest may stay frozen until a worker starts", "instance", id, "err", err)
			}
		})
	}
	thawing.Wait()
}
