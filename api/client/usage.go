package client

import (
	"context"

	"seedbed"
	"seedbed/api/wire"
)

// Usage returns what the running instances in a scope have used, on that node or, without one, on all.
func (c *Client) Usage(ctx context.Context, in seedbed.Scope, node string) (wire.Usage, error) {
	return get[wire.Usage](ctx, c, "/usage", scoped(given(map[string]string{"node": node}), in))
}
