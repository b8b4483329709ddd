package pvc

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"seedbed"
	"seedbed/api/server"

	"github.com/gofiber/fiber/v2"
)

// collection has the profiles, or the objects of one kind that a profile refers to, by the names that they have
// in requests of a project: without a project those of its own, and those that the default project
// publishes to it and that have the name of none of its own. Objects that other projects publish are left out,
// because PVC's names have no slash.
type collection[T any] struct {
	r    *router
	kind seedbed.PublishedKind
	list func(context.Context, seedbed.NameMatch) ([]T, error)
	// names returns the object's name, and then the names of other objects in it.
	names func(*T) []*string
	// numbers returns the numbers in the object, which are only shown in the default project.
	numbers func(*T) []*int64
	to      func(*T) *seedbed.Publication
	// shown returns an object of the default project as callers of another one see it; nil if they see all of it.
	shown func(server.Caller, T) T
	// none is the message for an empty list. label is what messages about a change call an object; empty for
	// the noun of the kind.
	none, label string
}

// word returns what messages about a change call an object.
func (l collection[T]) word() string { return cmp.Or(l.label, l.kind.Noun()) }

// missing is the error for an object that the caller's project does not have.
func (l collection[T]) missing(name string) error {
	return seedbed.Errorf(seedbed.ErrNotFound, "the %s %q does not exist", l.kind.Noun(), seedbed.Clip(name))
}

// matching returns the objects whose names match, sorted by name.
func (l collection[T]) matching(ctx context.Context, who server.Caller, m seedbed.NameMatch) ([]T, error) {
	m.Project = who.Project
	all, err := l.list(ctx, m)
	if err != nil || who.Project == seedbed.DefaultProject {
		return all, err
	}
	own := map[string]bool{}
	for n := range all {
		name := l.names(&all[n])[0]
		*name = seedbed.ShortName(*name)
		own[*name] = true
	}
	m.Project = seedbed.DefaultProject
	shared, err := l.list(ctx, m)
	if err != nil {
		return nil, err
	}
	for _, v := range shared {
		name := *l.names(&v)[0]
		if own[name] || !l.to(&v).Lets(who.Project, name) {
			continue
		}
		if l.shown != nil {
			v = l.shown(who, v)
		}
		all = append(all, v)
	}
	for n := range all {
		for _, name := range l.names(&all[n])[1:] {
			if *name != "" {
				*name = strings.TrimPrefix(seedbed.Explicit(*name), who.Project+"/")
			}
		}
		for _, number := range l.numbers(&all[n]) {
			*number = 0
		}
	}
	slices.SortFunc(all, func(a, b T) int { return strings.Compare(*l.names(&a)[0], *l.names(&b)[0]) })
	return all, nil
}

// named returns the object of that name, or none.
func (l collection[T]) named(ctx context.Context, who server.Caller, name string) ([]T, error) {
	return l.matching(ctx, who, seedbed.ExactName(name))
}

// one returns the object of that name.
func (l collection[T]) one(ctx context.Context, who server.Caller, name string) (v T, err error) {
	found, err := l.named(ctx, who, name)
	if err == nil && len(found) == 0 {
		err = refused(fiber.StatusNotFound, `The %s "%s" does not exist.`, l.kind.Noun(), name)
	}
	if err != nil {
		return v, err
	}
	return found[0], nil
}

// owned returns the qualified name of the object that the path names, which the request changes.
func (l collection[T]) owned(ctx context.Context, c *fiber.Ctx) (string, error) {
	name, err := l.r.Owned(ctx, c, l.kind)
	if short := server.Param(c, "name"); errors.Is(err, seedbed.ErrNotFound) || strings.Contains(short, "/") {
		return "", l.missing(short)
	}
	return name, err
}

// called returns the qualified name of an object that the caller makes.
func (l collection[T]) called(c *fiber.Ctx, name string) (string, error) {
	if err := seedbed.CheckName(l.kind.Noun(), name); err != nil { // with a project
		return "", err
	}
	return server.CallerOf(c).Qualified(l.kind.Noun(), name)
}

// listed answers the objects whose names match the parameter limit.
func listed[T, R any](l collection[T], row func(T) R) handler {
	return func(ctx context.Context, c *fiber.Ctx, f *fields) error {
		m := f.match()
		if f.err != nil {
			return f.err
		}
		found, err := l.matching(ctx, server.CallerOf(c), m)
		if err != nil {
			return err
		}
		return rows(c, found, row, l.none)
	}
}

// element answers the object that the path names, in a list as PVC does.
func element[T, R any](l collection[T], row func(T) R) handler {
	return func(ctx context.Context, c *fiber.Ctx, _ *fields) error {
		found, err := l.named(ctx, server.CallerOf(c), server.Param(c, "name"))
		if err != nil {
			return err
		}
		return rows(c, found, row, l.none)
	}
}

// removed deletes the object that the path names.
func removed[T any](l collection[T], remove func(context.Context, string, ...func(T) error) error) handler {
	return func(ctx context.Context, c *fiber.Ctx, _ *fields) error {
		name, err := l.owned(ctx, c)
		if err == nil {
			err = remove(ctx, name)
		}
		if errors.Is(err, seedbed.ErrInUse) || errors.Is(err, seedbed.ErrConflict) {
			return refused(fiber.StatusBadRequest, "Failed to delete entry %q: %s", server.Param(c, "name"), server.Sentence(err.Error()))
		}
		if err != nil {
			return err
		}
		return say(c, `Removed %s "%s".`, l.word(), server.Param(c, "name"))
	}
}

// shownNow returns the object of that name as row shows it, for the audit log; nil if there is none.
func shownNow[T, R any](ctx context.Context, l collection[T], who server.Caller, name string, row func(T) R) (any, error) {
	found, err := l.named(ctx, who, name)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return row(found[0]), nil
}
