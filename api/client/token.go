package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"seedbed"
	"seedbed/api/wire"
)

// AddToken makes a token and tells its secret, this once.
func (c *Client) AddToken(ctx context.Context, r wire.TokenRequest) (wire.NewToken, error) {
	return post[wire.NewToken](ctx, c, "/tokens", r)
}

// Tokens lists the tokens, without their secrets.
func (c *Client) Tokens(ctx context.Context) ([]seedbed.Token, error) {
	return get[[]seedbed.Token](ctx, c, "/tokens", nil)
}

// SetTokenQuota bounds what a token's live instances may have together.
func (c *Client) SetTokenQuota(ctx context.Context, name string, q seedbed.TokenQuota) (t seedbed.Token, err error) {
	err = c.do(ctx, call{method: http.MethodPut, path: at("/tokens", name) + "/quota", body: q, answer: &t})
	return t, err
}

// DeleteToken revokes a token.
func (c *Client) DeleteToken(ctx context.Context, name string) error {
	return c.remove(ctx, at("/tokens", name))
}

// Audit lists the last changes that were asked for, the newest first, at most limit.
func (c *Client) Audit(ctx context.Context, limit int) ([]seedbed.AuditEntry, error) {
	return get[[]seedbed.AuditEntry](ctx, c, "/audit", url.Values{"limit": {strconv.Itoa(limit)}})
}
