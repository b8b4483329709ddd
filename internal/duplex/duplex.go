// Package duplex is a connection of messages in both directions, which begins as an HTTP request: a WebSocket (RFC 6455).
// A message is either bytes, or a text that says something about them. Both sides notice if the other one is gone, and a
// side that ends says why.
package duplex

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fasthttp/websocket"
	"github.com/valyala/fasthttp"
	"golang.org/x/sys/unix"

	"seedbed"
)

const (
	// MaxMessage limits a message, in bytes.
	MaxMessage = 64 << 10
	// patience is how long a peer that does not read may block a send.
	patience = time.Minute
	// parting is how long a peer that does not read may block the last text, and may then take to close the connection.
	parting = 5 * time.Second
	// beat is the interval of the signs of life that an accepted connection sends. silence is how long either side may send
	// nothing.
	beat    = 15 * time.Second
	silence = 3 * beat
	// shake limits the time of the first request and its answer.
	shake = 20 * time.Second
	// buffer is the size of the buffers of a connection.
	buffer = 4 << 10
	// maxRefusal limits what is read of an answer that refuses the connection.
	maxRefusal = 64 << 10
)

// Message is one message.
type Message struct {
	// Text is set for a text about the bytes.
	Text bool
	Data []byte
}

// Conn is one side of a connection. One goroutine at a time may receive. All other methods may be called at the same time.
type Conn struct {
	ws   *websocket.Conn
	mu   sync.Mutex // of writes
	once sync.Once
	done chan struct{}
	// beneath is the connection below; nil once the server has it back, which uses it for others.
	beneath net.Conn
	life    sync.Mutex   // of beneath
	used    atomic.Int64 // when bytes were last sent or received, in nanoseconds of the Unix time
}

func newConn(ws *websocket.Conn) *Conn {
	c := &Conn{ws: ws, done: make(chan struct{}), beneath: ws.NetConn()}
	c.use()
	ws.SetReadLimit(MaxMessage)
	c.live()
	ws.SetPongHandler(func(string) error { c.live(); return nil })
	ws.SetPingHandler(func(data string) error {
		c.live()
		_ = ws.WriteControl(websocket.PongMessage, []byte(data), time.Now().Add(patience)) // the next read finds out
		return nil
	})
	ws.SetCloseHandler(func(int, string) error { return nil }) // Close answers
	return c
}

// bear makes the kernel bear a peer that does not read for as long as a send does, whatever was set for a call that is answered
// at once (tcp(7), TCP_USER_TIMEOUT). Signs of life find out whether the peer has gone. If the option cannot be set, the next
// read or send finds out why.
func bear(conn net.Conn) {
	for {
		inner, ok := conn.(interface{ NetConn() net.Conn })
		if !ok {
			break
		}
		conn = inner.NetConn()
	}
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return
	}
	if raw, err := tcp.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) {
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(2*patience.Milliseconds()))
		})
	}
}

// Asked returns ErrInvalid unless a request asks for a connection.
func Asked(ctx *fasthttp.RequestCtx) error {
	if websocket.FastHTTPIsWebSocketUpgrade(ctx) {
		return nil
	}
	return seedbed.Errorf(seedbed.ErrInvalid, "this is a WebSocket: expected a request that asks for one (Upgrade: websocket)")
}

// live gives the peer time for its next sign of life, unless this side has closed the connection.
func (c *Conn) live() {
	_ = c.ws.SetReadDeadline(time.Now().Add(silence)) // the next read finds out
	select {
	case <-c.done:
		c.interrupt()
	default:
	}
}

// interrupt ends a receive. The server's connections beneath are only closed once their handler returns.
func (c *Conn) interrupt() {
	c.below(func(conn net.Conn) { _ = conn.SetReadDeadline(time.Unix(1, 0)) })
}

// below calls do with the connection beneath, unless the server has it back.
func (c *Conn) below(do func(net.Conn)) {
	c.life.Lock()
	defer c.life.Unlock()
	if c.beneath != nil {
		do(c.beneath)
	}
}

// Accept answers a request for a connection, and calls serve with the connection once the answer is sent. serve must not
// return before it has closed the connection. For a request that does not ask for a connection, Accept returns ErrInvalid.
func Accept(ctx *fasthttp.RequestCtx, serve func(*Conn)) error {
	var refused error
	up := websocket.FastHTTPUpgrader{
		ReadBufferSize: buffer, WriteBufferSize: buffer,
		// Some programs in browsers, such as older versions of noVNC, ask for it.
		Subprotocols: []string{"binary"},
		Error:        func(_ *fasthttp.RequestCtx, _ int, reason error) { refused = reason },
	}
	under := ctx.Conn()
	err := up.Upgrade(ctx, func(ws *websocket.Conn) {
		bear(under)
		c := newConn(ws)
		stop := make(chan struct{})
		var beats sync.WaitGroup
		beats.Go(func() { c.beats(stop) })
		defer func() {
			close(stop)
			beats.Wait()
			c.Close()
			c.part()
		}()
		serve(c)
	})
	if err = cmp.Or(refused, err); err != nil {
		return seedbed.Errorf(seedbed.ErrInvalid, "this is a WebSocket: expected a request that asks for one, of the same origin: %v", err)
	}
	return nil
}

// part gives the connection beneath back to the server, which closes it. It waits a moment for the peer to do so first: closed
// with something unread, a connection takes what was sent last away from the peer.
func (c *Conn) part() {
	c.life.Lock()
	conn := c.beneath
	c.beneath = nil
	c.life.Unlock()
	if conn.SetReadDeadline(time.Now().Add(parting)) == nil {
		_, _ = io.Copy(io.Discard, conn) // only its end matters
	}
}

// beats sends signs of life.
func (c *Conn) beats(stop <-chan struct{}) {
	tick := time.NewTicker(beat)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-c.done:
			return
		case <-tick.C:
			if c.ws.WriteControl(websocket.PingMessage, nil, time.Now().Add(patience)) != nil {
				return
			}
		}
	}
}

// Refused is an answer that refuses a connection.
type Refused struct {
	Status *http.Response
	Body   []byte
}

// Error implements error.
func (r *Refused) Error() string { return "the connection is refused: " + r.Status.Status }

// Dialer makes connections. Its zero value has no proxy, and the system's authorities.
type Dialer struct {
	// Dial makes the connection beneath; nil makes one to the host of the URL.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// TLS is for URLs that begin with wss.
	TLS   *tls.Config
	Proxy func(*http.Request) (*url.URL, error)
}

// Open asks for a connection at a URL, such as ws://host/path. An answer that refuses the connection is a *Refused.
func (d Dialer) Open(ctx context.Context, at string, header http.Header) (*Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, shake)
	defer cancel()
	dialer := websocket.Dialer{NetDialContext: d.Dial, Proxy: d.Proxy, ReadBufferSize: buffer, WriteBufferSize: buffer}
	if d.TLS != nil {
		dialer.TLSClientConfig = d.TLS.Clone()
		dialer.TLSClientConfig.NextProtos = []string{"http/1.1"}
	}
	ws, resp, err := dialer.DialContext(ctx, at, header)
	if err == nil {
		bear(ws.NetConn())
		return newConn(ws), nil
	}
	if resp == nil {
		return nil, err
	}
	body, readErr := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	if readErr != nil {
		return nil, errors.Join(err, readErr)
	}
	return nil, &Refused{resp, body}
}

func (c *Conn) use() { c.used.Store(time.Now().UnixNano()) }

// Idle returns for how long no bytes were sent or received.
func (c *Conn) Idle() time.Duration { return time.Duration(time.Now().UnixNano() - c.used.Load()) }

// Send sends a message. It waits while the peer does not read, up to a minute.
func (c *Conn) Send(m Message) error { return c.send(m, patience) }

func (c *Conn) send(m Message, within time.Duration) error {
	kind := websocket.BinaryMessage
	if m.Text {
		kind = websocket.TextMessage
	} else {
		c.use()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.ws.SetWriteDeadline(time.Now().Add(within)); err != nil {
		return err
	}
	return c.ws.WriteMessage(kind, m.Data)
}

// Write implements io.Writer. It sends b as bytes, in as many messages as they need.
func (c *Conn) Write(b []byte) (n int, err error) {
	for n < len(b) {
		part := b[n:min(len(b), n+MaxMessage)]
		if err := c.Send(Message{Data: part}); err != nil {
			return n, err
		}
		n += len(part)
	}
	return n, nil
}

// Receive returns the next message. It returns io.EOF after the peer has closed the connection. A peer whose signs of life wait
// because this side has not received for long has time again.
func (c *Conn) Receive() (Message, error) {
	c.live()
	kind, data, err := c.ws.ReadMessage()
	if err != nil {
		if websocket.IsCloseError(err, websocket.CloseNormalClosure, websocket.CloseGoingAway, websocket.CloseNoStatusReceived) {
			return Message{}, io.EOF
		}
		return Message{}, fmt.Errorf("the connection broke: %w", err)
	}
	c.live()
	if kind == websocket.BinaryMessage {
		c.use()
	}
	return Message{Text: kind == websocket.TextMessage, Data: data}, nil
}

// Done returns a channel that is closed when this side has closed the connection.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Close ends the connection, which also ends a Receive. It may be called again.
func (c *Conn) Close() {
	c.once.Do(func() {
		close(c.done)
		end := websocket.FormatCloseMessage(websocket.CloseNormalClosure, "")
		_ = c.ws.WriteControl(websocket.CloseMessage, end, time.Now().Add(time.Second)) // the peer may have gone
		_ = c.ws.Close()
		c.interrupt()
	})
}

// End sends a text, if the peer still reads, and closes the connection. It does not wait for long, nor does a send that waits.
func (c *Conn) End(text []byte) {
	c.Hurry()
	_ = c.send(Message{Text: true, Data: text}, parting) // the peer may have gone
	c.Close()
}

// Hurry lets a send that waits for the peer take only a moment more. It may be called after the end.
func (c *Conn) Hurry() {
	c.below(func(conn net.Conn) { _ = conn.SetWriteDeadline(time.Now().Add(time.Second)) })
}
