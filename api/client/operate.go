package client

import (
	"context"
	"net/http"
	"time"

	"seedbed"
	"seedbed/api/wire"
)

// Cleanup runs the cleanup now. A dry run only reports. force overrides the refusal of an inventory
// that looks wrong.
func (c *Client) Cleanup(ctx context.Context, dryRun, force bool) (seedbed.CleanupReport, error) {
	var r seedbed.CleanupReport
	body := wire.CleanupRequest{DryRun: dryRun, Force: force}
	err := c.do(ctx, call{method: http.MethodPost, path: "/cleanup", body: body, answer: &r, timeout: 2 * time.Minute})
	return r, err
}

// Doctor returns the results of the server's checks of itself and of what it depends on.
func (c *Client) Doctor(ctx context.Context) ([]seedbed.Check, error) {
	var checks []seedbed.Check
	err := c.do(ctx, call{method: http.MethodGet, path: "/doctor", answer: &checks, timeout: time.Minute})
	return checks, err
}

// Health returns the API's health. It needs no token.
func (c *Client) Health(ctx context.Context) (wire.Health, error) {
	var h wire.Health
	err := c.do(ctx, call{method: http.MethodGet, path: "/health", answer: &h, timeout: 5 * time.Second})
	return h, err
}

// Overview returns the state of the installation, and counts of what exists.
func (c *Client) Overview(ctx context.Context) (wire.Overview, error) {
	return get[wire.Overview](ctx, c, "/overview", nil)
}
