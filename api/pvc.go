package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"seedbed"
	"seedbed/internal/httpserve"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
)

// pvcVersion is the answer to PVC's clients at the root.
const pvcVersion = "PVC API version 1.0"

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
	return reply(c, fiber.StatusOK, message{fmt.Sprintf(format, args...)})
}

// compatible reports whether a path belongs to PVC's API, whose answers have PVC's form.
func compatible(path string) bool {
	rest, ok := strings.CutPrefix(path, prefix)
	if !ok || rest != "" && rest[0] != '/' {
		return false
	}
	first, _, _ := strings.Cut(strings.TrimPrefix(rest, "/"), "/")
	switch first {
	case "", "login", "logout", "auth", "status", "tasks", "provisioner", "vm", "node", "network", "storage":
		return true
	}
	return false
}

// unguarded reports whether a request needs no token, because it reveals nothing secret or begins or
// ends a session.
func unguarded(method, path string) bool {
	read := method == fiber.MethodGet || method == fiber.MethodHead
	switch path {
	case healthPath, prefix, prefix + "/", prefix + "/status/primary_node":
		return read
	case prefix + "/login", prefix + "/logout", prefix + "/auth/login", prefix + "/auth/logout":
		return method == fiber.MethodPost
	}
	return false
}

// pvcHandler answers one request with its parameters.
type pvcHandler func(ctx context.Context, c *fiber.Ctx, f *fields) error

// pvc returns a handler that calls h with the parameters that read returns. The caller is already
// authenticated.
func (r *router) pvc(read func(*fiber.Ctx) (*fields, error), h pvcHandler) fiber.Handler {
	return r.within(callTimeout, func(ctx context.Context, c *fiber.Ctx) error {
		f, err := read(c)
		if err != nil {
			return err
		}
		return h(ctx, c, f)
	})
}

func (r *router) pvcRoutes(app *fiber.App) {
	get := func(path string, h pvcHandler) { app.Get(prefix+path, r.pvc(r.parameters, h)) }
	post := func(path string, h pvcHandler) { app.Post(prefix+path, r.pvc(r.parameters, h)) }
	put := func(path string, h pvcHandler) { app.Put(prefix+path, r.pvc(r.parameters, h)) }
	del := func(path string, h pvcHandler) { app.Delete(prefix+path, r.pvc(r.parameters, h)) }

	root := func(_ context.Context, c *fiber.Ctx, _ *fields) error { return say(c, pvcVersion) }
	get("", root)
	get("/", root)
	for _, at := range []string{"", "/auth"} {
		app.Post(prefix+at+"/login", r.within(callTimeout, r.login))
		app.Post(prefix+at+"/logout", r.within(callTimeout, r.logout))
	}
	get("/status", r.pvcStatus)
	post("/status", r.setMaintenance)
	get("/status/primary_node", r.primaryNode)
	r.vmRoutes(app, get, post)
	r.nodeRoutes("/node", get)
	r.netRoutes("/network", get)
	r.volumeReadRoutes("/storage/ceph/volume", get)
	get("/tasks", r.pvcTasks)
	get("/tasks/:id", r.pvcTask)

	const p = "/provisioner"
	get(p+"/status", r.legacyTasks)
	get(p+"/status/:id", r.pvcTask)
	get(p+"/template", r.allTemplates)
	post(p+"/create", r.composeVM)

	r.systemRoutes(p+"/template/system", get, post, put, del)
	r.networkRoutes(p+"/template/network", get, post, del)
	r.storageRoutes(p+"/template/storage", get, post, del)
	r.textRoutes(p, get, post, put, del)
	r.pvcProfileRoutes(p+"/profile", get, post, put, del)
	r.ovaRoutes(app, p+"/ova", get)
}

// routing adds a route.
type routing func(path string, h pvcHandler)

// param returns a decoded segment of the path.
func param(c *fiber.Ctx, name string) string {
	raw := c.Params(name)
	if s, err := url.PathUnescape(raw); err == nil {
		return s
	}
	return raw
}

// rows answers a list, or 404 with the message none if the list is empty.
func rows[T, R any](c *fiber.Ctx, found []T, row func(T) R, none string) error {
	if len(found) == 0 {
		return refused(fiber.StatusNotFound, "%s", none)
	}
	return reply(c, fiber.StatusOK, each(found, row))
}

func each[T, R any](found []T, row func(T) R) []R {
	all := make([]R, len(found))
	for i, v := range found {
		all[i] = row(v)
	}
	return all
}

// listed answers the objects whose names match the parameter limit.
func listed[T, R any](read func(context.Context, seedbed.NameMatch) ([]T, error), row func(T) R, none string) pvcHandler {
	return func(ctx context.Context, c *fiber.Ctx, f *fields) error {
		m := f.match()
		if f.err != nil {
			return f.err
		}
		found, err := read(ctx, m)
		if err != nil {
			return err
		}
		return rows(c, found, row, none)
	}
}

// element answers the object that the path names, in a list as PVC does.
func element[T, R any](read func(context.Context, seedbed.NameMatch) ([]T, error), row func(T) R, none string) pvcHandler {
	return func(ctx context.Context, c *fiber.Ctx, _ *fields) error {
		found, err := read(ctx, seedbed.ExactName(param(c, "name")))
		if err != nil {
			return err
		}
		return rows(c, found, row, none)
	}
}

// removed deletes the object that the path names. label is the message's word for it.
func removed(remove func(context.Context, string) error, label string) pvcHandler {
	return func(ctx context.Context, c *fiber.Ctx, _ *fields) error {
		name := param(c, "name")
		err := remove(ctx, name)
		if errors.Is(err, seedbed.ErrInUse) || errors.Is(err, seedbed.ErrConflict) {
			return refused(fiber.StatusBadRequest, "Failed to delete entry %q: %s", name, sentence(err.Error()))
		}
		if err != nil {
			return err
		}
		return say(c, `Removed %s "%s".`, label, name)
	}
}

// pvcAnswer returns PVC's answer to an error. given reports whether a token came with the request.
func pvcAnswer(err error, given bool) (status int, m any) {
	if e, ok := errors.AsType[*refusal](err); ok {
		return e.status, e.message
	}
	if e, ok := errors.AsType[*fiber.Error](err); ok {
		switch e.Code {
		case fiber.StatusNotFound:
			return e.Code, "The requested URL was not found on the server. Seedbed's paths are described at " + prefix + "/openapi.yaml."
		case fiber.StatusMethodNotAllowed:
			return e.Code, "The method is not allowed for the requested URL."
		}
	}
	p := problemOf(err)
	switch p.Status {
	case fiber.StatusUnauthorized:
		if given {
			return p.Status, "X-Api-Key Authentication failed."
		}
		return p.Status, "X-Api-Key Authentication required."
	case fiber.StatusInternalServerError:
		return p.Status, http.StatusText(p.Status)
	case fiber.StatusNotFound, fiber.StatusConflict, fiber.StatusUnprocessableEntity, fiber.StatusInsufficientStorage:
		return fiber.StatusBadRequest, sentence(p.Detail)
	}
	return p.Status, sentence(p.Detail)
}

// failPVC answers an error on one of PVC's paths.
func (r *router) failPVC(c *fiber.Ctx, err error) error {
	header := httpserve.FieldsOf(c.Context())
	status, m := pvcAnswer(err, header.Get("x-api-key") != "" || header.Get("authorization") != "")
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
	return reply(c, status, message{m})
}

// sentence turns one of our messages into the form of PVC's.
func sentence(s string) string {
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

// writePVC answers the guard's problem on one of PVC's paths.
func writePVC(ctx *fasthttp.RequestCtx, p httpserve.Problem) {
	status, m := pvcAnswer(p, false)
	body, err := json.Marshal(message{m})
	if err != nil {
		panic(err) // plain fields always marshal
	}
	ctx.Response.Header.Set(fiber.HeaderCacheControl, "no-store")
	ctx.SetStatusCode(status)
	ctx.SetContentType(fiber.MIMEApplicationJSON)
	ctx.SetBody(body)
}
