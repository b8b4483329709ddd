package rest

import (
	"context"
	"slices"
	"strings"

	"seedbed"
	"seedbed/api/server"

	"github.com/gofiber/fiber/v2"
)

func projectOfToken(t seedbed.Token) string       { return t.Project }
func projectOfHook(h seedbed.Hook) string         { return h.Project }
func projectOfEndpoint(e seedbed.Endpoint) string { return e.Project }

// inScope makes a function that reads a list of objects of projects one that leaves out those that are
// not in the request's scope.
func inScope[T any](
	read func(context.Context) ([]T, error), project func(T) string,
) func(context.Context, *fiber.Ctx) ([]T, error) {
	return func(ctx context.Context, c *fiber.Ctx) ([]T, error) {
		in, err := server.ScopeOf(c)
		if err != nil {
			return nil, err
		}
		all, err := read(ctx)
		return slices.DeleteFunc(all, func(v T) bool { return !in.Sees(project(v)) }), err
	}
}

// owned returns the handler of a route. If the route's path names a token, a hook or an endpoint that
// is not in the caller's scope, the handler answers as if that did not exist.
func (r *router) owned(path string, h server.Handler) server.Handler {
	kind, _, one := strings.Cut(strings.TrimPrefix(path, "/"), "/:name")
	if !one {
		return h
	}
	switch kind {
	case "tokens":
		return ownedBy("token", r.Store.Token, projectOfToken, h)
	case "hooks":
		return ownedBy("hook", r.Store.Hook, projectOfHook, h)
	case "endpoints":
		return ownedBy("endpoint", r.Store.Endpoint, projectOfEndpoint, h)
	}
	return h
}

// ownedBy is owned for the objects of one kind.
func ownedBy[T any](
	kind string, read func(context.Context, string) (T, error), project func(T) string, h server.Handler,
) server.Handler {
	return func(ctx context.Context, c *fiber.Ctx) error {
		name, err := server.NameOf(c, kind)
		if err != nil {
			return err
		}
		if in := server.CallerOf(c).Scope(); in != seedbed.AllProjects() {
			v, err := read(ctx, name)
			if err != nil {
				return err
			}
			if !in.Sees(project(v)) {
				return seedbed.Errorf(seedbed.ErrNotFound, "%s %q does not exist", kind, seedbed.Clip(name))
			}
		}
		return h(ctx, c)
	}
}
