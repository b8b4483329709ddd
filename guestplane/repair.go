package guestplane

import (
	"context"
	"time"
)

const (
	firstBackoff = 50 * time.Millisecond
	maxBackoff   = 2 * time.Second
)

// repair restores the network after a bridge went away, and retries until it succeeds. It is used
// by one goroutine.
type repair struct {
	restore func(context.Context) error
	failed  func(error) // called once for each new problem

	again   <-chan time.Time // when to try next; nil if nothing is to be done
	backoff time.Duration
	last    string
}

func (r *repair) try(ctx context.Context) {
	err := r.restore(ctx)
	if err == nil || ctx.Err() != nil {
		r.again, r.backoff, r.last = nil, 0, ""
		return
	}
	if err.Error() != r.last {
		r.last = err.Error()
		r.failed(err)
	}
	r.backoff = min(max(2*r.backoff, firstBackoff), maxBackoff)
	r.again = time.After(r.backoff)
}
