package rest

import (
	"context"
	"slices"
	"strings"

	"seedbed"
	"seedbed/api/server"

	"github.com/gofiber/fiber/v2"
)

// objects serves the objects of one kind that a profile can name: T as they are stored, W as they
// are shown.
type objects[T, W any] struct {
	// kind is the messages' word for one.
	kind   string
	list   func(context.Context, seedbed.NameMatch) ([]T, error)
	change func(context.Context, string, func(*T) error) (T, error)
	remove func(context.Context, string, ...func(T) error) error
	// of returns an object's name, and what is recorded of it.
	of   func(T) (string, seedbed.ObjectMeta)
	show func(T) W
}

// read returns the object of that name.
func (o objects[T, W]) read(ctx context.Context, name string) (T, error) {
	found, err := o.list(ctx, seedbed.ExactName(name))
	if err == nil && len(found) == 0 {
		err = seedbed.Errorf(seedbed.ErrNotFound, "the %s %q does not exist", o.kind, seedbed.Clip(name))
	}
	if err != nil {
		var none T
		return none, err
	}
	return found[0], nil
}

// tag returns the entity tag of an object.
func (o objects[T, W]) tag(v T) string {
	_, stored := o.of(v)
	return server.ObjectTag(stored)
}

// all answers a page of the objects, by name.
func (o objects[T, W]) all(ctx context.Context, c *fiber.Ctx) error {
	q, err := nameQuery(c, o.kind)
	if err != nil {
		return err
	}
	found, err := o.list(ctx, seedbed.NameMatch{Text: q.Prefix, Start: true})
	if err != nil {
		return err
	}
	name := func(v T) string {
		n, _ := o.of(v)
		return n
	}
	found = slices.DeleteFunc(found, func(v T) bool { return name(v) <= q.After })
	slices.SortFunc(found, func(a, b T) int { return strings.Compare(name(a), name(b)) })
	cursor := "" // of the page's last object
	return server.Page(c, q.Limit, func(W) string { return cursor }, func(n int) ([]W, error) {
		if len(found) >= n {
			cursor = name(found[n-2])
		}
		return server.Each(found[:min(n, len(found))], o.show), nil
	})
}

// one answers the object that the path names, with its ETag.
func (o objects[T, W]) one(ctx context.Context, c *fiber.Ctx) error {
	n, err := server.NameOf(c, o.kind)
	if err != nil {
		return err
	}
	v, err := o.read(ctx, n)
	if err != nil {
		return err
	}
	return server.Tagged(c, o.tag(v), o.show(v))
}

// drop deletes the object that the path names, unless the request has an If-Match header that does
// not match.
func (o objects[T, W]) drop(ctx context.Context, c *fiber.Ctx) error {
	return dropTagged(ctx, c, o.kind, o.remove, o.tag)
}

// modify changes the object that the path names, unless the request has an If-Match header that does
// not match, and answers the object as it is then. The body, of at most most bytes, is read into req
// unless req is nil. prepare checks the request, and returns the change that it asks for.
func (o objects[T, W]) modify(
	ctx context.Context, c *fiber.Ctx, req any, most int, prepare func(name string) (change func(*T) error, err error),
) error {
	n, err := server.NameOf(c, o.kind)
	if err != nil {
		return err
	}
	if req != nil {
		if err := server.ReceiveUpTo(c, req, most); err != nil {
			return err
		}
	}
	change, err := prepare(n)
	if err != nil {
		return err
	}
	v, err := o.change(ctx, n, func(v *T) error {
		if err := server.Matches(c, o.tag(*v)); err != nil {
			return err
		}
		return change(v)
	})
	if err != nil {
		return err
	}
	return server.Tagged(c, o.tag(v), o.show(v))
}

// keepsName refuses a body whose name differs from the one that the path names. The body may leave
// it out.
func keepsName(kind, given, name string) error {
	if given != "" && given != name {
		return server.Invalid("name %q: a %s keeps its name, which is %s", seedbed.Clip(given), kind, name)
	}
	return nil
}
