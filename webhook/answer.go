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

// problemOf maps an error of Submit or of a look-up to an answer. An error without a kind means
// that the store is down. Nothing was made durable then, so the sender may retry. The text of such
// an error is only logged.
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
		// 404 means an unknown hook. A missing object that the payload names is a fault in its
		// content.
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

// write answers p. A sender may also retry if there is no room.
func write(ctx *fasthttp.RequestCtx, p httpserve.Problem) {
	later := p.Status == fiber.StatusInsufficientStorage || p.Status == fiber.StatusTooManyRequests
	if later && len(ctx.Response.Header.Peek(fiber.HeaderRetryAfter)) == 0 {
		ctx.Response.Header.Set(fiber.HeaderRetryAfter, httpserve.RetryAfter)
	}
	p.Write(ctx)
}

// fail answers an error of a handler or the router. It does not pass on the texts of the HTTP
// library, which quote the request.
func (r *receiver) fail(c *fiber.Ctx, err error) error {
	if p, ok := errors.AsType[httpserve.Problem](err); ok {
		write(c.Context(), p)
		return nil
	}
	status := fiber.StatusInternalServerError
	if e, ok := errors.AsType[*fiber.Error](err); ok {
		status = e.Code
	}
	detail := "expected POST /hooks/<name>, or /hooks/<project>/<name>"
	if status != fiber.StatusNotFound && status != fiber.StatusMethodNotAllowed {
		detail = "the request could not be read"
	}
	write(c.Context(), refuse(status, detail))
	return nil
}
