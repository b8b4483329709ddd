package server

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"seedbed"
	"seedbed/internal/httpserve"

	"github.com/go-json-experiment/json"
	"github.com/gofiber/fiber/v2"
)

// The bounds of event streams.
const (
	streamsEach = 32 // per Caller
	streamsMost = 256
	// heartbeat is the interval at which a stream sends a sign of life and checks that its caller's
	// token is still valid.
	heartbeat = 15 * time.Second
	// readerPatience is how long a stream waits for a reader that does not read.
	readerPatience = 10 * time.Second
	// reconnect is the delay before a reader reconnects, in milliseconds.
	reconnect = 2000
)

const mimeEvents = "text/event-stream"

// WantsEvents reports whether a request asks for an event stream.
func WantsEvents(c *fiber.Ctx) bool {
	return c.Method() == fiber.MethodGet && strings.Contains(c.Get(fiber.HeaderAccept), mimeEvents)
}

// LastEvent returns the ID of the last event that the caller has. It comes from the header that a
// browser sends when it reconnects, or from the query.
func LastEvent(c *fiber.Ctx) (id int64, given bool, err error) {
	header := c.Get("Last-Event-ID")
	if header == "" {
		id, err = After(c)
		return id, c.Context().QueryArgs().Has("after"), err
	}
	id, err = strconv.ParseInt(header, 10, 64)
	if err != nil || id < 0 {
		return 0, true, Invalid("Last-Event-ID %q: expected the id of an event of this stream, a whole number", seedbed.Clip(header))
	}
	return id, true, nil
}

// source writes the pending events, and returns what the stream does next: call it again at once,
// end, or wait.
type source func(ctx context.Context, out *EventWriter) (Following, error)

// Stream takes over the connection and writes events to it until the source ends, the reader leaves
// or is too slow, its token is removed, or the server stops. The connection ends with the stream.
func (r *Router) Stream(c *fiber.Ctx, from source) error {
	who := CallerOf(c)
	if !r.streams.enter(who.Name) {
		c.Set(fiber.HeaderRetryAfter, httpserve.RetryAfter)
		return httpserve.Problem{Status: fiber.StatusTooManyRequests, Kind: "unavailable",
			Detail: fmt.Sprintf("too many event streams are open: %s may have %d, and all together %d", who.Name, streamsEach, streamsMost)}
	}
	if !r.gate.Enter() {
		r.streams.leave(who.Name)
		return httpserve.Problem{Status: fiber.StatusServiceUnavailable, Kind: "unavailable", Detail: "seedbedd is stopping"}
	}
	path := strings.Clone(c.Path())
	c.Context().HijackSetNoResponse(true)
	c.Context().Hijack(func(conn net.Conn) {
		defer r.gate.Leave()
		defer r.streams.leave(who.Name)
		defer func() {
			if p := recover(); p != nil {
				r.Log.Error("panic in an event stream", "panic", p, "stack", string(debug.Stack()))
			}
		}()
		if err := r.pour(conn, who, from); err != nil && !errors.Is(err, errReader) {
			r.Log.Log(context.Background(), slog.LevelWarn, "event stream ended early", "path", seedbed.Clip(path), "err", err)
		}
	})
	return nil
}

// errReader is the error of a stream whose reader has left or does not read.
var errReader = errors.New("the reader is gone")

// pour writes the stream.
func (r *Router) pour(conn net.Conn, who Caller, from source) error {
	ctx, cancel := context.WithCancel(r.base)
	defer cancel()
	gone := make(chan struct{})
	go func() { // the reader sends nothing more: any read result means the end
		defer close(gone)
		var b [1]byte
		_, _ = conn.Read(b[:])
		cancel()
	}()
	defer func() {
		conn.SetReadDeadline(time.Now()) // ends the read
		<-gone
	}()
	out := &EventWriter{conn: conn, options: optionsFor(who), patience: cmp.Or(r.Patience, readerPatience)}
	fmt.Fprintf(&out.buf,
		"HTTP/1.1 200 OK\r\nContent-Type: %s\r\nCache-Control: no-store\r\nX-Accel-Buffering: no\r\nConnection: close\r\n\r\nretry: %d\n\n",
		mimeEvents, reconnect)
	beat := time.NewTicker(cmp.Or(r.Heartbeat, heartbeat))
	defer beat.Stop()
	poll := time.NewTicker(pollInterval)
	defer poll.Stop()
	for {
		hint := r.Store.Hint() // taken before reading, so that no write in between is missed
		next, err := r.look(ctx, from, out)
		if e := out.flush(); e != nil {
			return e
		}
		if err != nil || next == StreamEnds {
			return err
		}
		if next == StreamGoesOn {
			if r.isStopping() || ctx.Err() != nil {
				return nil
			}
			continue
		}
		select {
		case <-hint:
		case <-poll.C:
		case <-beat.C:
			if who.sum != ([32]byte{}) {
				if _, err := r.tokenOf(who.sum); errors.Is(err, seedbed.ErrNotFound) {
					return nil // removed or expired
				}
			}
			out.buf.WriteString(":\n\n")
		case <-r.stopping:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

// look calls the source with a deadline.
func (r *Router) look(ctx context.Context, from source, out *EventWriter) (Following, error) {
	ctx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	next, err := from(ctx, out)
	if errors.Is(err, context.Canceled) {
		return StreamEnds, nil
	}
	return next, err
}

func (r *Router) isStopping() bool {
	select {
	case <-r.stopping:
		return true
	default:
		return false
	}
}

// Following is what a stream does next.
type Following int

// What a stream can do next: wait for events, call its source again at once, or end.
const (
	StreamWaits Following = iota
	StreamGoesOn
	StreamEnds
)

// EventWriter writes events in the form of the HTML standard, 9.2.6.
type EventWriter struct {
	conn     net.Conn
	options  json.Options
	patience time.Duration
	buf      bytes.Buffer
}

// Event adds an event. An id of 0 leaves the reader's last ID unchanged.
func (w *EventWriter) Event(kind string, id int64, v any) error {
	data, err := json.Marshal(v, w.options) // has no line ends
	if err != nil {
		return err
	}
	if id > 0 {
		fmt.Fprintf(&w.buf, "id: %d\n", id)
	}
	fmt.Fprintf(&w.buf, "event: %s\ndata: %s\n\n", kind, data)
	return nil
}

// flush sends the added events. It returns an error if the reader does not take them in time.
func (w *EventWriter) flush() error {
	if w.buf.Len() == 0 {
		return nil
	}
	w.conn.SetWriteDeadline(time.Now().Add(w.patience))
	_, err := w.conn.Write(w.buf.Bytes())
	w.buf.Reset()
	if err != nil {
		return fmt.Errorf("%w: %w", errReader, err)
	}
	return nil
}
