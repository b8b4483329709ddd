package httpserve

import (
	"io"
	"log/slog"
	"runtime/debug"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"seedbed/internal/header"
)

// These are the keys of values that are stored with a request.
const (
	fieldsKey   = "seedbed.fields"
	consumedKey = "seedbed.consumed"
)

// Guard is the outermost layer of a server. It refuses header blocks that two parsers could
// understand differently, and answers a panic with 500. It closes the connection after a body that
// was not read to its end, because the rest would be taken for the next request. All fields except
// Single are required.
type Guard struct {
	// Log receives panics. Request is the log's word for a request: "an API request".
	Log     *slog.Logger
	Request string
	// Single holds the headers, in lower case, on which decisions of this server depend, and which
	// must therefore not occur twice. header.Parse adds its own.
	Single []string
	// Discard is how many bytes of an unread body are read, unless the body is known to be longer.
	// This lets a caller that is still sending see the answer rather than a reset connection.
	Discard int
	// Refuse answers the guard's problems. Bug is the problem for a panic.
	Refuse func(*fasthttp.RequestCtx, Problem)
	Bug    Problem
}

func (g Guard) around(next fasthttp.RequestHandler) fasthttp.RequestHandler {
	return func(ctx *fasthttp.RequestCtx) {
		defer g.settle(ctx)
		defer func() {
			if p := recover(); p != nil {
				g.Log.Error("panic in "+g.Request, "panic", p, "stack", string(debug.Stack()))
				ctx.Response.Reset()
				ctx.SetConnectionClose()
				g.Refuse(ctx, g.Bug)
			}
		}()
		f, err := header.Parse(ctx.Request.Header.RawHeaders(), g.Single...)
		if err != nil {
			ctx.SetConnectionClose()
			g.Refuse(ctx, Problem{Status: fiber.StatusBadRequest, Detail: err.Error()})
			return
		}
		ctx.SetUserValue(fieldsKey, f)
		next(ctx)
	}
}

func (g Guard) settle(ctx *fasthttp.RequestCtx) {
	stream := ctx.RequestBodyStream()
	if stream == nil || ctx.UserValue(consumedKey) != nil || ctx.Request.Header.ContentLength() == 0 {
		return
	}
	if !ctx.Response.ConnectionClose() && ctx.Request.Header.ContentLength() <= g.Discard {
		_, _ = io.CopyN(io.Discard, stream, int64(g.Discard))
	}
	ctx.SetConnectionClose()
}

// FieldsOf returns the fields of a request that a Guard has admitted.
func FieldsOf(ctx *fasthttp.RequestCtx) header.Fields {
	f, _ := ctx.UserValue(fieldsKey).(header.Fields)
	return f
}
