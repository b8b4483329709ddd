package client

import (
	"context"
	"time"

	"seedbed"
)

// Power says how an instance is switched off: its guest is asked, and switched
// off if it has not shut down in time.
type Power struct {
	// Force switches off at once.
	Force bool `json:"force,omitempty"`
	// Soft fails where the guest does not shut down, and leaves it on.
	Soft bool `json:"soft,omitempty"`
	// Grace is how long the guest has; zero is the configured time.
	Grace time.Duration `json:"-"`
}

type powerRequest struct {
	Power
	Grace string `json:"grace,omitempty"`
}

func (p Power) request() powerRequest {
	r := powerRequest{Power: p}
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
	return post[seedbed.Receipt](ctx, c, at("/instances", r.Name)+"/rebuild", struct {
		powerRequest
		Profile string         `json:"profile,omitempty"`
		Image   string         `json:"image,omitempty"`
		Params  map[string]any `json:"params,omitempty"`
		Confirm string         `json:"confirm,omitempty"`
	}{p.request(), r.Profile, r.Image, r.Params, r.Confirm})
}

// Plan says what a create would make or, with that action, a rebuild. Only
// action, name, profile, image, params, hold, protected and node of the request are sent.
func (c *Client) Plan(ctx context.Context, r seedbed.Request) (seedbed.Plan, error) {
	if r.Action == seedbed.DoPlan {
		r.Action = ""
	}
	return post[seedbed.Plan](ctx, c, "/plan", struct {
		Action  string         `json:"action,omitempty"`
		Name    string         `json:"name"`
		Profile string         `json:"profile,omitempty"`
		Image   string         `json:"image,omitempty"`
		Params  map[string]any `json:"params,omitempty"`
		fresh
	}{r.Action, r.Name, r.Profile, r.Image, r.Params, freshOf(r)})
}
