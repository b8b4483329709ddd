package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"seedbed"
	"seedbed/api/wire"
)

// AddToken creates a token and returns its secret. The secret cannot be read again.
func (c *Client) AddToken(ctx context.Context, r wire.TokenRequest) (wire.NewToken, error) {
	return post[wire.NewToken](ctx, c, "/tokens", r)
}

// Tokens lists the tokens, without their secrets.
func (c *Client) Tokens(ctx context.Context) ([]seedbed.Token, error) {
	return get[[]seedbed.Token](ctx, c, "/tokens", nil)
}

// SetTokenQuota bounds what a token's live instances may use together.
func (c *Client) SetTokenQuota(ctx context.Context, name string, q seedbed.TokenQuota) (t seedbed.Token, err error) {
	err = c.do(ctx, call{method: http.MethodPut, path: at("/tokens", name) + "/quota", body: q, answer: &t})
	return t, err
}

// DeleteToken removes a token, which then authenticates nothing.
func (c *Client) DeleteToken(ctx context.Context, name string) error {
	return c.remove(ctx, at("/tokens", name))
}

// Audit lists the last limit requested changes, newest first.
func (c *Client) Audit(ctx context.Context, limit int) ([]seedbed.AuditEntry, error) {
	return get[[]seedbed.AuditEntry](ctx, c, "/audit", url.Values{"limit": {strconv.Itoa(limit)}})
}
