package rest

import (
	"context"

	"seedbed"
	"seedbed/api/server"

	"github.com/gofiber/fiber/v2"
)

// publishable says where the objects of a kind have their names and their publications, and takes away what else other
// projects do not learn.
type publishable[T any] struct {
	name func(T) string
	to   func(*T) **seedbed.Publication
	hide func(*T)
}

var (
	ofImage = publishable[seedbed.Image]{
		func(i seedbed.Image) string { return i.Name }, func(i *seedbed.Image) **seedbed.Publication { return &i.Published },
		func(*seedbed.Image) {},
	}
	ofNetwork = publishable[seedbed.Network]{
		func(n seedbed.Network) string { return n.Name }, func(n *seedbed.Network) **seedbed.Publication { return &n.Published },
		func(n *seedbed.Network) { n.Peers, n.PeerPrefixes, n.ACLs = nil, nil, nil },
	}
)

// shownTo returns an object as the caller may see it: without its publication, its peers and its ACLs, if it is another project's.
func shownTo[T any](who server.Caller, v T, of publishable[T]) T {
	if !who.Learns(of.name(v)) {
		*of.to(&v) = nil
		of.hide(&v)
	}
	return v
}

// usable makes a function that reads a list one of what the request's project may use or, if the query asks
// for it, of what all projects have.
func usable[T any](
	read func(context.Context) ([]T, error), of publishable[T],
) func(context.Context, *fiber.Ctx) ([]T, error) {
	return func(ctx context.Context, c *fiber.Ctx) ([]T, error) {
		in, err := server.ScopeOf(c)
		if err != nil {
			return nil, err
		}
		all, err := read(ctx)
		if err != nil {
			return nil, err
		}
		project, one := in.One()
		var seen []T
		for _, v := range all {
			if !one || (*of.to(&v)).Lets(project, of.name(v)) {
				seen = append(seen, shownTo(server.CallerOf(c), v, of))
			}
		}
		return seen, nil
	}
}

// publish returns a handler that says to which projects an object of the caller's project is published, and
// answers the object, as tell does.
func publish[T any](
	r *router, kind seedbed.PublishedKind, write func(context.Context, string, seedbed.Publication, ...func(T) error) (T, error),
	tag func(T) string, tell func(*fiber.Ctx, T) error,
) server.Handler {
	return func(ctx context.Context, c *fiber.Ctx) error {
		n, err := r.Owned(ctx, c, kind)
		if err != nil {
			return err
		}
		to, err := server.ReceivePublication(c)
		if err != nil {
			return err
		}
		v, err := write(ctx, n, to, server.IfMatch(c, tag))
		if err != nil {
			return err
		}
		return tell(c, v)
	}
}

// tagged returns a function that answers an object as it is, with its entity tag.
func tagged[T any](tag func(T) string) func(*fiber.Ctx, T) error {
	return func(c *fiber.Ctx, v T) error { return server.Tagged(c, tag(v), v) }
}
