package fleet

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"time"

	"seedbed"
	"seedbed/provision/effects"
)

// Client asks the worker that answers on a unix socket, or on another host over
// TLS, for effects. It implements effects.Worker. Its methods may be called at the same time.
//
// Every method ends with its context: the worker is told to end the call, and the
// method waits until it has, for a few seconds at most. A context without a deadline gets one.
type Client struct {
	at      string // where the worker is, for messages: a path or a URL
	dial    func(context.Context) (net.Conn, error)
	http    *http.Client
	grace   time.Duration
	silence time.Duration
}

// The time that a call has when its context sets no deadline.
const (
	readTime   = 30 * time.Second
	effectTime = 10 * time.Minute
)

const (
	// deadlineGrace is how much longer than the worker the client waits, for the worker's own error.
	deadlineGrace = 2 * time.Second
	// silenceTime is how long a worker that is alive can be silent.
	silenceTime = 10 * time.Second
	// cancelTime is how long a cancel waits for the end of what it cancels.
	cancelTime = 5 * time.Second
)

// NewClient makes a client of the worker's socket at path. Nothing is connected yet.
func NewClient(path string) *Client {
	return newClient(path, socketDialer(path))
}

// NewRemoteClient makes a client of the worker that serves control hosts at url, such
// as https://hv2.example:7375, over TLS as conf says, which decides whether it is the
// right one. Nothing is connected yet. Calls of a URL of another form give ErrInvalid.
func NewRemoteClient(url string, conf *tls.Config) *Client {
	return newClient(url, tlsDialer(url, conf))
}

func newClient(at string, dial func(context.Context) (net.Conn, error)) *Client {
	return &Client{at: at, dial: dial, grace: deadlineGrace, silence: silenceTime, http: &http.Client{Transport: &http.Transport{
		// A connection per call: one that was kept would break with the worker's restart.
		DisableKeepAlives: true,
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
	}}}
}

// cancel ends the call of that ID, and returns when it has ended or after a few seconds.
func (c *Client) cancel(ctx context.Context, id string, call seedbed.Call) error {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), cancelTime)
	defer stop()
	_, err := c.send(ctx, effects.CancelCall, effects.Request{ID: id, Call: call}, func(effects.Line) {})
	if err != nil {
		return fmt.Errorf("cancel: %w", err)
	}
	return nil
}

// Supersede ends what the worker does for the call's job, and has it refuse what
// comes under an earlier epoch: another worker goes on with the job. It returns
// when all has ended, or ErrUnavailable after a few seconds.
func (c *Client) Supersede(ctx context.Context, call seedbed.Call) error {
	return c.cancel(ctx, "", call)
}
