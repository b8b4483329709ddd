package feed

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"seedbed"
)

// callTime bounds every call but the waiting part of a poll.
const callTime = 30 * time.Second

// upstream calls the server.
type upstream struct{ http *http.Client }

func newUpstream(socket string) *upstream {
	return &upstream{&http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "unix", socket)
		},
		MaxIdleConns: 4, IdleConnTimeout: time.Minute, DisableCompression: true,
	}}}
}

func (u *upstream) close() { u.http.CloseIdleConnections() }

// page asks for what is newer than since, and waits for it at most wait.
func (u *upstream) page(ctx context.Context, node string, since int64, generation string, wait time.Duration) (p parcel, err error) {
	q := url.Values{"node": {node}, "since": {strconv.FormatInt(since, 10)}, "generation": {generation}, "wait": {wait.String()}}
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

// call makes one request. An error that the server names has its kind.
func (u *upstream) call(ctx context.Context, limit time.Duration, method, path string, send any, receive func(io.Reader) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var body io.Reader
	if send != nil {
		b, err := json.Marshal(send)
		if err != nil {
			return err
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://feed"+path, body)
	if err != nil {
		return err
	}
	if send != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := u.http.Do(req)
	if err != nil {
		return seedbed.Errorf(seedbed.ErrUnavailable, "feed: %v", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		var e errorBody
		if err := json.NewDecoder(io.LimitReader(resp.Body, 64<<10)).Decode(&e); err != nil || e.Kind == "" {
			return fmt.Errorf("feed: %s answered %s", req.URL.Path, resp.Status)
		}
		return seedbed.KindError(e.Kind, "feed: "+e.Message)
	}
	if receive == nil {
		return nil
	}
	if err := receive(resp.Body); err != nil {
		return fmt.Errorf("feed: read %s: %w", req.URL.Path, err)
	}
	return nil
}
