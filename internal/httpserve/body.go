package httpserve

import (
	"errors"
	"io"
	"net"
	"strconv"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
)

// ReadBody reads the body, at most limit bytes. A body that is longer, ends
// early or comes too slowly is a Problem.
func ReadBody(ctx *fasthttp.RequestCtx, limit int) ([]byte, error) {
	stream := ctx.RequestBodyStream()
	if stream == nil {
		return nil, nil
	}
	tooLarge := Problem{Status: fiber.StatusRequestEntityTooLarge, Detail: "the body is larger than " + strconv.Itoa(limit) + " bytes"}
	length := ctx.Request.Header.ContentLength() // -1 is chunked
	if length > limit {
		return nil, tooLarge
	}
	body, err := io.ReadAll(io.LimitReader(stream, int64(limit)+1))
	if len(body) > limit {
		return nil, tooLarge
	}
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		ctx.SetConnectionClose()
		return nil, Problem{Status: fiber.StatusRequestTimeout, Detail: "the body came too slowly"}
	}
	if err != nil || length >= 0 && len(body) != length {
		ctx.SetConnectionClose()
		return nil, Problem{Status: fiber.StatusBadRequest, Detail: "the body ended early or is not well chunked"}
	}
	ctx.SetUserValue(consumedKey, true)
	return body, nil
}
