package client

import (
	"context"
	"io"
	"net"
	"net/http"
)

// upload is a request body that is streamed.
type upload struct {
	body io.Reader
	size int64
	kind string // its Content-Type
}

// uploading returns the HTTP client for uploads. It waits for as long as the server works on an
// upload. If the server refuses an upload before its end, the client still reads the answer.
func (c *Client) uploading() *http.Client {
	client := *c.http
	transport := client.Transport.(*http.Transport).Clone() // New made it
	transport.ResponseHeaderTimeout = 0
	dial := transport.DialContext
	transport.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &oneSided{Conn: conn}, nil
	}
	client.Transport = transport
	return &client
}

// oneSided is a connection that can still be read when writing fails. Without it, net/http would
// not read an answer that has already arrived.
type oneSided struct {
	net.Conn
	closed bool // for writing; one goroutine writes
}

// Write implements net.Conn. Data written after the server has closed its side is lost.
func (c *oneSided) Write(b []byte) (int, error) {
	if c.closed {
		return len(b), nil
	}
	n, err := c.Conn.Write(b)
	if err != nil {
		c.closed = true
		return len(b), nil
	}
	return n, err
}
