package metadata

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/gofiber/fiber/v2/utils"
	"github.com/valyala/fasthttp"

	"seedbed"
)

// callerOf returns the connection of a request whose caller the guard has identified.
func callerOf(ctx *fasthttp.RequestCtx) *conn { return ctx.Conn().(*conn) }

// guard is the outermost middleware. It rejects unknown callers and malformed requests, recovers
// from panics, and records each request with its answer. It answers GET and HEAD of the trees
// without the router.
func (s *Server) guard(serving context.Context, next fasthttp.RequestHandler) fasthttp.RequestHandler {
	return func(ctx *fasthttp.RequestCtx) {
		began := ctx.Time()
		where := locate(utils.UnsafeString(pathOf(ctx)))
		defer func() {
			if v := recover(); v != nil {
				s.log.Error("panic while serving a guest", "peer", ctx.RemoteAddr().String(),
					"panic", fmt.Sprint(v), "stack", string(debug.Stack()))
				ctx.Response.Reset()
				fail(ctx, http.StatusInternalServerError)
				ctx.SetConnectionClose()
				s.count.answer(where, http.StatusInternalServerError)
			}
		}()
		if !s.identify(serving, ctx, where) {
			return
		}
		who := callerOf(ctx)
		who.where, who.waited = where, 0
		if !s.slowDown(serving, who.session, began) {
			who.drop(ctx)
			return
		}
		s.dispatch(ctx, who, next)
		if who.dropped || who.record == nil { // it was removed while it waited, and has its answer
			return
		}
		if ctx.IsHead() && len(ctx.Response.Body()) == 0 {
			ctx.Response.Header.SetContentLength(0) // otherwise the header is left out
		}
		s.count.answer(where, ctx.Response.StatusCode())
		s.record(ctx, who)
		s.count.latency.add(time.Since(began) - who.waited)
	}
}

// dispatch applies the rules that hold for every path, and then answers the request.
func (s *Server) dispatch(ctx *fasthttp.RequestCtx, who *conn, next fasthttp.RequestHandler) {
	h := &ctx.Request.Header
	switch status := s.refusal(h, who); {
	case status != 0:
		fail(ctx, status)
		if status == http.StatusBadRequest {
			ctx.SetConnectionClose()
		}
	case h.IsGet() || h.IsHead():
		s.answer(ctx, who)
	case h.IsPut() || h.IsPost():
		next(ctx)
	default: // the router would answer a method that it does not know itself
		notAllowed(ctx, allowed(who.where))
	}
}

// refusal returns the status of a request that is refused whatever its path; 0 if it is not
// refused.
func (s *Server) refusal(h *fasthttp.RequestHeader, who *conn) int {
	status, noToken := s.refused(h, who)
	switch {
	case noToken && status != 0:
		s.count.noTokenRejected.Add(1)
	case noToken:
		s.count.noToken.Add(1)
	}
	return status
}

// refused is refusal without the counts: noToken is true for a request without a session token that
// could have one.
func (s *Server) refused(h *fasthttp.RequestHeader, who *conn) (status int, noToken bool) {
	f, ok := readFraming(h)
	options := &who.record.guest.Options
	switch {
	case !ok:
		return http.StatusBadRequest, false
	case options.Endpoint == seedbed.MetadataDisabled:
		return http.StatusForbidden, false
	case f.forwarded && h.IsPut():
		// A proxy that was tricked into a PUT adds this header (EC2 user guide, "Use IMDSv2").
		return http.StatusForbidden, false
	case !h.IsGet() && !h.IsHead() && !isPassword(who.where):
		return 0, false // needs no token: cloud-init does not send one when it phones home
	case f.hasToken:
		if !who.hasToken(f.token, s.now()) {
			return http.StatusUnauthorized, false
		}
		return 0, false
	case options.Tokens == seedbed.TokensRequired:
		return http.StatusUnauthorized, true
	}
	return 0, true
}

// identify finds the record of the caller and reports whether there is one. If not, it has answered
// 404, or has held and then dropped the connection.
func (s *Server) identify(serving context.Context, ctx *fasthttp.RequestCtx, where place) bool {
	c := callerOf(ctx)
	x := s.dir.current.Load()
	if c.known && c.at == x {
		return true
	}
	var over <-chan time.Time
	for {
		if !c.known {
			if err := c.resolve(x); err != nil {
				c.drop(ctx)
				return false
			}
		}
		if c.known && c.lookUp(x) {
			return true
		}
		if x.state.InSync {
			s.count.unknown.Add(1)
			fail(ctx, http.StatusNotFound)
			ctx.SetConnectionClose()
			s.count.answer(where, http.StatusNotFound)
			return false
		}
		if over == nil {
			s.count.held.Add(1)
			t := time.NewTimer(s.cfg.Limits.Hold)
			defer t.Stop()
			over = t.C
		}
		select {
		case <-x.replaced:
			x = s.dir.current.Load()
			continue
		case <-over:
		case <-serving.Done():
		}
		c.drop(ctx)
		return false
	}
}

// pathOf returns the path as it was sent, neither decoded nor cleaned.
func pathOf(ctx *fasthttp.RequestCtx) []byte {
	uri := ctx.Request.Header.RequestURI()
	if len(uri) == 0 || uri[0] != '/' || bytes.HasPrefix(uri, []byte("//")) {
		return ctx.URI().PathOriginal() // it may name a host
	}
	if i := bytes.IndexAny(uri, "?#"); i >= 0 {
		uri = uri[:i]
	}
	return uri
}

func sentBytes(ctx *fasthttp.RequestCtx) int64 {
	if ctx.IsHead() {
		return 0
	}
	return int64(len(ctx.Response.Body()))
}

// shownPath returns the path for the access records: bounded, printable, and without the report
// token, wherever the guest put it.
func shownPath(ctx *fasthttp.RequestCtx, who *conn) string {
	path := pathOf(ctx)
	token := who.record.guest.ReportToken
	if bytes.HasPrefix(path, []byte(reportPrefix)) || token != "" && bytes.Contains(path, []byte(token)) {
		return reportPrefix
	}
	return printable(path, 256)
}

// printable returns at most n bytes of b, with '?' for each byte that is not printable ASCII.
func printable(b []byte, n int) string {
	out := append([]byte(nil), b[:min(len(b), n)]...)
	for i, c := range out {
		if c < ' ' || c > '~' {
			out[i] = '?'
		}
	}
	return string(out)
}
