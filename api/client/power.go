package client

import (
	"context"
	"time"

	"seedbed"
	"seedbed/api/wire"
)

// Power says how an instance is switched off: its guest is asked, and switched
// off if it has not shut down in time.
type Power struct {
	// Force switches off at once.
	Force bool
	// Soft fails where the guest does not shut down, and leaves it on.
	Soft bool
	// Grace is how long the guest has; zero is the configured time.
	Grace time.Duration
}

func (p Power) request() wire.PowerRequest {
	r := wire.PowerRequest{Force: p.Force, Soft: p.Soft}
	if p.Grace != 0 {
		r.Grace = p.Grace.String()
	}
	return r
}

// StartInstance starts a job that starts an instance's domain.
func (c *Client) StartInstance(ctx context.Context, name string) (seedbed.Receipt, error) {
	return post[seedbed.Receipt](ctx, c, at("/instances", name)+"/start", nil)
}

// StopInstance starts a job that shuts an instance down, or switches it off.
func (c *Client) StopInstance(ctx context.Context, name string, p Power) (seedbed.Receipt, error) {
	return post[seedbed.Receipt](ctx, c, at("/instances", name)+"/stop", p.request())
}

// RebootInstance starts a job that does the same and starts it again.
func (c *Client) RebootInstance(ctx context.Context, name string, p Power) (seedbed.Receipt, error) {
	return post[seedbed.Receipt](ctx, c, at("/instances", name)+"/reboot", p.request())
}

// RebuildInstance starts a job that gives an instance fresh disks. Only name,
// profile, image, params and confirm of the request are sent; what is empty stays as it is.
func (c *Client) RebuildInstance(ctx context.Context, r seedbed.Request, p Power) (seedbed.Receipt, error) {
	return post[seedbed.Receipt](ctx, c, at("/instances", r.Name)+"/rebuild", wire.RebuildRequest{
		PowerRequest: p.request(), Profile: r.Profile, Image: r.Image, Params: r.Params, Confirm: r.Confirm,
	})
}

// Plan says what a create would make or, with that action, a rebuild. Only
// action, name, profile, image, params, hold, protected and node of the request are sent.
func (c *Client) Plan(ctx context.Context, r seedbed.Request) (seedbed.Plan, error) {
	if r.Action == seedbed.DoPlan {
		r.Action = ""
	}
	return post[seedbed.Plan](ctx, c, "/plan", wire.PlanRequest{
		Action: r.Action, Name: r.Name, Profile: r.Profile, Image: r.Image, Params: r.Params, NewInstance: newInstance(r),
	})
}
