package metadata

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"seedbed"
)

var past = time.Unix(1, 0)

var errDropped = errors.New("connection is closed without an answer")

// conn is one guest's connection and what is known about its caller. Only the goroutine that serves
// it calls its methods, except Close.
type conn struct {
	net.Conn
	srv *Server
	ln  *guestListener

	asked bool  // the kernel was asked who this is
	facts Facts // its answer
	who   seedbed.InstanceID
	known bool
	found *index // in which the facts last led to who

	// What is known about the caller as of one index. A request sees view.
	at      *index
	session *session
	record  *record // of at
	pinned  *index
	view    *record // of pinned, with the notices of viewed
	viewed  *record
	where   place         // of the current request
	waited  time.Duration // for a change, by the current request
	// token is the last valid token, as checked by checkedBy. A token is checked once per
	// connection.
	token     []byte
	tokenEnds time.Time
	checkedBy *tokenKey

	dropped bool
	hops    int // how many links its packets may pass, once a token was issued on it; 0 before

	mu     sync.Mutex
	slot   *atomic.Int32 // the count that this connection is part of
	from   *source       // in whose count it is while its caller is unknown
	closed bool
}

// Read identifies the caller before the first byte. If the caller cannot be identified now, or has
// too many connections, the connection ends without an answer.
func (c *conn) Read(b []byte) (int, error) {
	if !c.asked {
		c.asked = true
		if err := c.identify(); err != nil {
			c.srv.count.refused.Add(1)
			c.srv.warnf("guest connection refused", "peer", c.RemoteAddr().String(), "err", err)
			return 0, io.EOF
		}
	}
	return c.Conn.Read(b)
}

// Write fails once the connection was dropped.
func (c *conn) Write(b []byte) (int, error) {
	if c.dropped {
		return 0, errDropped
	}
	return c.Conn.Write(b)
}

// Close ends the connection and frees its place in the counts. Further calls do nothing.
func (c *conn) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	c.release()
	c.mu.Unlock()
	err := c.Conn.Close()
	c.ln.remove(c)
	return err
}

// identify asks the kernel once. It counts the connection for the instance or for unknown callers.
func (c *conn) identify() error {
	var err error
	if c.srv.cfg.Identify != nil {
		c.facts, err = c.srv.cfg.Identify(c.Conn)
	} else {
		c.facts, err = c.srv.kernelFacts(c.ln.ctx, c)
	}
	if err != nil {
		return err
	}
	return c.resolve(c.srv.dir.current.Load())
}

// resolve looks up the facts in x and counts the connection accordingly.
func (c *conn) resolve(x *index) error {
	p, reason, err := c.srv.resolve(c.ln.ctx, x, c.facts)
	if err != nil {
		return err
	}
	if reason != "" {
		c.srv.warnf("unknown caller", "peer", c.facts.Peer.String(), "bridge", c.facts.Bridge,
			"mac", c.facts.MAC.String(), "mark", c.facts.Mark, "reason", reason)
		if err := c.take(&c.srv.count.unknownConns, c.srv.cfg.Limits.UnknownConns); err != nil {
			return err
		}
		return c.enter()
	}
	c.who, c.known, c.found = p.instance, true, x
	c.session = c.srv.dir.sessions.find(c.who)
	return c.take(&c.session.conns, c.srv.cfg.Limits.GuestConns)
}

// lookUp finds the record of a known caller in x, in which the facts lead to the same instance as
// before. If x has none, the connection no longer has a record.
func (c *conn) lookUp(x *index) bool {
	if c.at == x && c.record != nil {
		return true
	}
	c.at, c.record = nil, nil
	if c.found != x {
		p, reason, err := c.srv.resolve(c.ln.ctx, x, c.facts)
		if err != nil || reason != "" || p.instance != c.who {
			return false
		}
		c.found = x
	}
	session := c.srv.dir.sessions.find(c.who) // it may have been forgotten since
	r := session.recordIn(x)
	if r == nil {
		return false
	}
	c.at, c.record, c.session = x, r, session
	return true
}

// seen returns what a request at now sees: the pinned record if there is one, with the current
// notices.
func (c *conn) seen(now time.Time) (*index, *record) {
	p := c.session.pin.Load()
	if p == nil || p.index == c.at || !now.Before(p.until) {
		c.pinned, c.view, c.viewed = nil, nil, nil
		return c.at, c.record
	}
	if c.pinned != p.index || c.viewed != c.record {
		c.pinned, c.viewed, c.view = p.index, c.record, p.index.record(c.who)
		if c.view != nil {
			c.view.withNotices(p, c.record)
		}
	}
	if c.view == nil {
		return c.at, c.record
	}
	return c.pinned, c.view
}

// take moves the connection to the count slot, or fails if that has reached most.
func (c *conn) take(slot *atomic.Int32, most int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return net.ErrClosed
	}
	if c.slot == slot {
		return nil
	}
	c.release()
	if n := slot.Add(1); int(n) > most {
		slot.Add(-1)
		return fmt.Errorf("the caller has %d connections already", most)
	}
	c.slot = slot
	return nil
}

// enter counts the connection for its source.
func (c *conn) enter() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return net.ErrClosed
	}
	if c.from != nil {
		return nil
	}
	from := source{c.facts.Bridge, c.facts.MAC}
	if err := c.srv.sourceConns.enter(from, c.srv.cfg.Limits.SourceConns); err != nil {
		return err
	}
	c.from = &from
	return nil
}

// release removes the connection from its counts. The caller holds c.mu.
func (c *conn) release() {
	if c.slot != nil {
		c.slot.Add(-1)
		c.slot = nil
	}
	if c.from != nil {
		c.srv.sourceConns.leave(*c.from)
		c.from = nil
	}
}

// drop ends the connection without an answer. Later writes fail, so the server closes it.
func (c *conn) drop(ctx *fasthttp.RequestCtx) {
	c.dropped = true
	ctx.SetConnectionClose()
}

// SetReadDeadline sets the deadline of c, except that nothing more is read once the server ends.
func (c *conn) SetReadDeadline(t time.Time) error {
	if c.ln.ctx.Err() != nil {
		t = past
	}
	return c.Conn.SetReadDeadline(t)
}

// limitHops limits how many links the packets written from now on may pass. With 1, a forwarder
// behind the guest never sees the token (EC2's hop limit).
//
// The limit stays. A next request does not prove that the answer has arrived: a caller can send it
// earlier, while the answer is still in a buffer here or lost on its way and sent again. A caller
// that is too far away does not get later answers either, as they are in the same stream.
func (c *conn) limitHops(most int) error {
	if c.hops == most {
		return nil
	}
	if err := setHops(c.Conn, most); err != nil {
		return err
	}
	c.hops = most
	return nil
}
