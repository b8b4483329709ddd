package client

import (
	"context"

	"seedbed/api/wire"
)

// SignIn returns where people sign in, or seedbed.ErrNotFound if they do not.
func (c *Client) SignIn(ctx context.Context) (wire.SignIn, error) {
	return get[wire.SignIn](ctx, c, "/signin/provider", nil)
}

// TakeSession exchanges the code at the end of a sign-in for a session, and returns the session's secret,
// which is used like that of a token.
func (c *Client) TakeSession(ctx context.Context, r wire.SessionRequest) (wire.NewSession, error) {
	return post[wire.NewSession](ctx, c, "/signin/token", r)
}

// ListSessions lists the sessions that the caller may see and the selection selects, by name.
func (c *Client) ListSessions(ctx context.Context, s Selection) ([]wire.Session, error) {
	return selected[wire.Session](ctx, c, "/sessions", s)
}

// Session returns a session. The ID "current" is that of the client's own.
func (c *Client) Session(ctx context.Context, id string) (wire.Session, error) {
	return get[wire.Session](ctx, c, at("/sessions", id), nil)
}

// EndSession ends a session. The ID "current" is that of the client's own.
func (c *Client) EndSession(ctx context.Context, id string) error {
	return c.remove(ctx, at("/sessions", id))
}
