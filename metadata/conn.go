package metadata

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
)

var past = time.Unix(1, 0)

var errDropped = errors.New("connection is closed without an answer")

// conn is one guest's connection with what is known of its caller. All but
// Close is called by the one goroutine that serves it.
type conn struct {
	net.Conn
	srv *Server
	ln  *guestListener

	asked bool  // the kernel was asked who this is
	facts Facts // its answer
	who   identity
	known bool

	dropped bool
	lowHops bool // the answer being written must not be routed on
	hops    int  // what the socket had before that

	mu     sync.Mutex
	slot   *atomic.Int32 // the count that this connection is part of
	closed bool
}

// Read identifies the caller before the first byte. Who cannot be identified
// now, or has too many connections, sees the connection end without an answer.
func (c *conn) Read(b []byte) (int, error) {
	if !c.asked {
		c.asked = true
		if err := c.identify(); err != nil {
			c.srv.count.refused.Add(1)
			c.srv.warnf("guest connection refused", "peer", c.RemoteAddr().String(), "err", err)
			return 0, io.EOF
		}
	}
	n, err := c.Conn.Read(b)
	if n > 0 && c.lowHops {
		// The next request has come, so the answer before it has arrived.
		c.lowHops = false
		if err := setHops(c.Conn, c.hops); err != nil {
			return 0, fmt.Errorf("restore time to live: %w", err)
		}
	}
	return n, err
}

// Write refuses once the connection was dropped.
func (c *conn) Write(b []byte) (int, error) {
	if c.dropped {
		return 0, errDropped
	}
	return c.Conn.Write(b)
}

// Close ends the connection and frees its place. Further calls do nothing.
func (c *conn) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	if c.slot != nil {
		c.slot.Add(-1)
		c.slot = nil
	}
	c.mu.Unlock()
	err := c.Conn.Close()
	c.ln.remove(c)
	return err
}

// identify asks the kernel once, and takes a place among the instance's
// connections or among those of unknown callers.
func (c *conn) identify() error {
	ctx, cancel := context.WithTimeout(c.ln.ctx, 2*time.Second)
	defer cancel()
	var err error
	if c.srv.cfg.Identify != nil {
		c.facts, err = c.srv.cfg.Identify(c.Conn)
	} else {
		c.facts, err = kernelFacts(ctx, c.Conn, c.srv.cfg.Neighbour)
	}
	if err != nil {
		return err
	}
	return c.resolve(c.srv.dir.current.Load())
}

// resolve looks the facts up in x, and takes the place that goes with the outcome.
func (c *conn) resolve(x *index) error {
	p, reason := x.resolve(c.facts)
	if p == nil {
		c.srv.warnf("unknown caller", "peer", c.facts.Peer.String(), "bridge", c.facts.Bridge,
			"mac", c.facts.MAC.String(), "mark", c.facts.Mark, "reason", reason)
		return c.take(&c.srv.count.unknownConns, c.srv.cfg.Limits.UnknownConns)
	}
	c.who = identity{instance: p.entry.id(), mark: p.nic.ID.Mark()}
	c.known = true
	return c.take(&p.entry.life.conns, c.srv.cfg.Limits.GuestConns)
}

// take moves the connection to a count with room for it.
func (c *conn) take(slot *atomic.Int32, most int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return net.ErrClosed
	}
	if c.slot == slot {
		return nil
	}
	if c.slot != nil {
		c.slot.Add(-1)
		c.slot = nil
	}
	if n := slot.Add(1); int(n) > most {
		slot.Add(-1)
		return fmt.Errorf("the caller has %d connections already", most)
	}
	c.slot = slot
	return nil
}

// drop ends the connection without an answer: what is written is thrown away,
// and the server closes what it cannot write to.
func (c *conn) drop(ctx *fasthttp.RequestCtx) {
	c.dropped = true
	ctx.SetConnectionClose()
}

// SetReadDeadline lets nothing more be read once the server ends.
func (c *conn) SetReadDeadline(t time.Time) error {
	if c.ln.ctx.Err() != nil {
		t = past
	}
	return c.Conn.SetReadDeadline(t)
}

// limitHops keeps the answer that is about to be written on the guest's link:
// a forwarder behind the guest never sees it (EC2's hop limit of 1).
func (c *conn) limitHops() error {
	if c.lowHops {
		return nil
	}
	n, err := hops(c.Conn)
	if err != nil {
		return err
	}
	if err := setHops(c.Conn, 1); err != nil {
		return err
	}
	c.hops, c.lowHops = n, true
	return nil
}
