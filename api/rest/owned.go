package rest

import (
	"context"
	"slices"

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
