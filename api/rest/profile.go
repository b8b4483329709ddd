package rest

import (
	"bytes"
	"context"
	"net/url"

	"seedbed"
	"seedbed/api/server"

	"github.com/gofiber/fiber/v2"
)

func (r *router) profile(ctx context.Context, c *fiber.Ctx) error {
	n, err := r.Visible(ctx, c, seedbed.PublishedProfile)
	if err != nil {
		return err
	}
	p, err := r.Store.Profile(ctx, n)
	if err != nil {
		return err
	}
	return tellProfile(c, p)
}

// tellProfile answers a profile as the caller may see it, with its entity tag.
func tellProfile(c *fiber.Ctx, p seedbed.Profile) error {
	p = server.ShownProfile(server.CallerOf(c), p)
	return server.Tagged(c, server.ProfileTag(p), p)
}

func (r *router) deleteProfile(ctx context.Context, c *fiber.Ctx) error {
	n, err := r.Owned(ctx, c, seedbed.PublishedProfile)
	if err != nil {
		return err
	}
	if err := r.Store.DeleteProfile(ctx, n, server.IfMatch(c, server.ProfileTag)); err != nil {
		return err
	}
	c.Status(fiber.StatusNoContent)
	return nil
}

// receiveProfile reads a profile. The body must not have the fields that the server sets.
func (r *router) receiveProfile(c *fiber.Ctx) (p seedbed.Profile, err error) {
	if err := server.ReceiveUpTo(c, &p, r.MaxDocuments()); err != nil {
		return p, err
	}
	if p.ID != 0 || p.Revision != 0 || !p.Created.IsZero() || !p.Changed.IsZero() || p.Published != nil {
		return p, server.BadJSON("members id, revision, created, changed and published are set by the server: leave them out")
	}
	return p, nil
}

func (r *router) createProfile(ctx context.Context, c *fiber.Ctx) error {
	p, err := r.receiveProfile(c)
	if err != nil {
		return err
	}
	if p.Name, err = server.CallerOf(c).Qualified("profile", p.Name); err != nil {
		return err
	}
	if err := r.checkProfile(ctx, &p); err != nil {
		return err
	}
	if err := checkDocuments(ctx, c, p, seedbed.Profile{}); err != nil {
		return err
	}
	if p, err = r.Store.CreateProfile(ctx, p); err != nil {
		return err
	}
	return server.Created(c, "/profiles/"+url.PathEscape(p.Name), server.ShownProfile(server.CallerOf(c), p))
}

// changeProfile replaces a profile by the body. Its name cannot change, and the body may leave it
// out.
func (r *router) changeProfile(ctx context.Context, c *fiber.Ctx) error {
	n, err := r.Owned(ctx, c, seedbed.PublishedProfile)
	if err != nil {
		return err
	}
	next, err := r.receiveProfile(c)
	if err != nil {
		return err
	}
	if err := keepsName(seedbed.PublishedProfile, next.Name, n); err != nil {
		return err
	}
	next.Name = n
	if err := r.checkProfile(ctx, &next); err != nil {
		return err
	}
	before, err := r.Store.Profile(ctx, n)
	if err != nil {
		return err
	}
	if err := checkDocuments(ctx, c, next, before); err != nil {
		return err
	}
	p, err := r.Store.ChangeProfile(ctx, n, func(p *seedbed.Profile) error {
		if err := server.Matches(c, server.ProfileTag(*p)); err != nil {
			return err
		}
		*p = next
		return nil
	})
	if err != nil {
		return err
	}
	return tellProfile(c, p)
}

// checkDocuments refuses user-data and vendor-data that no guest can use, unless the profile had it
// before.
func checkDocuments(ctx context.Context, c *fiber.Ctx, p, before seedbed.Profile) error {
	for _, d := range []struct {
		name      string
		data, was []byte
	}{{"user_data", p.UserData, before.UserData}, {"vendor_data", p.VendorData, before.VendorData}} {
		if bytes.Equal(d.data, d.was) {
			continue
		}
		if err := server.CheckUserData(ctx, c, d.name, d.data); err != nil {
			return err
		}
	}
	return nil
}
