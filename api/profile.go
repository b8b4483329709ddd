package api

import (
	"context"

	"seedbed"

	"github.com/gofiber/fiber/v2"
)

func (r *router) profile(ctx context.Context, c *fiber.Ctx) error {
	return show(ctx, c, "profile", r.Store.Profile, profileTag)
}

func (r *router) deleteProfile(ctx context.Context, c *fiber.Ctx) error {
	if err := unchanged(ctx, c, "profile", r.Store.Profile, profileTag); err != nil {
		return err
	}
	return drop(ctx, c, "profile", r.Store.DeleteProfile)
}

// receiveProfile reads a profile. The body must not have the fields that the server sets.
func (r *router) receiveProfile(c *fiber.Ctx) (p seedbed.Profile, err error) {
	if err := receive(c, &p, r.maxDocuments()); err != nil {
		return p, err
	}
	if p.ID != 0 || p.Revision != 0 || !p.Created.IsZero() || !p.Changed.IsZero() {
		return p, badJSON("members id, revision, created and changed are set by the server: leave them out")
	}
	return p, nil
}

func (r *router) createProfile(ctx context.Context, c *fiber.Ctx) error {
	p, err := r.receiveProfile(c)
	if err != nil {
		return err
	}
	if err := r.checkProfile(ctx, &p); err != nil {
		return err
	}
	if p, err = r.Store.CreateProfile(ctx, p); err != nil {
		return err
	}
	return created(c, "/profiles/"+p.Name, p)
}

// changeProfile replaces a profile by the body. Its name cannot change, and the body may leave it
// out.
func (r *router) changeProfile(ctx context.Context, c *fiber.Ctx) error {
	n, err := name(c, "profile")
	if err != nil {
		return err
	}
	next, err := r.receiveProfile(c)
	if err != nil {
		return err
	}
	if next.Name != "" && next.Name != n {
		return invalid("name %q: a profile keeps its name, which is %s", seedbed.Clip(next.Name), n)
	}
	next.Name = n
	if err := r.checkProfile(ctx, &next); err != nil {
		return err
	}
	p, err := r.Store.ChangeProfile(ctx, n, func(p *seedbed.Profile) error {
		if err := matches(c, profileTag(*p)); err != nil {
			return err
		}
		*p = next
		return nil
	})
	if err != nil {
		return err
	}
	return tagged(c, profileTag(p), p)
}
