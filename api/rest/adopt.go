package rest

import (
	"context"
	"strings"

	"seedbed"
	"seedbed/api/server"

	"github.com/gofiber/fiber/v2"
)

// readDomains returns the domains that can be adopted, in short form.
func (r *router) readDomains(ctx context.Context, c *fiber.Ctx) ([]seedbed.ForeignDomain, error) {
	node, err := server.NodeQuery(c)
	if err != nil {
		return nil, err
	}
	return r.Strangers.ForeignDomains(ctx, node)
}

// foreign returns the domain that the path names. A foreign domain may have a name that no instance
// could have, so only the length of the name is checked.
func (r *router) foreign(ctx context.Context, c *fiber.Ctx) (seedbed.ForeignDomain, error) {
	n := c.Params("name")
	if len(n) > 255 {
		return seedbed.ForeignDomain{}, server.Invalid("the domain's name has %d characters: expected at most 255", len(n))
	}
	node, err := server.NodeQuery(c)
	if err != nil {
		return seedbed.ForeignDomain{}, err
	}
	return r.Strangers.ForeignDomain(ctx, node, strings.Clone(n))
}

func (r *router) domain(ctx context.Context, c *fiber.Ctx) error {
	f, err := r.foreign(ctx, c)
	if err != nil {
		return err
	}
	return server.Tagged(c, server.ContentTag(f), f)
}

// adopt starts the job that adopts the domain. The body is optional.
func (r *router) adopt(ctx context.Context, c *fiber.Ctx, o seedbed.JobOptions) (seedbed.Receipt, error) {
	var req seedbed.AdoptRequest
	if err := server.ReceiveAny(c, &req); err != nil {
		return seedbed.Receipt{}, err
	}
	f, err := r.foreign(ctx, c)
	if err != nil {
		return seedbed.Receipt{}, err
	}
	// The domain is not in the database: the job works on what was read here.
	if err := server.Matches(c, server.ContentTag(f)); err != nil {
		return seedbed.Receipt{}, err
	}
	return r.Adoptions.Adopt(ctx, f, req, o)
}

func (r *router) forget(ctx context.Context, c *fiber.Ctx, o seedbed.JobOptions) (seedbed.Receipt, error) {
	i, err := r.named(ctx, c)
	if err != nil {
		return seedbed.Receipt{}, err
	}
	return r.Adoptions.Forget(ctx, i.FullName(), o)
}
