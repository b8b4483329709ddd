package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"seedbed"
)

// TokenRequest asks for a token of the API.
type TokenRequest struct {
	Name string       `json:"name"`
	Role seedbed.Role `json:"role"`
	// Expires is when it ends; zero is never.
	Expires time.Time `json:"expires,omitzero"`
	// Quota bounds the instances that are made by it.
	Quota seedbed.TokenQuota `json:"quota,omitzero"`
}

// NewToken is a token that was just made.
type NewToken struct {
	Token seedbed.Token `json:"token"`
	// Secret is what its holder sends. It is told this once.
	Secret string `json:"secret"`
}

// AddToken makes a token and tells its secret, this once.
func (c *Client) AddToken(ctx context.Context, r TokenRequest) (NewToken, error) {
	return post[NewToken](ctx, c, "/tokens", r)
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
