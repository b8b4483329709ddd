package rest

import (
	"context"
	"net/url"
	"slices"
	"strings"

	"seedbed"
	"seedbed/api/server"

	"github.com/gofiber/fiber/v2"
)

// objects serves the objects of one kind that a profile can name: T as they are stored, W as they
// are shown.
type objects[T, W any] struct {
	r       *router
	kind    seedbed.PublishedKind
	list    func(context.Context, seedbed.NameMatch) ([]T, error)
	change  func(context.Context, string, func(*T) error) (T, error)
	remove  func(context.Context, string, ...func(T) error) error
	publish func(context.Context, string, seedbed.Publication, ...func(T) error) (T, error)
	// of returns an object's name, and what is recorded of it.
	of   func(*T) (string, *seedbed.ObjectMeta)
	show func(T) W
}

func (o objects[T, W]) name(v T) string {
	name, _ := o.of(&v)
	return name
}

// read returns the object with that qualified name, as the caller may see it.
func (o objects[T, W]) read(ctx context.Context, who server.Caller, name string) (v T, err error) {
	found, err := o.list(ctx, seedbed.ExactName(name))
	if err == nil && len(found) == 0 {
		err = o.kind.Missing(seedbed.ErrNotFound, name)
	}
	if err != nil {
		return v, err
	}
	return o.shownTo(who, found[0]), nil
}

// shownTo returns an object as the caller may see it: without its publication if it is another project's, and
// without its number outside the default project.
func (o objects[T, W]) shownTo(who server.Caller, v T) T {
	name, meta := o.of(&v)
	if !who.Learns(name) {
		meta.Published = nil
	}
	if !who.Home {
		meta.ID = 0
	}
	return v
}

// tagged answers an object, with its ETag.
func (o objects[T, W]) tagged(c *fiber.Ctx, v T) error {
	v = o.shownTo(server.CallerOf(c), v)
	return server.Tagged(c, o.tag(v), o.show(v))
}

// tag returns the entity tag of an object.
func (o objects[T, W]) tag(v T) string {
	_, stored := o.of(&v)
	return server.ObjectTag(*stored)
}

// usable returns the objects whose names begin with a prefix, with their project or without, as far as the
// project of a scope may use them.
func (o objects[T, W]) usable(ctx context.Context, in seedbed.Scope, prefix string) ([]T, error) {
	found, err := o.list(ctx, seedbed.NameMatch{})
	if err != nil {
		return nil, err
	}
	project, one := in.One()
	return slices.DeleteFunc(found, func(v T) bool {
		name, meta := o.of(&v)
		if !strings.HasPrefix(name, prefix) && !strings.HasPrefix(seedbed.ShortName(name), prefix) {
			return true
		}
		return one && !meta.Published.Lets(project, name)
	}), nil
}

// all answers a page of the objects, by name.
func (o objects[T, W]) all(ctx context.Context, c *fiber.Ctx) error {
	q, err := nameQuery(c, o.kind.Noun())
	if err != nil {
		return err
	}
	in, err := server.ScopeOf(c)
	if err != nil {
		return err
	}
	found, err := o.usable(ctx, in, q.Prefix)
	if err != nil {
		return err
	}
	found = slices.DeleteFunc(found, func(v T) bool { return o.name(v) <= q.After })
	slices.SortFunc(found, func(a, b T) int { return strings.Compare(o.name(a), o.name(b)) })
	cursor, who := "", server.CallerOf(c) // of the page's last object
	return server.Page(c, q.Limit, func(W) string { return cursor }, func(n int) ([]W, error) {
		if len(found) >= n {
			cursor = o.name(found[n-2])
		}
		return server.Each(found[:min(n, len(found))], func(v T) W { return o.show(o.shownTo(who, v)) }), nil
	})
}

// one answers the object that the path names, with its ETag.
func (o objects[T, W]) one(ctx context.Context, c *fiber.Ctx) error {
	n, err := o.r.Visible(ctx, c, o.kind)
	if err != nil {
		return err
	}
	v, err := o.read(ctx, server.CallerOf(c), n)
	if err != nil {
		return err
	}
	return o.tagged(c, v)
}

// drop deletes the object that the path names, unless the request has an If-Match header that does
// not match.
func (o objects[T, W]) drop(ctx context.Context, c *fiber.Ctx) error {
	n, err := o.r.Owned(ctx, c, o.kind)
	if err != nil {
		return err
	}
	if err := o.remove(ctx, n, server.IfMatch(c, o.tag)); err != nil {
		return err
	}
	c.Status(fiber.StatusNoContent)
	return nil
}

// published says to which projects the object that the path names is published.
func (o objects[T, W]) published(ctx context.Context, c *fiber.Ctx) error {
	return publish(o.r, o.kind, o.publish, o.tag, o.tagged)(ctx, c)
}

// called returns the qualified name of an object that the caller makes.
func (o objects[T, W]) called(c *fiber.Ctx, name string) (string, error) {
	return server.CallerOf(c).Qualified(o.kind.Noun(), name)
}

// made answers an object that was made. path is that of the list.
func (o objects[T, W]) made(c *fiber.Ctx, path string, v T) error {
	return server.Created(c, path+"/"+url.PathEscape(o.name(v)), o.show(o.shownTo(server.CallerOf(c), v)))
}

// modify changes the object that the path names, unless the request has an If-Match header that does
// not match, and answers the object as it is then. The body, of at most most bytes, is read into req
// unless req is nil. prepare checks the request, and returns the change that it asks for.
func (o objects[T, W]) modify(
	ctx context.Context, c *fiber.Ctx, req any, most int, prepare func(name string) (change func(*T) error, err error),
) error {
	n, err := o.r.Owned(ctx, c, o.kind)
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
	return o.tagged(c, v)
}

// keepsName refuses a body whose name differs from the one that the path names. The body may leave
// it out, and may leave out the project.
func keepsName(kind seedbed.PublishedKind, given, name string) error {
	if given != "" && given != name && seedbed.Qualified(seedbed.ProjectOf(name), given) != name {
		return server.Invalid("name %q: a %s keeps its name, which is %s", seedbed.Clip(given), kind.Noun(), name)
	}
	return nil
}
