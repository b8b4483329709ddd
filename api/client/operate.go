package client

import (
	"context"
	"net/http"
	"time"

	"seedbed"
)

// CleanupReport is what one run of the cleanup did, or would do.
type CleanupReport struct {
	Tasks []CleanupTask `json:"tasks"`
	// Refused says why nothing was touched; empty when it ran.
	Refused string `json:"refused"`
	// Skipped says why what is on some of the nodes was not touched.
	Skipped []string `json:"skipped"`
}

// CleanupTask is one thing that went, or would go.
type CleanupTask struct {
	Name    string `json:"name"`
	Action  string `json:"action"`
	Subject string `json:"subject"`
	Detail  string `json:"detail"`
}

// Cleanup runs the cleanup now. A dry run only tells; force overrides the
// refusal of an inventory that looks wrong.
func (c *Client) Cleanup(ctx context.Context, dryRun, force bool) (CleanupReport, error) {
	var r CleanupReport
	body := struct {
		DryRun bool `json:"dry_run"`
		Force  bool `json:"force"`
	}{dryRun, force}
	err := c.do(ctx, call{method: http.MethodPost, path: "/cleanup", body: body, answer: &r, timeout: 2 * time.Minute})
	return r, err
}

// Doctor is the server's checks of itself and what it depends on.
func (c *Client) Doctor(ctx context.Context) ([]seedbed.Check, error) {
	var checks []seedbed.Check
	err := c.do(ctx, call{method: http.MethodGet, path: "/doctor", answer: &checks, timeout: time.Minute})
	return checks, err
}

// Health is what the API says of itself, to anybody.
type Health struct {
	Status  string `json:"status"` // "ok"
	Version string `json:"version"`
	Node    string `json:"node"`
}

// Health tells whether the API answers. It needs no token.
func (c *Client) Health(ctx context.Context) (Health, error) {
	var h Health
	err := c.do(ctx, call{method: http.MethodGet, path: "/health", answer: &h, timeout: 5 * time.Second})
	return h, err
}

// Overview is an installation on one page.
type Overview struct {
	Version string `json:"version"`
	Node    string `json:"node"`
	// Nodes is how many hypervisors are in which state.
	Nodes map[seedbed.NodeState]int `json:"nodes"`
	// Checks is how many the server made; Wrong are those that found a problem.
	Checks int             `json:"checks"`
	Wrong  []seedbed.Check `json:"wrong"`
	Census seedbed.Census  `json:"census"`
	// Jobs are the last ones, the newest first.
	Jobs []seedbed.Job `json:"jobs"`
}

// Overview tells how the installation is, and what there is.
func (c *Client) Overview(ctx context.Context) (Overview, error) {
	return get[Overview](ctx, c, "/overview", nil)
}
