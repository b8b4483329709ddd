package client

import (
	"context"
	"io"
	"net"
	"net/http"
)

// upload is a body that is sent as it is read.
type upload struct {
	body io.Reader
	size int64
	kind string // its Content-Type
}

// uploading is the client for uploads: it waits as long as the server works on
// one, and reads the answer of a server that refuses one before its end.
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

// oneSided is a connection that goes on being read when it can no longer be
// written: net/http would not look for the answer that is there.
type oneSided struct {
	net.Conn
	closed bool // for writing; one goroutine writes
}

// Write implements net.Conn. What is written after the far side has closed is lost.
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
