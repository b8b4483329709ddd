package webhook

import (
	"errors"

	"seedbed"
	"seedbed/internal/httpserve"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
)

func refuse(status int, detail string) httpserve.Problem {
	return httpserve.Problem{Status: status, Detail: detail}
}

// problemOf maps an error of Submit or of a look-up. An error of no kind is
// taken for a store that is down: nothing was made durable, so the sender may
// retry, and its text stays in the log.
func problemOf(err error) httpserve.Problem {
	p := httpserve.Problem{Status: fiber.StatusServiceUnavailable, Kind: "unavailable", Detail: "nothing was accepted; try again later"}
	for _, k := range []struct {
		kind   error
		status int
	}{
		{seedbed.ErrExists, fiber.StatusConflict},
		{seedbed.ErrConflict, fiber.StatusConflict},
		{seedbed.ErrInUse, fiber.StatusConflict},
		{seedbed.ErrInvalid, fiber.StatusUnprocessableEntity},
		// 404 is kept for an unknown hook: what the payload names is its content.
		{seedbed.ErrNotFound, fiber.StatusUnprocessableEntity},
		{seedbed.ErrForbidden, fiber.StatusForbidden},
		{seedbed.ErrFull, fiber.StatusInsufficientStorage},
	} {
		if errors.Is(err, k.kind) {
			p.Status, p.Kind, p.Detail = k.status, seedbed.KindName(err), k.kind.Error()
			break
		}
	}
	if e, ok := errors.AsType[*seedbed.Error](err); ok && p.Status != fiber.StatusServiceUnavailable {
		p.Detail, p.Job = e.Msg, e.Holder
	}
	return p
}

// write answers p. A sender may try again where nothing has room, too.
func write(ctx *fasthttp.RequestCtx, p httpserve.Problem) {
	later := p.Status == fiber.StatusInsufficientStorage || p.Status == fiber.StatusTooManyRequests
	if later && len(ctx.Response.Header.Peek(fiber.HeaderRetryAfter)) == 0 {
		ctx.Response.Header.Set(fiber.HeaderRetryAfter, httpserve.RetryAfter)
	}
	p.Write(ctx)
}

// fail answers what a handler or the router returned. The texts of the HTTP
// library are not passed on: they quote the request.
func (r *receiver) fail(c *fiber.Ctx, err error) error {
	if p, ok := errors.AsType[httpserve.Problem](err); ok {
		write(c.Context(), p)
		return nil
	}
	status := fiber.StatusInternalServerError
	if e, ok := errors.AsType[*fiber.Error](err); ok {
		status = e.Code
	}
	detail := "want POST /hooks/<name>"
	if status != fiber.StatusNotFound && status != fiber.StatusMethodNotAllowed {
		detail = "the request could not be read"
	}
	write(c.Context(), refuse(status, detail))
	return nil
}
