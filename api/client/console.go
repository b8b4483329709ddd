package client

import (
	"context"
	"errors"
	"net/http"
	"strconv"
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

// ScreenTicket returns a ticket to the screen of an instance, and the URL of the WebSocket that it opens.
func (c *Client) ScreenTicket(ctx context.Context, name string) (t wire.Ticket, url string, err error) {
	if t, err = post[wire.Ticket](ctx, c, at("/instances", name)+"/vnc", nil); err != nil {
		return t, "", err
	}
	url, err = c.socket(t)
	return t, url, err
}

// OpenScreen opens a session at the screen of an instance: the bytes of VNC in both directions.
func (c *Client) OpenScreen(ctx context.Context, name string) (*duplex.Stream, error) {
	t, _, err := c.ScreenTicket(ctx, name)
	if err != nil {
		return nil, err
	}
	conn, err := c.channel(ctx, t)
	if err != nil {
		return nil, err
	}
	return &duplex.Stream{Conn: conn}, nil
}

// Screenshot returns what the screen of an instance shows, as a PNG.
func (c *Client) Screenshot(ctx context.Context, name string) ([]byte, error) {
	var b []byte
	err := c.do(ctx, call{method: http.MethodGet, path: at("/instances", name) + "/screenshot", raw: &b})
	return b, err
}

// GuestExec starts a program in the guest of an instance, and returns its ID. GuestWait waits for it.
func (c *Client) GuestExec(ctx context.Context, name string, g seedbed.GuestCommand) (seedbed.GuestProcess, error) {
	return post[seedbed.GuestProcess](ctx, c, at("/instances", name)+"/exec", g)
}

// GuestWait waits some seconds for a program in the guest of an instance. The output can be asked for again for some minutes.
func (c *Client) GuestWait(ctx context.Context, name string, process int64) (seedbed.GuestProcess, error) {
	return get[seedbed.GuestProcess](ctx, c, at("/instances", name)+"/exec/"+strconv.FormatInt(process, 10), nil)
}

// OpenFile begins to copy a file from the guest of an instance, or to it. Who writes calls EndFile after the bytes, and reads
// until the end.
func (c *Client) OpenFile(ctx context.Context, name string, r wire.FileRequest) (*duplex.Stream, error) {
	t, err := post[wire.Ticket](ctx, c, at("/instances", name)+"/file", r)
	if err != nil {
		return nil, err
	}
	conn, err := c.channel(ctx, t)
	if err != nil {
		return nil, err
	}
	return &duplex.Stream{Conn: conn}, nil
}

// EndFile says that a file has no more bytes.
func EndFile(s *duplex.Stream) error {
	return s.Send(duplex.Message{Text: true, Data: seedbed.ConsoleNote{Note: seedbed.NoteEnd}.JSON()})
}

// socket returns the URL of the WebSocket that a ticket opens.
func (c *Client) socket(t wire.Ticket) (string, error) {
	at, ok := strings.CutPrefix(t.Path, prefix)
	if !ok {
		return "", seedbed.Errorf(seedbed.ErrInvalid, "the API on %s answered with a ticket for %q: expected a path below %s", c.where,
			seedbed.Clip(t.Path), prefix)
	}
	return "ws" + strings.TrimPrefix(c.base, "http") + prefix + at, nil
}

// channel opens what a ticket is for.
func (c *Client) channel(ctx context.Context, t wire.Ticket) (*duplex.Conn, error) {
	url, err := c.socket(t)
	if err != nil {
		return nil, err
	}
	conn, err := c.dialer.Open(ctx, url, nil)
	if refused, ok := errors.AsType[*duplex.Refused](err); ok {
		return nil, c.problem(refused.Status, refused.Body)
	}
	if err != nil {
		return nil, c.unanswered(ctx, err)
	}
	return conn, nil
}
