// Package client is the typed client of Seedbed's REST API. It has one method per route, takes and
// returns the types of packages seedbed and wire, and returns errors of package seedbed's kinds.
package client

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"seedbed"
	"seedbed/internal/duplex"
	"seedbed/internal/sleep"
)

const (
	prefix = "/api/v1"
	// callTimeout bounds a call unless the server holds the answer back for events.
	callTimeout = 30 * time.Second
	// retries is how often a request is sent again, as in a restart of seedbedd. retryFirst is the
	// first delay, which doubles.
	retries    = 5
	retryFirst = 250 * time.Millisecond
	// maxAnswer bounds the bytes that are read of one answer.
	maxAnswer = 64 << 20
)

// Options holds the API's address and the caller's credentials.
type Options struct {
	// URL is the API's base, such as "http://127.0.0.1:7370". It may be empty if Socket is set.
	URL string
	// Socket is the path of the control socket, which needs no token. It is used in place of the
	// address in URL.
	Socket string
	// Token is sent as a bearer token unless it is empty.
	Token string
	// Project is the project that the calls act in. Empty means the token's own. The token
	// must have a role in another one, or be that of an admin of the installation.
	Project string
	// CA is a PEM file with the certificates of the authorities that may sign the API's
	// certificate. Empty means the system's authorities.
	CA string
	// Waiting is called before a call waits because the server has answered 429 with the time of the
	// next attempt. err says why. If it is nil, or the wait would be long, the call returns err instead.
	// An upload does not wait.
	Waiting func(err error, wait time.Duration)
}

// Client calls one API. It is safe for concurrent use.
type Client struct {
	base, token string
	project     string
	where       string // for messages
	http        *http.Client
	dialer      duplex.Dialer
	waiting     func(error, time.Duration)
	job         seedbed.JobOptions // of the jobs that the client starts
	force       bool               // of documents that no guest can use
}

// In returns a client whose calls act in another project.
func (c *Client) In(project string) *Client {
	in := *c
	in.project = project
	return &in
}

// New makes a client, which connects at its first call. It returns seedbed.ErrInvalid for Options
// without URL and Socket, or with an invalid URL.
func New(o Options) (*Client, error) {
	transport := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
		TLSHandshakeTimeout:   10 * time.Second,
		IdleConnTimeout:       time.Minute,
		MaxIdleConns:          4,
		ResponseHeaderTimeout: 2 * time.Minute,
	}
	c := &Client{base: strings.TrimSuffix(o.URL, "/"), token: o.Token, project: o.Project, where: o.URL, waiting: o.Waiting}
	if o.Socket != "" {
		c.base, c.where = "http://seedbed", o.Socket
		transport.Proxy = nil
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			d := net.Dialer{Timeout: 5 * time.Second}
			return d.DialContext(ctx, "unix", o.Socket)
		}
	}
	if o.CA != "" {
		pem, err := os.ReadFile(o.CA)
		if err != nil {
			return nil, fmt.Errorf("certificates to trust: %w", err)
		}
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM(pem) {
			return nil, seedbed.Errorf(seedbed.ErrInvalid, "%s holds no certificate in PEM", o.CA)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: roots}
	}
	u, err := url.Parse(c.base)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, seedbed.Errorf(seedbed.ErrInvalid, "%q is not the URL of an API: expected one such as http://127.0.0.1:7370", o.URL)
	}
	c.dialer = duplex.Dialer{Dial: transport.DialContext, TLS: transport.TLSClientConfig, Proxy: transport.Proxy}
	c.http = &http.Client{
		Transport: transport,
		// The API never redirects. Following a redirect would send the token elsewhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c, nil
}

// Where returns the socket or the URL that the client calls, for messages.
func (c *Client) Where() string { return c.where }

// call is one request, and where its answer is stored.
type call struct {
	method, path string
	query        url.Values
	body         any           // sent as JSON unless nil
	match        string        // sent as If-Match unless empty
	upload       *upload       // sent unchanged unless nil
	answer       any           // the answer is decoded into it unless nil
	raw          *[]byte       // receives the answer's bytes unless nil
	timeout      time.Duration // callTimeout when zero
	key          string        // sent as Idempotency-Key unless empty
	link         *string       // receives the header Link unless nil
}

// do makes a call. A POST whose connection breaks before its answer is sent again with its
// idempotency key, so that the server carries it out once.
func (c *Client) do(ctx context.Context, r call) error {
	if r.timeout == 0 {
		r.timeout = callTimeout
	}
	if r.method == http.MethodPost && r.upload == nil {
		r.key = rand.Text()
	}
	cut, err := c.once(ctx, r)
	if !cut || r.key == "" {
		return err
	}
	for n, wait := 0, retryFirst; n < retries; n, wait = n+1, 2*wait {
		if !sleep.For(ctx, wait) {
			return ctx.Err()
		}
		cut, err = c.once(ctx, r)
		// While the server restarts, nobody answers. ErrInUse: the first one may still be carried out.
		if cut || !errors.Is(err, seedbed.ErrUnavailable) && !errors.Is(err, seedbed.ErrInUse) {
			break
		}
	}
	return err
}

// once sends a request once, apart from attempts that the server answered with 429. cut is set if the
// connection broke before the answer, so that it is not known whether the request was carried out.
func (c *Client) once(ctx context.Context, r call) (cut bool, err error) {
	if r.upload != nil {
		cut, _, err = c.send(ctx, r)
		return cut, err
	}
	err = c.patiently(ctx, func() (again time.Duration, err error) {
		cut, again, err = c.send(ctx, r)
		return again, err
	})
	return cut, err
}

// send makes one attempt. again is when to try again, if the server said so.
func (c *Client) send(ctx context.Context, r call) (cut bool, again time.Duration, err error) {
	limited, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	req, err := c.request(limited, r)
	if err != nil {
		return false, 0, err
	}
	send := c.http
	if r.upload != nil {
		send = c.uploading()
		defer send.CloseIdleConnections()
	}
	resp, err := send.Do(req)
	if err != nil {
		return !dialed(err), 0, c.unanswered(ctx, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return true, 0, c.unanswered(ctx, err)
	}
	if r.link != nil {
		*r.link = resp.Header.Get("Link")
	}
	switch {
	case len(body) > maxAnswer:
		return false, 0, fmt.Errorf("%s %s: the answer is larger than %s", r.method, r.path, seedbed.Bytes(maxAnswer))
	case resp.StatusCode < 200 || resp.StatusCode > 299:
		return false, retryAfter(resp), c.problem(resp, body)
	case r.raw != nil:
		*r.raw = body
	case r.answer != nil:
		if err := json.Unmarshal(body, r.answer); err != nil {
			return false, 0, fmt.Errorf("%s %s: the answer is not Seedbed's (is %s its API?): %w", r.method, r.path, c.where, err)
		}
	}
	return false, 0, nil
}

// dialed reports whether err is about connecting: the request was not sent.
func dialed(err error) bool {
	e, ok := errors.AsType[*net.OpError](err)
	return ok && e.Op == "dial"
}

func (c *Client) request(ctx context.Context, r call) (*http.Request, error) {
	target := c.base + prefix + r.path
	if r.method != http.MethodGet {
		r.query = c.options(r.query)
	}
	if len(r.query) > 0 {
		target += "?" + r.query.Encode()
	}
	var body io.Reader
	if r.body != nil {
		b, err := json.Marshal(r.body)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, r.method, target, body)
	if err != nil {
		return nil, err
	}
	if r.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if r.key != "" {
		req.Header.Set("Idempotency-Key", r.key)
	}
	if r.match != "" {
		req.Header.Set("If-Match", r.match)
	}
	if r.upload != nil {
		req.Body, req.ContentLength = io.NopCloser(r.upload.body), r.upload.size
		req.Header.Set("Content-Type", r.upload.kind)
	}
	if c.project != "" {
		req.Header.Set("Seedbed-Project", c.project)
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	return req, nil
}

// unanswered returns the error of a request without an answer: the context's error, or
// ErrUnavailable.
func (c *Client) unanswered(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	hint := "is seedbedd running?"
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		hint = "its certificate is signed by an unknown authority: name the certificates to trust with --ca"
	} else if errors.Is(err, io.EOF) && strings.HasPrefix(c.where, "http://") {
		hint = "it closed the connection; if it uses TLS, use https://"
	}
	if e, ok := errors.AsType[*net.OpError](err); ok && e.Op == "dial" {
		if errors.Is(e, fs.ErrPermission) {
			hint = "may this user open it? Its group is " + groupOf(c.where)
		}
		err = e.Err // the message already names the URL
	}
	return seedbed.Errorf(seedbed.ErrUnavailable, "the API does not answer on %s (%s): %v", c.where, hint, err)
}

// problem returns the error in an answer, which is a problem document (RFC 9457).
func (c *Client) problem(resp *http.Response, body []byte) error {
	var p struct {
		Title  string        `json:"title"`
		Detail string        `json:"detail"`
		Kind   string        `json:"kind"`
		Job    seedbed.JobID `json:"job"`
	}
	if json.Unmarshal(body, &p) != nil || p.Kind == "" && p.Detail == "" && p.Title == "" {
		return fmt.Errorf("%s answered %s without saying why (is it Seedbed's API?)", c.where, resp.Status)
	}
	msg := p.Detail
	if msg == "" {
		msg = p.Title
	}
	err := seedbed.KindError(p.Kind, msg)
	if e, ok := errors.AsType[*seedbed.Error](err); ok {
		e.Holder = p.Job
	}
	return err
}
