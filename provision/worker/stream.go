package worker

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"runtime/debug"
	"time"

	"github.com/gofiber/fiber/v2"

	"seedbed"
	"seedbed/provision/effects"
)

const contentType = "application/x-ndjson"

// errGone ends a call whose client has disconnected.
var errGone = errors.New("the client has gone")

// outcome is how a call ended.
type outcome struct {
	result json.RawMessage
	err    error
}

// answer starts the call and streams its answer.
func (s *Server) answer(base context.Context, c *fiber.Ctx, name string, e effects.Handler, req effects.Request) error {
	conn := c.Context().Conn()
	if err := giveUp(conn); err != nil {
		return err
	}
	c.Context().SetConnectionClose()
	c.Set(fiber.HeaderContentType, contentType)
	s.calls.Add(1)
	c.Context().SetBodyStreamWriter(func(w *bufio.Writer) {
		defer s.calls.Done()
		ctx, cancel := context.WithCancelCause(base)
		defer cancel(nil)
		if !e.Endless {
			limit := time.Duration(req.TimeoutMS) * time.Millisecond
			late := seedbed.Errorf(seedbed.ErrUnavailable, "%s did not end within %s", name, limit)
			timed, stop := context.WithTimeoutCause(ctx, limit, late)
			defer stop()
			ctx = timed
		}
		s.stream(ctx, cancel, &lineWriter{w: w, conn: conn}, name, e, req)
	})
	return nil
}

// stream runs the call and writes its lines, until the call has ended, the client has disconnected,
// or the driver does not react to the end of its context.
func (s *Server) stream(ctx context.Context, cancel context.CancelCauseFunc, w *lineWriter, name string, e effects.Handler,
	req effects.Request) {
	out, done := newOutbox(), make(chan outcome, 1)
	s.calls.Go(func() {
		start := time.Now()
		o := s.run(ctx, e, req, out)
		s.log.Debug("effect", "effect", name, "job", req.Call.Job, "epoch", req.Call.Epoch, "took", time.Since(start), "err", o.err)
		done <- o
	})
	tick := time.NewTicker(s.keepalive)
	defer tick.Stop()
	overdue := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		time.AfterFunc(s.grace, func() { close(overdue) })
	})
	defer stop()
	var err error
	for err == nil {
		select {
		case <-out.wake:
			err = w.write(out.take()...)
		case <-tick.C:
			if e.Endless {
				if err := trusted(w.conn); err != nil {
					s.log.Warn("a call is ended, its caller would be refused now", "effect", name, "peer", w.conn.RemoteAddr().String(), "err", err)
					cancel(err)
					_ = w.write(effects.FailureLine(ctx, err))
					return
				}
			}
			err = w.write()
		case o := <-done:
			// A client that has disconnected does not read this either.
			_ = w.write(append(out.take(), finalLine(ctx, o))...)
			return
		case <-overdue:
			s.log.Warn("driver does not end a call whose time is over", "effect", name, "job", req.Call.Job)
			_ = w.write(effects.FailureLine(ctx, ctx.Err()))
			return
		}
	}
	cancel(errGone)
}

func finalLine(ctx context.Context, o outcome) effects.Line {
	if o.err != nil {
		return effects.FailureLine(ctx, o.err)
	}
	return effects.Line{Result: o.result}
}

// run carries out the call. It turns a panic of a driver into an error of the call.
func (s *Server) run(ctx context.Context, e effects.Handler, req effects.Request, out *outbox) (o outcome) {
	defer func() {
		if r := recover(); r != nil {
			s.log.Error("driver panicked", "job", req.Call.Job, "panic", r, "stack", string(debug.Stack()))
			o = outcome{err: fmt.Errorf("the driver panicked: %v", r)}
		}
	}()
	if e.Fenced {
		if err := s.incarnation.current(req.Incarnation); err != nil {
			return outcome{err: err}
		}
		inner, leave, err := s.fence.enter(ctx, req.ID, req.Call)
		if err != nil {
			return outcome{err: err}
		}
		defer leave()
		ctx = seedbed.WithOutput(inner, out.output)
	}
	result, err := e.Run(ctx, req.Call, req.Args, effects.Listener{Progress: out.progress, Event: out.event, Output: out.output})
	if err != nil && ctx.Err() != nil && effects.OfNoKind(err) {
		err = context.Cause(ctx) // from the fence: a newer epoch, or a cancel
	}
	return outcome{result: result, err: err}
}

// lineWriter writes lines through fasthttp's pipe, each with a deadline for the connection beneath
// it.
type lineWriter struct {
	w    *bufio.Writer
	conn net.Conn
}

func (l *lineWriter) write(lines ...effects.Line) error {
	b, err := encode(lines...)
	if err != nil {
		return err
	}
	if err := l.conn.SetWriteDeadline(time.Now().Add(writeTime)); err != nil {
		return err
	}
	if _, err := l.w.Write(b); err != nil {
		return err
	}
	return l.w.Flush()
}
