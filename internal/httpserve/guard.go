package httpserve

import (
	"io"
	"log/slog"
	"runtime/debug"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
)

// Keys of the values that travel with a request.
const (
	fieldsKey   = "seedbed.fields"
	consumedKey = "seedbed.consumed"
)

// Guard is the outermost layer of a server: it refuses header blocks that two
// readers could understand differently, answers a panic with 500, and closes the
// connection behind a body that was not read to its end, whose rest would
// otherwise be taken for the next request. All fields but Single are required.
type Guard struct {
	// Log gets panics. Request is what a request is called there: "an API request".
	Log     *slog.Logger
	Request string
	// Single are the headers, in lower case, that decide something on this server
	// and so must not come twice, besides those that ParseFields knows.
	Single []string
	// Discard is how many bytes of an unread body are read, unless it is known to be
	// longer, so that the caller, busy sending, gets to see the answer rather than a
	// reset connection.
	Discard int
	// Refuse answers what the guard finds; Bug is what it is given for a panic.
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
		f, err := ParseFields(ctx.Request.Header.RawHeaders(), g.Single...)
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
