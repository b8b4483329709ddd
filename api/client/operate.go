package client

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"seedbed"
	"seedbed/api/wire"
)

// Cleanup runs the cleanup now. A dry run only reports. force overrides the refusal of an inventory
// that looks wrong.
func (c *Client) Cleanup(ctx context.Context, dryRun, force bool) (seedbed.CleanupReport, error) {
	body := wire.CleanupRequest{DryRun: dryRun, Force: force}
	return send[seedbed.CleanupReport](ctx, c, call{method: http.MethodPost, path: "/cleanup", body: body, timeout: 2 * time.Minute})
}

// Doctor returns the results of the server's checks of itself and of what it depends on.
func (c *Client) Doctor(ctx context.Context) ([]seedbed.Check, error) {
	return send[[]seedbed.Check](ctx, c, call{method: http.MethodGet, path: "/doctor", timeout: time.Minute})
}

// Health returns the API's health. It needs no token.
func (c *Client) Health(ctx context.Context) (wire.Health, error) {
	return send[wire.Health](ctx, c, call{method: http.MethodGet, path: "/health", timeout: 5 * time.Second})
}

// Overview returns the state of the installation, and counts of what exists in the project that the
// client acts in or, if in is the scope of all projects, in all.
func (c *Client) Overview(ctx context.Context, in seedbed.Scope) (wire.Overview, error) {
	return get[wire.Overview](ctx, c, "/overview", scoped(url.Values{}, in))
}

// AddProject creates a project.
func (c *Client) AddProject(ctx context.Context, r wire.ProjectRequest) (seedbed.Project, error) {
	return post[seedbed.Project](ctx, c, "/projects", r)
}

// Project returns a project and what it uses, or seedbed.ErrNotFound.
func (c *Client) Project(ctx context.Context, name string) (wire.ProjectStatus, error) {
	return get[wire.ProjectStatus](ctx, c, at("/projects", name), nil)
}

// Projects lists the projects that the caller sees.
func (c *Client) Projects(ctx context.Context) ([]seedbed.Project, error) {
	return c.ListProjects(ctx, Selection{})
}

// ChangeProject changes a project, and returns it as it is then.
func (c *Client) ChangeProject(ctx context.Context, name string, change wire.ProjectChange) (seedbed.Project, error) {
	return patch[seedbed.Project](ctx, c, at("/projects", name), change)
}

// SetProjectQuota bounds what a project may have, and returns it as it is then.
func (c *Client) SetProjectQuota(ctx context.Context, name string, q seedbed.ProjectQuota) (seedbed.Project, error) {
	return put[seedbed.Project](ctx, c, at("/projects", name)+"/quota", "", q)
}

// DeleteProject removes a project that has nothing. It returns seedbed.ErrInUse, naming what it has.
func (c *Client) DeleteProject(ctx context.Context, name string) error {
	return c.remove(ctx, at("/projects", name))
}

// InProject returns a client whose calls act in a project.
func (c *Client) InProject(name string) *Client {
	with := *c
	with.project = name
	return &with
}

// WithToken returns a client whose calls have a token, or the secret of a session.
func (c *Client) WithToken(secret string) *Client {
	with := *c
	with.token = secret
	return &with
}

// AddToken creates a token and returns its secret. The secret cannot be read again.
func (c *Client) AddToken(ctx context.Context, r wire.TokenRequest) (wire.NewToken, error) {
	return post[wire.NewToken](ctx, c, "/tokens", r)
}

// Tokens lists the tokens, without their secrets.
func (c *Client) Tokens(ctx context.Context) ([]seedbed.Token, error) {
	return c.ListTokens(ctx, Selection{})
}

// Token returns a token, or seedbed.ErrNotFound.
func (c *Client) Token(ctx context.Context, name string) (seedbed.Token, error) {
	return get[seedbed.Token](ctx, c, at("/tokens", name), nil)
}

// ChangeToken changes what a token may do, and when it expires.
func (c *Client) ChangeToken(ctx context.Context, name string, change wire.TokenChange) (seedbed.Token, error) {
	return patch[seedbed.Token](ctx, c, at("/tokens", name), change)
}

// SetTokenQuota bounds what a token's live instances may use together.
func (c *Client) SetTokenQuota(ctx context.Context, name string, q seedbed.TokenQuota) (seedbed.Token, error) {
	return put[seedbed.Token](ctx, c, at("/tokens", name)+"/quota", "", q)
}

// DeleteToken removes a token, which then authenticates nothing.
func (c *Client) DeleteToken(ctx context.Context, name string) error {
	return c.remove(ctx, at("/tokens", name))
}
