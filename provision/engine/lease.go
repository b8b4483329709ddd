package engine

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"seedbed"
	"seedbed/internal/sleep"
)

// Why a job's context ended, other than by the engine's own end.
var (
	// ErrLost: another holder may have the job by now, so nothing more may be done.
	ErrLost = errors.New("the lease is lost")
	// errCancelled: a user or a later request cancelled the job.
	errCancelled = errors.New("cancelled on request")
)

// leaseKeeper renews one job's lease while the job runs.
type leaseKeeper struct {
	engine *Engine
	ref    seedbed.JobRef
	// leased ends with the lease or the engine, and covers everything that is done for the job.
	// forward, its child, also ends when the job is cancelled.
	leased, forward context.Context
	until           atomic.Int64 // when the lease ends unless renewed: time since start
	start           time.Time
	ended           chan struct{}
	end             context.CancelCauseFunc
}

// keepLease starts renewing the lease of a job that was claimed at the given time.
func (e *Engine) keepLease(ctx context.Context, ref seedbed.JobRef, claimed time.Time) *leaseKeeper {
	h := &leaseKeeper{engine: e, ref: ref, start: claimed, ended: make(chan struct{})}
	h.until.Store(int64(e.cfg.Lease))
	var cancel context.CancelCauseFunc
	h.leased, h.end = context.WithCancelCause(ctx)
	h.forward, cancel = context.WithCancelCause(h.leased)
	go func() {
		defer close(h.ended)
		h.renew(cancel)
	}()
	return h
}

// release stops renewing and waits until that has ended. It writes nothing.
func (h *leaseKeeper) release() {
	h.end(context.Canceled)
	<-h.ended
}

// check returns why no effect may be started now; nil if one may.
func (h *leaseKeeper) check(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if time.Since(h.start) >= time.Duration(h.until.Load()) {
		h.end(ErrLost) // this process was stopped for longer than the lease
		return ErrLost
	}
	return nil
}

// renew extends the lease after every third of it, and in between checks whether the job is to be
// cancelled. After two thirds without a renewal it ends the contexts, so that nothing runs any more
// when the lease ends.
func (h *leaseKeeper) renew(cancel context.CancelCauseFunc) {
	lease := h.engine.cfg.Lease
	renewed := h.start
	for {
		sleep.For(h.leased, min(lease/3, h.engine.intervals.CancelPoll))
		if h.leased.Err() != nil {
			return
		}
		if time.Since(renewed) < lease/3 {
			if job, err := h.engine.store.Job(h.leased, h.ref.ID); err == nil && job.Cancel {
				cancel(errCancelled)
			}
			continue
		}
		asked := time.Now()
		stop, err := h.extend(lease)
		switch {
		case err == nil:
			renewed = asked
			h.until.Store(int64(asked.Sub(h.start) + lease))
			if stop {
				cancel(errCancelled)
			}
		case errors.Is(err, seedbed.ErrStale), time.Since(renewed) >= lease*2/3:
			h.end(fmt.Errorf("%w: %w", ErrLost, err))
			return
		}
	}
}

func (h *leaseKeeper) extend(lease time.Duration) (cancel bool, err error) {
	ctx, done := context.WithTimeout(h.leased, lease/3)
	defer done()
	return h.engine.store.RenewLease(ctx, h.ref, lease)
}
