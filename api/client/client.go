// Package client is the typed client of Seedbed's REST API: one method per
// route, the domain types of package seedbed in and out, and errors of its
// kinds. It imports the standard library and package seedbed alone.
package client

import (
	"bytes"
	"context"
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
	"seedbed/api/wire"
)

const (
	prefix = "/api/v1"
	// callTimeout bounds a call that the server does not hold open on purpose.
	callTimeout = 30 * time.Second
	// maxAnswer bounds what is read of one answer.
	maxAnswer = 64 << 20
)

// Options say where the API is and who asks.
type Options struct {
	// URL is the API's base, such as "http://127.0.0.1:7370". With a Socket it may be empty.
	URL string
	// Socket is the path of the control socket, where no token is needed.
	// It is used in place of the address in URL.
	Socket string
	// Token is sent as a bearer token when it is not empty.
	Token string
	// CA is a file with the certificates, in PEM, that the API's must be signed by;
	// empty means those that the system trusts.
	CA string
}

// Client calls one API. It is safe for concurrent use.
type Client struct {
	base, token string
	where       string // for messages
	http        *http.Client
	job         seedbed.JobOptions // of the jobs that it starts
}

// New makes a client; it connects at the first call. Options without URL and
// Socket, or with a URL that is none, give seedbed.ErrInvalid.
func New(o Options) (*Client, error) {
	transport := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
		TLSHandshakeTimeout:   10 * time.Second,
		IdleConnTimeout:       time.Minute,
		MaxIdleConns:          4,
		ResponseHeaderTimeout: 2 * time.Minute,
	}
	c := &Client{base: strings.TrimSuffix(o.URL, "/"), token: o.Token, where: o.URL}
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
		return nil, seedbed.Errorf(seedbed.ErrInvalid, "%q is not the URL of an API: want one such as http://127.0.0.1:7370", o.URL)
	}
	c.http = &http.Client{
		Transport: transport,
		// The API never redirects; following would carry the token elsewhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c, nil
}

// Where is the socket or the URL that the client calls, for messages.
func (c *Client) Where() string { return c.where }

// call is one request and what is wanted of its answer.
type call struct {
	method, path string
	query        url.Values
	body         any           // sent as JSON unless nil
	match        string        // sent as If-Match unless empty
	upload       *upload       // sent as it is unless nil
	answer       any           // the answer is decoded into it unless nil
	raw          *[]byte       // gets the answer's bytes unless nil
	timeout      time.Duration // callTimeout when zero
}

func (c *Client) do(ctx context.Context, r call) error {
	if r.timeout == 0 {
		r.timeout = callTimeout
	}
	limited, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	req, err := c.request(limited, r)
	if err != nil {
		return err
	}
	send := c.http
	if r.upload != nil {
		send = c.uploading()
		defer send.CloseIdleConnections()
	}
	resp, err := send.Do(req)
	if err != nil {
		return c.unanswered(ctx, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return c.unanswered(ctx, err)
	}
	switch {
	case len(body) > maxAnswer:
		return fmt.Errorf("%s %s: the answer is larger than %s", r.method, r.path, seedbed.Bytes(maxAnswer))
	case resp.StatusCode < 200 || resp.StatusCode > 299:
		return c.problem(resp, body)
	case r.raw != nil:
		*r.raw = body
	case r.answer != nil:
		if err := json.Unmarshal(body, r.answer); err != nil {
			return fmt.Errorf("%s %s: the answer is not Seedbed's (is %s its API?): %w", r.method, r.path, c.where, err)
		}
	}
	return nil
}

func (c *Client) request(ctx context.Context, r call) (*http.Request, error) {
	target := c.base + prefix + r.path
	if r.method != http.MethodGet {
		r.query = c.jobOptions(r.query)
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
	if r.match != "" {
		req.Header.Set("If-Match", r.match)
	}
	if r.upload != nil {
		req.Body, req.ContentLength = io.NopCloser(r.upload.body), r.upload.size
		req.Header.Set("Content-Type", r.upload.kind)
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	return req, nil
}

// unanswered says why there is no answer: the caller's own end, or ErrUnavailable.
func (c *Client) unanswered(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	hint := "is seedbedd running?"
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		hint = "nobody vouches for its certificate here: name the certificates that do, with --ca"
	} else if errors.Is(err, io.EOF) && strings.HasPrefix(c.where, "http://") {
		hint = "it hung up; does it speak TLS? Then want https://"
	}
	if e, ok := errors.AsType[*net.OpError](err); ok && e.Op == "dial" {
		if errors.Is(e, fs.ErrPermission) {
			hint = "may this user open it? Its group is seedbed"
		}
		err = e.Err // where is said already
	}
	return seedbed.Errorf(seedbed.ErrUnavailable, "the API does not answer on %s (%s): %v", c.where, hint, err)
}

// problem is the error that the server told (RFC 9457), or on PVC's paths its message.
func (c *Client) problem(resp *http.Response, body []byte) error {
	var p struct {
		Title   string          `json:"title"`
		Detail  string          `json:"detail"`
		Kind    string          `json:"kind"`
		Job     seedbed.JobID   `json:"job"`
		Message json.RawMessage `json:"message"`
	}
	valid := json.Unmarshal(body, &p) == nil
	if !valid || p.Kind == "" && p.Detail == "" && p.Title == "" {
		if msg := messageText(p.Message); valid && msg != "" {
			return messageError(resp.StatusCode, resp.Header.Get(wire.ErrorKind), msg)
		}
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
