// Package outbox delivers events to the endpoints that subscribe to them. The store records the
// events in the same transaction as the changes. They are posted as Standard Webhooks 1.0.0 with
// the signature of every active key, v1 or v1a.
//
// A delivery arrives at least once, with the same webhook-id each time. Deliveries to one endpoint
// keep the order of seq: one that fails holds back the later ones until it is delivered or given
// up. Endpoints do not wait for each other. Any number of control hosts may deliver, because an
// endpoint is leased for each attempt.
package outbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"seedbed"
)

// Store is the outbox.
type Store interface {
	// ClaimOutgoing claims the next delivery that is due. If none is due, it returns nil and the
	// time until one will be, or 0 if nothing is pending.
	ClaimOutgoing(ctx context.Context, owner string, lease time.Duration) (*seedbed.OutgoingClaim, time.Duration, error)
	RecordOutgoing(ctx context.Context, c seedbed.OutgoingClaim, a seedbed.Attempt) error
	// ReleaseOutgoing releases the endpoint without an outcome.
	ReleaseOutgoing(ctx context.Context, c seedbed.OutgoingClaim) error
	// Hint is closed at the next write.
	Hint() <-chan struct{}
}

// Directory looks up endpoints.
type Directory interface {
	Endpoint(ctx context.Context, name string) (seedbed.Endpoint, error)
	OutgoingStats(ctx context.Context) ([]seedbed.OutgoingStats, error)
}

// Config configures a Deliverer.
type Config struct {
	Store     Store
	Directory Directory
	// Node is the name of this host. The store shows it as the owner of a lease.
	Node string
	Log  *slog.Logger
}

const (
	// workers bounds the attempts of one host at a time.
	workers = 16
	// lease outlives an attempt, so that another worker only takes over attempts that were
	// abandoned.
	lease = totalTimeout + 25*time.Second
	// poll is how long a write of another host may go unnoticed.
	poll = time.Minute
	// rest is the minimum time between two queries, since every write gives a hint.
	rest = 100 * time.Millisecond
	// retryStore is the pause after an error of the store.
	retryStore = time.Second
	// writeTimeout bounds writing an outcome, which continues when the deliverer stops.
	writeTimeout = 5 * time.Second
)

// Deliverer sends what is in the outbox.
type Deliverer struct {
	Config
	owner   string
	send    func(context.Context, seedbed.Endpoint, seedbed.Outgoing) result
	random  func() float64
	counted *counters
	// done receives a value when an attempt ends, because its endpoint may be due again.
	done chan struct{}
}

// New returns a Deliverer. Nothing runs before Run.
func New(c Config) *Deliverer {
	return &Deliverer{
		Config: c, owner: c.Node + "/" + string(seedbed.NewJobID()), send: newSender().send, random: rand.Float64,
		counted: newCounters(), done: make(chan struct{}, 1),
	}
}

// Run delivers until ctx ends. It then cancels running attempts, which the next worker repeats.
func (d *Deliverer) Run(ctx context.Context) error {
	var attempts sync.WaitGroup
	defer attempts.Wait()
	slots := make(chan struct{}, workers)
	for {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		c := d.claim(ctx)
		if c == nil {
			return nil
		}
		attempts.Go(func() {
			defer func() {
				<-slots
				select {
				case d.done <- struct{}{}:
				default:
				}
			}()
			d.deliver(ctx, *c)
		})
	}
}

// claim waits for a delivery that is due. It returns nil once ctx has ended.
func (d *Deliverer) claim(ctx context.Context) *seedbed.OutgoingClaim {
	for ctx.Err() == nil {
		hint := d.Store.Hint()
		c, next, err := d.Store.ClaimOutgoing(ctx, d.owner, lease)
		switch {
		case c != nil:
			return c
		case err != nil && ctx.Err() == nil:
			d.Log.Error("look for deliveries", "err", err)
			hint, next = nil, retryStore // a failing store is not queried at every write
		case next <= 0 || next > poll:
			next = poll
		}
		d.wait(ctx, hint, next)
	}
	return nil
}

func (d *Deliverer) wait(ctx context.Context, hint <-chan struct{}, next time.Duration) {
	timer := time.NewTimer(next)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return
	case <-timer.C:
		return
	case <-d.done:
		return
	case <-hint:
	}
	timer.Reset(rest)
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-d.done:
	}
}

// deliver makes one attempt and records the outcome.
func (d *Deliverer) deliver(ctx context.Context, c seedbed.OutgoingClaim) {
	r := d.attempt(ctx, c.Endpoint, c.Outgoing)
	write, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	log := d.Log.With("endpoint", c.Endpoint.Name, "delivery", c.Outgoing.ID)
	if r.err != "" && ctx.Err() != nil { // it was cancelled, which is not the receiver's fault
		if err := d.Store.ReleaseOutgoing(write, c); err != nil {
			log.Warn("give a delivery back", "err", err)
		}
		return
	}
	a := judge(c, r, d.random())
	d.counted.count(c.Endpoint.Name, a)
	switch err := d.Store.RecordOutgoing(write, c, a); {
	case errors.Is(err, seedbed.ErrStale):
		log.Warn("the outcome came too late: the delivery is sent again", "err", err)
	case err != nil:
		log.Error("record a delivery", "err", err)
	case a.Disable != "":
		log.Error("endpoint disabled", "reason", a.Disable)
	case a.State == seedbed.OutgoingDead:
		log.Error("delivery given up", "attempts", c.Outgoing.Attempts+1, "err", a.Error)
	case a.State == seedbed.OutgoingPending:
		log.Warn("delivery failed", "attempt", c.Outgoing.Attempts+1, "err", a.Error, "next", a.Retry.Round(time.Second))
	}
}

// attempt is like send, but turns a panic into a failure of this delivery.
func (d *Deliverer) attempt(ctx context.Context, e seedbed.Endpoint, o seedbed.Outgoing) (r result) {
	began := time.Now()
	defer func() {
		if v := recover(); v != nil {
			d.Log.Error("panic in a delivery", "endpoint", e.Name, "panic", fmt.Sprint(v))
			r = result{at: began, took: time.Since(began), err: "internal error"}
		}
	}()
	return d.send(ctx, e, o)
}
