package fleet

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/url"
	"syscall"
	"time"

	"seedbed"
	"seedbed/internal/mtls"
)

// dialTime limits the time of making a connection, including authentication by both sides.
const dialTime = 5 * time.Second

// socketDialer connects to a unix socket.
func socketDialer(path string) func(context.Context) (net.Conn, error) {
	return func(ctx context.Context) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, dialTime)
		defer cancel()
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}
}

// tlsDialer connects to the host and port of an https URL.
func tlsDialer(at string, conf *tls.Config) func(context.Context) (net.Conn, error) {
	u, err := url.Parse(at)
	if err != nil || u.Scheme != "https" || u.Port() == "" || u.Host != at[len("https://"):] {
		wrong := seedbed.Errorf(seedbed.ErrInvalid,
			"the worker's address %q cannot be used: expected https://HOST:PORT, such as https://hv2.example:7375", at)
		return func(context.Context) (net.Conn, error) { return nil, wrong }
	}
	return func(ctx context.Context) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, dialTime)
		defer cancel()
		conn, err := mtls.Dial(ctx, u.Host, conf)
		if err == nil {
			return conn, nil
		}
		if dial, ok := errors.AsType[*net.OpError](err); ok && dial.Op == "dial" {
			return nil, err
		}
		if ctx.Err() != nil {
			return nil, seedbed.Errorf(seedbed.ErrUnavailable, "the worker on %s does not answer: no TLS handshake within %s", at, dialTime)
		}
		if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
			return nil, seedbed.Errorf(seedbed.ErrUnavailable,
				"the worker on %s does not answer: the connection broke in the TLS handshake: was seedbed-worker restarted?", at)
		}
		return nil, seedbed.Errorf(seedbed.ErrUnavailable, "the worker on %s is not trusted: %v", at, err)
	}
}

// abort ends all activity on a connection at once: closing TLS in order would wait for a peer that
// reads nothing.
func abort(conn net.Conn) {
	if c, ok := conn.(*tls.Conn); ok {
		conn = c.NetConn()
	}
	_ = conn.SetDeadline(time.Unix(1, 0))
	if _, ok := conn.(*net.TCPConn); ok {
		_ = conn.Close()
	}
}

// broken returns the error of a connection that could not be made or broke.
func (c *Client) broken(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if ours, ok := errors.AsType[*seedbed.Error](err); ok {
		return ours
	}
	dial, ok := errors.AsType[*net.OpError](err)
	if ok && dial.Op == "remote error" { // crypto/tls's name for an alert
		return seedbed.Errorf(seedbed.ErrUnavailable, "the worker on %s refuses the certificate of this host (%v): its log says why",
			c.at, dial.Err)
	}
	if !ok || dial.Op != "dial" {
		return seedbed.Errorf(seedbed.ErrUnavailable,
			"the connection to the worker on %s broke before it had answered: was seedbed-worker restarted?", c.at)
	}
	switch {
	case errors.Is(err, fs.ErrPermission):
		return seedbed.Errorf(seedbed.ErrUnavailable, "the worker's socket %s may not be used: is this user in its group?", c.at)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return seedbed.Errorf(seedbed.ErrUnavailable, "the worker does not answer on %s (is seedbed-worker running?)", c.at)
	}
	return seedbed.Errorf(seedbed.ErrUnavailable, "the worker does not answer on %s: %v", c.at, dial.Err)
}
