package server

import (
	"context"
	"time"

	"seedbed"
	"seedbed/internal/httpserve"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
)

// Prefix is the start of all paths.
const Prefix = "/api/v1"

// CallTimeout is the time within which most handlers must return.
const CallTimeout = 20 * time.Second

// Router is a Server on one listener.
type Router struct {
	*Server
	auth bool
	gate httpserve.Gate
	// conns bounds the connections of the listener with tokens.
	conns *httpserve.ConnLimiter
	base  context.Context
	// stopping is closed to end waits for events.
	stopping <-chan struct{}
	// open holds the methods and paths that need no token.
	open map[string]bool
}

// Handler answers one request. ctx ends with the request's timeout.
type Handler func(ctx context.Context, c *fiber.Ctx) error

// Anyone is the action of a route that needs no token, because it reveals nothing secret, or begins or
// ends a session.
const Anyone seedbed.Action = ""

// Route is one route of the API.
type Route struct {
	Method, Path string
	// Action is what a caller must be allowed to do to call the route.
	Action  seedbed.Action
	Timeout time.Duration
	Handler Handler
}

// InProject reports whether callers of every project may call the route: it shows and changes only what
// belongs to the caller's project, and what all projects share.
func (r Route) InProject() bool {
	info, _ := r.Action.Info()
	return !info.Installation
}

// Lookup returns the object that a path below the prefix is about, as the API shows it. parts are the
// path's segments. It returns nil if there is none.
type Lookup func(ctx context.Context, who Caller, parts []string) (any, error)

// Table is a kind of routes.
type Table struct {
	Routes []Route
	Shown  Lookup
	// Keyed is set if POST requests may have an idempotency key.
	Keyed bool
	// Owns reports whether a path belongs to the table, and fail and refuse answer the errors of such
	// paths. They may be nil: errors are then answered with problem documents.
	Owns   func(path string) bool
	Fail   func(c *fiber.Ctx, err error) error
	Refuse func(ctx *fasthttp.RequestCtx, p httpserve.Problem)
}

// register adds the routes of t to app. Each GET route also serves HEAD.
func (r *Router) register(app *fiber.App, t Table) {
	for _, one := range t.Routes {
		handler := one.Handler
		if t.Keyed && one.Method == fiber.MethodPost {
			most := max(MaxCatalogue, r.MaxDocuments())
			if one.Timeout == UploadTimeout {
				most = 0
			}
			handler = r.once(handler, most)
		}
		serve := r.within(one.Timeout, handler, t.Shown)
		h := func(c *fiber.Ctx) error {
			if one.Action != Anyone {
				if err := CallerOf(c).Need(one.Action); err != nil {
					return err
				}
			}
			return serve(c)
		}
		if one.Action == Anyone {
			r.open[one.Method+" "+Prefix+one.Path] = true
		}
		if one.Method == fiber.MethodGet {
			app.Get(Prefix+one.Path, h)
		} else {
			app.Add(one.Method, Prefix+one.Path, h)
		}
	}
}

// makeRoom closes the connection after the request if others may be waiting for one.
func (r *Router) makeRoom(c *fiber.Ctx) error {
	if r.conns.Dense() {
		c.Context().SetConnectionClose()
	}
	return c.Next()
}

// Stops returns a channel that is closed when the server stops.
func (r *Router) Stops() <-chan struct{} { return r.stopping }

// isOpen reports whether a request needs no token.
func (r *Router) isOpen(c *fiber.Ctx) bool {
	method := c.Method()
	if method == fiber.MethodHead {
		method = fiber.MethodGet
	}
	return r.open[method+" "+c.Path()]
}

// within returns a handler that calls h with a deadline, unless the server is stopping.
func (r *Router) within(d time.Duration, h Handler, shown Lookup) fiber.Handler {
	return func(c *fiber.Ctx) error {
		if !r.gate.Enter() {
			return httpserve.Problem{Status: fiber.StatusServiceUnavailable, Kind: "unavailable", Detail: "seedbedd is stopping"}
		}
		defer r.gate.Leave()
		ctx, cancel := context.WithTimeout(r.base, d)
		defer cancel()
		if !CallerOf(c).Home {
			ctx = seedbed.AsTenant(ctx)
		}
		return h(r.changing(ctx, c, shown), c)
	}
}
