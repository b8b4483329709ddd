package server

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"strings"
	"unicode"
	"unicode/utf8"

	"seedbed"
	"seedbed/internal/httpserve"

	"github.com/gofiber/fiber/v2"
)

const internal = "internal error: see the log of seedbedd"

var statuses = []struct {
	kind   error
	status int
}{
	{seedbed.ErrNotFound, fiber.StatusNotFound},
	{seedbed.ErrExists, fiber.StatusConflict},
	{seedbed.ErrConflict, fiber.StatusConflict},
	{seedbed.ErrInUse, fiber.StatusConflict},
	{seedbed.ErrInvalid, fiber.StatusUnprocessableEntity},
	{seedbed.ErrForbidden, fiber.StatusForbidden},
	{seedbed.ErrUnauthenticated, fiber.StatusUnauthorized},
	{seedbed.ErrFull, fiber.StatusInsufficientStorage},
	{seedbed.ErrUnavailable, fiber.StatusServiceUnavailable},
}

// ProblemOf maps every error to its answer. It does not disclose the text of an error without a
// kind.
func ProblemOf(err error) httpserve.Problem {
	if p, ok := errors.AsType[httpserve.Problem](err); ok {
		p.Kind = cmp.Or(p.Kind, "invalid") // such as a malformed request
		return p
	}
	if e, ok := errors.AsType[*fiber.Error](err); ok {
		return routerProblem(e.Code)
	}
	for _, k := range statuses {
		if !errors.Is(err, k.kind) {
			continue
		}
		p := httpserve.Problem{Status: k.status, Kind: seedbed.KindName(err), Detail: err.Error()}
		if e, ok := errors.AsType[*seedbed.Error](err); ok {
			p.Job = e.Holder
		}
		return p
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return httpserve.Problem{Status: fiber.StatusServiceUnavailable, Kind: "unavailable", Detail: "it took too long, or seedbedd is stopping"}
	}
	return httpserve.Problem{Status: fiber.StatusInternalServerError, Kind: "internal", Detail: internal}
}

// Unavailable is what a tenant reads if a node, a pool or a worker does not answer. The reason names nodes,
// addresses and paths, and is in the log.
const Unavailable = "what this needs does not answer now: try again later"

// ProblemFor is ProblemOf for the caller of a request.
func ProblemFor(c *fiber.Ctx, err error) httpserve.Problem {
	p := ProblemOf(err)
	if !CallerOf(c).Home && p.Kind == seedbed.KindName(seedbed.ErrUnavailable) && errors.Is(err, seedbed.ErrUnavailable) {
		p.Detail = Unavailable
	}
	return p
}

// routerProblem returns the problem for a status that the HTTP library reports. The library's texts
// are not passed on, because they quote the request.
func routerProblem(status int) httpserve.Problem {
	p := httpserve.Problem{Status: status, Kind: "invalid", Detail: "the request could not be read"}
	switch {
	case status == fiber.StatusNotFound:
		p.Kind, p.Detail = "not_found", "there is no such path: see "+Prefix+"/openapi.yaml"
	case status == fiber.StatusMethodNotAllowed:
		p.Detail = "the path does not support this method: see the header Allow"
	case status >= fiber.StatusInternalServerError:
		p.Kind, p.Detail = "internal", internal
	}
	return p
}

// answered returns the problem as an answer, with the message for PVC's clients: they may ask for any
// path, and print nothing else.
func answered(p httpserve.Problem) httpserve.Problem {
	p.Message = Sentence(p.Detail)
	return p
}

// Sentence turns a message into the form of PVC's.
func Sentence(s string) string {
	first, size := utf8.DecodeRuneInString(s)
	if size == 0 {
		return s
	}
	s = string(unicode.ToUpper(first)) + s[size:]
	if strings.HasSuffix(s, ".") {
		return s
	}
	return s + "."
}

// fail answers the error of a handler or of the router with a problem document.
func (r *Router) fail(c *fiber.Ctx, err error) error {
	p := answered(ProblemFor(c, err))
	if p.Status >= fiber.StatusInternalServerError {
		level := slog.LevelWarn
		if p.Kind == "internal" {
			level = slog.LevelError
		}
		r.Log.Log(c.Context(), level, "API request failed", "method", c.Method(), "path", seedbed.Clip(c.Path()), "status", p.Status, "err", err)
	}
	p.Write(c.Context())
	return nil
}
