package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"seedbed"
	"seedbed/api/wire"
)

func get[T any](ctx context.Context, c *Client, path string, query url.Values) (T, error) {
	var v T
	err := c.do(ctx, call{method: http.MethodGet, path: path, query: query, answer: &v})
	return v, err
}

func post[T any](ctx context.Context, c *Client, path string, body any) (T, error) {
	var v T
	err := c.do(ctx, call{method: http.MethodPost, path: path, body: body, answer: &v})
	return v, err
}

func (c *Client) remove(ctx context.Context, path string) error {
	return c.do(ctx, call{method: http.MethodDelete, path: path})
}

func limit(n int) url.Values {
	if n <= 0 {
		return nil
	}
	return url.Values{"limit": {strconv.Itoa(n)}}
}

func at(collection, name string) string { return collection + "/" + url.PathEscape(name) }

// ImportImage starts an import job.
func (c *Client) ImportImage(ctx context.Context, r wire.ImageRequest) (seedbed.Receipt, error) {
	return post[seedbed.Receipt](ctx, c, "/images", r)
}

// Images lists the images.
func (c *Client) Images(ctx context.Context) ([]seedbed.Image, error) {
	return get[[]seedbed.Image](ctx, c, "/images", nil)
}

// Image returns an image, or seedbed.ErrNotFound.
func (c *Client) Image(ctx context.Context, name string) (seedbed.Image, error) {
	return get[seedbed.Image](ctx, c, at("/images", name), nil)
}

// Networks lists the managed networks.
func (c *Client) Networks(ctx context.Context) ([]seedbed.Network, error) {
	return get[[]seedbed.Network](ctx, c, "/networks", nil)
}

// Leases lists the DHCP leases.
func (c *Client) Leases(ctx context.Context) ([]seedbed.Lease, error) {
	return get[[]seedbed.Lease](ctx, c, "/leases", nil)
}
