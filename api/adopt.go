package api

import (
	"context"
	"strings"

	"seedbed"

	"github.com/gofiber/fiber/v2"
)

// Adoptions makes jobs that start or stop managing domains. A job is durable before the method
// returns.
type Adoptions interface {
	// Adopt takes a domain and its disks under management.
	Adopt(ctx context.Context, f seedbed.ForeignDomain, req seedbed.AdoptRequest) (seedbed.Receipt, error)
	// Forget stops managing an instance. Its domain and disks stay.
	Forget(ctx context.Context, instance string) (seedbed.Receipt, error)
}

// Strangers lists the domains on the workers that belong to no instance. An empty node means all
// nodes.
type Strangers interface {
	ForeignDomains(ctx context.Context, node string) ([]seedbed.ForeignDomain, error)
	ForeignDomain(ctx context.Context, node, name string) (seedbed.ForeignDomain, error)
}

// domains lists the domains that can be adopted, in short form.
func (r *router) domains(ctx context.Context, c *fiber.Ctx) error {
	node, err := nodeQuery(c)
	if err != nil {
		return err
	}
	all, err := r.Strangers.ForeignDomains(ctx, node)
	if err != nil {
		return err
	}
	return reply(c, fiber.StatusOK, all)
}

// foreign returns the domain that the path names. A foreign domain may have a name that no instance
// could have, so only the length of the name is checked.
func (r *router) foreign(ctx context.Context, c *fiber.Ctx) (seedbed.ForeignDomain, error) {
	n := c.Params("name")
	if len(n) > 255 {
		return seedbed.ForeignDomain{}, invalid("the domain's name has %d characters: want at most 255", len(n))
	}
	node, err := nodeQuery(c)
	if err != nil {
		return seedbed.ForeignDomain{}, err
	}
	return r.Strangers.ForeignDomain(ctx, node, strings.Clone(n))
}

// nodeQuery returns the node that the query names, or an empty string for all nodes.
func nodeQuery(c *fiber.Ctx) (string, error) {
	node := strings.Clone(c.Query("node"))
	if node == "" {
		return "", nil
	}
	return node, seedbed.CheckName("node", node)
}

func (r *router) domain(ctx context.Context, c *fiber.Ctx) error {
	f, err := r.foreign(ctx, c)
	if err != nil {
		return err
	}
	return reply(c, fiber.StatusOK, f)
}

// adopt starts the job that adopts the domain. The body is optional.
func (r *router) adopt(ctx context.Context, c *fiber.Ctx) error {
	var req seedbed.AdoptRequest
	if c.Context().Request.Header.ContentLength() != 0 {
		if err := receive(c, &req); err != nil {
			return err
		}
	}
	f, err := r.foreign(ctx, c)
	if err != nil {
		return err
	}
	receipt, err := r.Adoptions.Adopt(ctx, f, req)
	if err != nil {
		return err
	}
	return accepted(c, receipt)
}

func (r *router) forget(ctx context.Context, c *fiber.Ctx) error {
	i, err := r.named(ctx, c)
	if err != nil {
		return err
	}
	receipt, err := r.Adoptions.Forget(ctx, i.Name)
	if err != nil {
		return err
	}
	return accepted(c, receipt)
}
