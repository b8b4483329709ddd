package feed

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"seedbed"
	"seedbed/internal/mtls"
)

const (
	// callTime bounds every call, except the waiting part of a poll.
	callTime = 30 * time.Second
	// dialTime bounds the establishment of a connection.
	dialTime = 5 * time.Second
)

// Remote is a control host that serves the feed over TLS.
type Remote struct {
	// Addr is its host and port.
	Addr string
	// TLS configures connections to it, and verifies that it is a control host.
	TLS *tls.Config
}

// upstream calls the server: on a socket, or on one of several hosts. If that host does not answer,
// it uses the next.
type upstream struct {
	targets []target
	mu      sync.Mutex
	current int // the target in use
}

// target is one way to a server.
type target struct {
	name string // for messages; empty for the socket
	http *http.Client
}

func newUpstream(socket string, remotes []Remote) *upstream {
	if len(remotes) == 0 {
		return &upstream{targets: []target{newTarget("", func(ctx context.Context) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		})}}
	}
	u := &upstream{}
	for _, r := range remotes {
		u.targets = append(u.targets, newTarget(r.Addr, func(ctx context.Context) (net.Conn, error) {
			return mtls.Dial(ctx, r.Addr, r.TLS)
		}))
	}
	return u
}

func newTarget(name string, dial func(context.Context) (net.Conn, error)) target {
	return target{name, &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, dialTime)
			defer cancel()
			return dial(ctx)
		},
		MaxIdleConns: 4, IdleConnTimeout: time.Minute, DisableCompression: true,
	}}}
}

func (u *upstream) close() {
	for _, d := range u.targets {
		d.http.CloseIdleConnections()
	}
}

// target returns the target to use, and its number.
func (u *upstream) target() (target, int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.targets[u.current], u.current
}

// next switches to the next target, unless another call has already done so.
func (u *upstream) next(n int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.current == n {
		u.current = (n + 1) % len(u.targets)
	}
}

// page requests what is newer than a position, and waits for it at most wait.
func (u *upstream) page(ctx context.Context, node string, at position, wait time.Duration) (p packedPage, err error) {
	q := url.Values{"node": {node}, "since": {strconv.FormatInt(at.revision, 10)}, "generation": {at.generation},
		"peers": {strconv.FormatInt(at.peers, 10)}, "wait": {wait.String()}}
	err = u.call(ctx, wait+4*callTime, "GET", "/v1/feed?"+q.Encode(), nil, func(r io.Reader) error {
		p, err = decodePage(io.LimitReader(r, maxPageBody))
		return err
	})
	return p, err
}

func (u *upstream) blob(ctx context.Context, sum string) (data []byte, err error) {
	err = u.call(ctx, callTime, "GET", "/v1/blobs/"+sum, nil, func(r io.Reader) error {
		data, err = io.ReadAll(io.LimitReader(r, maxBlob+1))
		return err
	})
	return data, err
}

func (u *upstream) applied(ctx context.Context, node string, revision int64) error {
	return u.call(ctx, callTime, "POST", "/v1/applied", appliedBody{node, revision}, nil)
}

func (u *upstream) events(ctx context.Context, node, spool string, events []json.RawMessage) error {
	return u.call(ctx, callTime, "POST", "/v1/events", eventsBody{node, spool, events}, nil)
}

// call makes one request. An error that the server reports has its kind. If a server does not
// answer, or answers wrongly, the next call uses another one if there is one.
func (u *upstream) call(ctx context.Context, limit time.Duration, method, path string, send any, receive func(io.Reader) error) error {
	d, n := u.target()
	tryNext, err := d.call(ctx, limit, method, path, send, receive)
	if tryNext && ctx.Err() == nil {
		u.next(n)
	}
	if err != nil && d.name != "" {
		return fmt.Errorf("%s: %w", d.name, err)
	}
	return err
}

// call makes one request. passOn is true if another server may succeed.
func (t target) call(ctx context.Context, limit time.Duration, method, path string, send any,
	receive func(io.Reader) error) (tryNext bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var body io.Reader
	if send != nil {
		b, err := json.Marshal(send)
		if err != nil {
			return false, err
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://feed"+path, body)
	if err != nil {
		return false, err
	}
	if send != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := t.http.Do(req)
	if err != nil {
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err // without the URL, which differs each time
		}
		return true, seedbed.Errorf(seedbed.ErrUnavailable, "feed: %v", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		tryNext = resp.StatusCode >= 500 || resp.StatusCode == http.StatusForbidden || resp.StatusCode == http.StatusUnauthorized
		var e errorBody
		if err := json.NewDecoder(io.LimitReader(resp.Body, 64<<10)).Decode(&e); err != nil || e.Kind == "" {
			return tryNext, fmt.Errorf("feed: %s answered %s", req.URL.Path, resp.Status)
		}
		return tryNext, seedbed.KindError(e.Kind, "feed: "+e.Message)
	}
	if receive == nil {
		return false, nil
	}
	if err := receive(resp.Body); err != nil {
		return true, fmt.Errorf("feed: read %s: %w", req.URL.Path, err)
	}
	return false, nil
}
