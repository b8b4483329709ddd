package client

import (
	"context"
	"errors"
	"strings"

	"seedbed"
	"seedbed/api/wire"
	"seedbed/internal/duplex"
)

// OpenConsole opens a session at the serial console of an instance. Its first message is a [seedbed.ConsoleNote], which says
// whether the session may type, or why there is none.
func (c *Client) OpenConsole(ctx context.Context, name string, r wire.ConsoleRequest) (*duplex.Conn, error) {
	t, err := post[wire.Ticket](ctx, c, at("/instances", name)+"/console", r)
	if err != nil {
		return nil, err
	}
	return c.channel(ctx, t)
}

// channel opens what a ticket is for.
func (c *Client) channel(ctx context.Context, t wire.Ticket) (*duplex.Conn, error) {
	at, ok := strings.CutPrefix(t.Path, prefix)
	if !ok {
		return nil, seedbed.Errorf(seedbed.ErrInvalid, "the API on %s answered with a ticket for %q: expected a path below %s", c.where,
			seedbed.Clip(t.Path), prefix)
	}
	conn, err := c.dialer.Open(ctx, "ws"+strings.TrimPrefix(c.base, "http")+prefix+at, nil)
	if refused, ok := errors.AsType[*duplex.Refused](err); ok {
		return nil, c.problem(refused.Status, refused.Body)
	}
	if err != nil {
		return nil, c.unanswered(ctx, err)
	}
	return conn, nil
}
