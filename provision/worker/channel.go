package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/gofiber/fiber/v2"

	"seedbed"
	"seedbed/internal/duplex"
	"seedbed/provision/effects"
)

// channel begins a connection in both directions, which lasts until it ends, or base does.
func (s *Server) channel(base context.Context, c *fiber.Ctx) error {
	name, args := string([]byte(c.Params("effect"))), json.RawMessage([]byte(c.Query("args")))
	e, ok := s.table[name]
	if !ok || e.Channel == nil {
		return noEffect(name)
	}
	conn := c.Context().Conn()
	return duplex.Accept(c.Context(), func(d *duplex.Conn) {
		if !s.channels.Enter() {
			d.End(seedbed.EndNote(seedbed.Errorf(seedbed.ErrUnavailable, "the worker is stopping")).JSON())
			return
		}
		defer s.channels.Leave()
		ctx, cancel := context.WithCancelCause(base)
		defer cancel(nil)
		stop := context.AfterFunc(ctx, d.Hurry)
		defer stop()
		tick := time.NewTicker(s.keepalive)
		defer tick.Stop()
		done := make(chan struct{})
		go func() {
			defer close(done)
			start := time.Now()
			err := s.converse(ctx, e, args, d)
			s.log.Debug("channel", "effect", name, "took", time.Since(start), "err", err)
			if err != nil {
				d.End(seedbed.EndNote(err).JSON())
			}
			d.Close()
		}()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
			}
			if err := trusted(conn); err != nil && ctx.Err() == nil {
				s.log.Warn("a call is ended, its caller would be refused now", "effect", name, "peer", conn.RemoteAddr().String(), "err", err)
				cancel(err)
			}
		}
	})
}

// converse serves one connection. It turns a panic of a driver into an error.
func (s *Server) converse(ctx context.Context, e effects.Handler, args json.RawMessage, d *duplex.Conn) (err error) {
	defer func() {
		if r := recover(); r != nil {
			s.log.Error("driver panicked", "panic", r, "stack", string(debug.Stack()))
			err = fmt.Errorf("the driver panicked: %v", r)
		}
	}()
	return e.Channel(ctx, args, d)
}
