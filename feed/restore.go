package feed

import (
	"context"

	"seedbed"
)

// apply passes a state to the applier, one at a time.
func (c *Client) apply(ctx context.Context, s seedbed.GuestPlaneState) error {
	c.applying.Lock()
	defer c.applying.Unlock()
	err := c.cfg.Applier.Apply(ctx, s)
	c.served = c.served || err == nil
	return err
}

// restore retries the state from disk, which could not be applied because of problem, until it or a
// newer one is served. While the server is away, nothing else would apply it.
func (c *Client) restore(ctx context.Context, s seedbed.GuestPlaneState, problem error) {
	var last string
	var retry backoff
	for problem != nil {
		if ctx.Err() != nil {
			return
		}
		if problem.Error() != last {
			last = problem.Error()
			c.cfg.Log.Error("the feed on disk is not served; trying again", "revision", s.Revision, "err", problem)
		}
		if !retry.wait(ctx) {
			return
		}
		problem = c.applyFirst(ctx, s)
	}
}

// applyFirst applies s unless something is served already.
func (c *Client) applyFirst(ctx context.Context, s seedbed.GuestPlaneState) error {
	c.applying.Lock()
	defer c.applying.Unlock()
	if c.served {
		return nil
	}
	err := c.cfg.Applier.Apply(ctx, s)
	c.served = err == nil
	return err
}
