package metadata

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/valyala/fasthttp"
)

type callerKey struct{}

// caller is who asks, for the handlers behind the guard.
type caller struct {
	index *index
	entry *entry
	conn  *conn
}

func callerOf(ctx *fasthttp.RequestCtx) *caller { return ctx.UserValue(callerKey{}).(*caller) }

// guard is the outermost middleware: it knows the caller or does not let the
// request through, refuses ambiguous requests, survives a panic, and tells
// what was asked and answered.
func (s *Server) guard(serving context.Context, next fasthttp.RequestHandler) fasthttp.RequestHandler {
	return func(ctx *fasthttp.RequestCtx) {
		defer func() {
			if v := recover(); v != nil {
				s.log.Error("panic while serving a guest", "peer", ctx.RemoteAddr().String(),
					"panic", fmt.Sprint(v), "stack", string(debug.Stack()))
				ctx.Response.Reset()
				fail(ctx, http.StatusInternalServerError)
				ctx.SetConnectionClose()
				s.count.status(http.StatusInternalServerError)
			}
		}()
		who := s.identify(serving, ctx)
		if who == nil {
			return
		}
		ctx.SetUserValue(callerKey{}, who)
		switch {
		case !clearlyFramed(&ctx.Request.Header):
			fail(ctx, http.StatusBadRequest)
			ctx.SetConnectionClose()
		case !s.tokenAccepted(ctx, who):
			fail(ctx, http.StatusUnauthorized)
		case !routable(ctx):
			notAllowed(ctx, "GET, HEAD")
		default:
			next(ctx)
		}
		s.record(ctx, who)
	}
}

// identify finds the caller's record. Without one it has answered 404, or has
// held the connection and dropped it, and returns nil.
func (s *Server) identify(serving context.Context, ctx *fasthttp.RequestCtx) *caller {
	c := ctx.Conn().(*conn)
	var over <-chan time.Time
	for {
		x := s.dir.current.Load()
		if !c.known {
			if err := c.resolve(x); err != nil {
				c.drop(ctx)
				return nil
			}
		}
		if c.known {
			if e := x.entry(c.who); e != nil {
				return &caller{index: x, entry: e, conn: c}
			}
		}
		if x.inSync {
			s.count.unknown.Add(1)
			fail(ctx, http.StatusNotFound)
			ctx.SetConnectionClose()
			s.count.status(http.StatusNotFound)
			return nil
		}
		if over == nil {
			s.count.held.Add(1)
			t := time.NewTimer(s.cfg.Limits.Hold)
			defer t.Stop()
			over = t.C
		}
		select {
		case <-x.replaced:
			continue
		case <-over:
		case <-serving.Done():
		}
		c.drop(ctx)
		return nil
	}
}

// tokenAccepted is true unless a token was sent that is not good for this
// instance. The report path has no token rule, because cloud-init sends none there.
func (s *Server) tokenAccepted(ctx *fasthttp.RequestCtx, who *caller) bool {
	if !ctx.IsGet() && !ctx.IsHead() {
		return true
	}
	token, sent := peek(&ctx.Request.Header, tokenHeader)
	return !sent || who.index.token.valid(token, who.entry.id(), s.now())
}

// routable tells methods that the router knows; it has an answer of its own for any other.
func routable(ctx *fasthttp.RequestCtx) bool {
	return ctx.IsGet() || ctx.IsHead() || ctx.IsPut() || ctx.IsPost()
}

func sentBytes(ctx *fasthttp.RequestCtx) int64 {
	if ctx.IsHead() {
		return 0
	}
	return int64(len(ctx.Response.Body()))
}

// shownPath is the path as records have it: bounded, printable, and without the
// report token, wherever the guest put it.
func shownPath(ctx *fasthttp.RequestCtx, who *caller) string {
	path := ctx.URI().PathOriginal()
	token := who.entry.record.guest.ReportToken
	if bytes.HasPrefix(path, []byte(reportPrefix)) || token != "" && bytes.Contains(path, []byte(token)) {
		return reportPrefix
	}
	return printable(path, 256)
}

// printable copies at most n bytes of b, with '?' for what is not printable ASCII.
func printable(b []byte, n int) string {
	out := append([]byte(nil), b[:min(len(b), n)]...)
	for i, c := range out {
		if c < ' ' || c > '~' {
			out[i] = '?'
		}
	}
	return string(out)
}
