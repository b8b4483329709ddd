package fleet

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"seedbed"
	"seedbed/internal/duplex"
	"seedbed/provision/effects"
)

// Client requests effects from the worker that answers on a unix socket, or on another host over
// TLS. It implements effects.Worker. Its methods may be called at the same time.
//
// Every method ends with its context: it tells the worker to end the call, and waits until that has
// happened, for a few seconds at most. A context without a deadline gets one.
type Client struct {
	at      string // where the worker is, for messages: a path or a URL
	dial    func(context.Context) (net.Conn, error)
	http    *http.Client
	grace   time.Duration
	silence time.Duration
	// incarnation returns that of the worker's node; nil for none.
	incarnation func() int64
}

// The time that a call has if its context has no deadline.
const (
	readTime   = 30 * time.Second
	effectTime = 10 * time.Minute
)

const (
	// deadlineGrace is how much longer than the worker the client waits, to receive the worker's
	// own error.
	deadlineGrace = 2 * time.Second
	// silenceTime is how long a live worker can be silent.
	silenceTime = 10 * time.Second
	// cancelTime is how long a cancel waits for the calls that it ends.
	cancelTime = 5 * time.Second
)

// NewClient makes a client of the worker's socket at path. It does not connect yet.
func NewClient(path string) *Client {
	return newClient(path, socketDialer(path))
}

// NewRemoteClient makes a client of the worker that serves control hosts at url, such as
// https://hv2.example:7375. conf decides whether the worker's TLS certificate is the right one. The
// client does not connect yet. Its calls return ErrInvalid if url has another form.
func NewRemoteClient(url string, conf *tls.Config) *Client {
	return newClient(url, tlsDialer(url, conf))
}

func newClient(at string, dial func(context.Context) (net.Conn, error)) *Client {
	return &Client{at: at, dial: dial, grace: deadlineGrace, silence: silenceTime, http: &http.Client{Transport: &http.Transport{
		// One connection per call: a kept connection would break when the worker restarts.
		DisableKeepAlives: true,
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
	}}}
}

// cancel ends the call with that ID, and returns when it has ended or after a few seconds.
func (c *Client) cancel(ctx context.Context, id string, call seedbed.Call) error {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), cancelTime)
	defer stop()
	_, err := c.send(ctx, effects.CancelCall, effects.Request{ID: id, Call: call}, func(effects.Line) {})
	if err != nil {
		return fmt.Errorf("cancel: %w", err)
	}
	return nil
}

// Supersede ends what the worker does for the call's job, because another worker continues the job.
// From then on the worker refuses earlier epochs of the job. Supersede returns when everything has
// ended, or ErrUnavailable after a few seconds.
func (c *Client) Supersede(ctx context.Context, call seedbed.Call) error {
	return c.cancel(ctx, "", call)
}

// OpenChannel implements effects.Opener.
func (c *Client) OpenChannel(ctx context.Context, call string, args json.RawMessage) (*duplex.Conn, error) {
	dialer := duplex.Dialer{Dial: func(ctx context.Context, _, _ string) (net.Conn, error) { return c.dial(ctx) }}
	conn, err := dialer.Open(ctx, "ws://worker/v1/"+call+"?"+url.Values{"args": {string(args)}}.Encode(), nil)
	if refused, ok := errors.AsType[*duplex.Refused](err); ok {
		var l effects.Line
		older := refused.Status.StatusCode == http.StatusNotFound || refused.Status.StatusCode == http.StatusMethodNotAllowed
		if older || json.Unmarshal(refused.Body, &l) != nil || l.Error == nil {
			return nil, seedbed.Errorf(seedbed.ErrUnavailable, "the worker on %s has no %s (HTTP status %s): update it, it is older than seedbedd",
				c.at, call, refused.Status.Status)
		}
		return nil, seedbed.KindError(l.Error.Kind, l.Error.Message)
	}
	if err != nil {
		return nil, c.broken(ctx, err)
	}
	return conn, nil
}
