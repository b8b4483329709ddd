// Package pvc has the routes of PVC's API: its paths, the forms of its requests, its messages and
// its rows. They use the same services as the native routes.
package pvc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"seedbed"
	"seedbed/api/server"
	"seedbed/internal/httpserve"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
)

// version is the answer to PVC's clients at the root.
const version = "PVC API version 1.0"

// message is PVC's form for answers that have no other form, errors included.
type message struct {
	// Message is a text or, for a missing argument, an object with its name.
	Message any `json:"message"`
}

// refusal is an error with its HTTP status and message.
type refusal struct {
	status  int
	message any
}

// Error implements error.
func (r *refusal) Error() string { return fmt.Sprint(r.message) }

func refused(status int, format string, args ...any) error {
	return &refusal{status: status, message: fmt.Sprintf(format, args...)}
}

// say answers 200 with a message.
func say(c *fiber.Ctx, format string, args ...any) error {
	return server.Reply(c, fiber.StatusOK, message{fmt.Sprintf(format, args...)})
}

// handler answers one request with its parameters.
type handler func(ctx context.Context, c *fiber.Ctx, f *fields) error

// starting returns the handler of a request that starts a job. It passes the options of the job to h.
func (r *router) starting(h func(context.Context, *fiber.Ctx, *fields, seedbed.JobOptions) error) handler {
	return func(ctx context.Context, c *fiber.Ctx, f *fields) error {
		o, err := r.JobOptions(ctx, c)
		if err != nil {
			return err
		}
		return h(ctx, c, f, o)
	}
}

// rows answers a list, or 404 with the message none if the list is empty.
func rows[T, R any](c *fiber.Ctx, found []T, row func(T) R, none string) error {
	if len(found) == 0 {
		return refused(fiber.StatusNotFound, "%s", none)
	}
	return server.Reply(c, fiber.StatusOK, server.Each(found, row))
}

// nameMissing is the message for a request without the name of what it creates.
const nameMissing = "A name must be specified."

// creating adds the two routes that create an object. Its name is the parameter that field names, with
// the message missing if there is none, or the segment of the path.
func creating(
	post routing, action seedbed.Action, path, segment, field, missing string,
	create func(ctx context.Context, c *fiber.Ctx, f *fields, name string) error,
) {
	post(action, path, func(ctx context.Context, c *fiber.Ctx, f *fields) error {
		return create(ctx, c, f, f.must(field, missing))
	})
	post(action, path+"/:"+segment, func(ctx context.Context, c *fiber.Ctx, f *fields) error {
		return create(ctx, c, f, server.Param(c, segment))
	})
}

// answerOf returns PVC's answer to an error, which is the problem p in the native API. given reports whether
// a token came with the request.
func answerOf(err error, p httpserve.Problem, given bool) (status int, m any) {
	if e, ok := errors.AsType[*refusal](err); ok {
		return e.status, e.message
	}
	if e, ok := errors.AsType[*fiber.Error](err); ok {
		switch e.Code {
		case fiber.StatusNotFound:
			return e.Code, "The requested URL was not found on the server. Seedbed's paths are described at " + server.Prefix + "/openapi.yaml."
		case fiber.StatusMethodNotAllowed:
			return e.Code, "The method is not allowed for the requested URL. Seedbed's methods are described at " + server.Prefix + "/openapi.yaml."
		}
	}
	switch p.Status {
	case fiber.StatusUnauthorized:
		if given {
			return p.Status, "X-Api-Key Authentication failed."
		}
		return p.Status, "X-Api-Key Authentication required."
	case fiber.StatusInternalServerError:
		return p.Status, http.StatusText(p.Status)
	case fiber.StatusNotFound, fiber.StatusConflict, fiber.StatusUnprocessableEntity, fiber.StatusInsufficientStorage:
		return fiber.StatusBadRequest, server.Sentence(p.Detail)
	}
	return p.Status, server.Sentence(p.Detail)
}

// fail answers an error on one of PVC's paths.
func (r *router) fail(c *fiber.Ctx, err error) error {
	header := httpserve.FieldsOf(c.Context())
	status, m := answerOf(err, server.ProblemFor(c, err), header.Get("x-api-key") != "" || header.Get("authorization") != "")
	if e, ok := errors.AsType[*fiber.Error](err); ok && (e.Code == fiber.StatusNotFound || e.Code == fiber.StatusMethodNotAllowed) {
		if says := absentAt(c.Method(), c.Path()); says != "" {
			m = says
		}
	}
	if status >= fiber.StatusInternalServerError {
		level := slog.LevelWarn
		if status == fiber.StatusInternalServerError {
			level = slog.LevelError
		}
		r.Log.Log(c.Context(), level, "API request failed", "method", c.Method(), "path", seedbed.Clip(c.Path()), "status", status, "err", err)
	}
	if status == fiber.StatusServiceUnavailable {
		c.Set(fiber.HeaderRetryAfter, httpserve.RetryAfter)
	}
	return server.Reply(c, status, message{m})
}

// refuse answers the guard's problem on one of PVC's paths.
func refuse(ctx *fasthttp.RequestCtx, p httpserve.Problem) {
	status, m := answerOf(p, server.ProblemOf(p), false)
	body, err := json.Marshal(message{m})
	if err != nil {
		panic(err) // plain fields always marshal
	}
	ctx.Response.Header.Set(fiber.HeaderCacheControl, "no-store")
	ctx.SetStatusCode(status)
	ctx.SetContentType(fiber.MIMEApplicationJSON)
	ctx.SetBody(body)
}
