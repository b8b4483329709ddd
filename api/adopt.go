package api

import (
	"context"
	"strings"

	"seedbed"

	"github.com/gofiber/fiber/v2"
)

// Adoptions makes jobs that change whose machines are, durable before it returns.
type Adoptions interface {
	// Adopt takes a domain and its disks under management.
	Adopt(ctx context.Context, f seedbed.ForeignDomain, req seedbed.AdoptRequest) (seedbed.Receipt, error)
	// Forget lets go of an instance, whose domain and disks stay.
	Forget(ctx context.Context, instance string) (seedbed.Receipt, error)
}

// Strangers are the domains that are nobody's instances, on the workers: those of
// one node or, without its name, of all.
type Strangers interface {
	ForeignDomains(ctx context.Context, node string) ([]seedbed.ForeignDomain, error)
	ForeignDomain(ctx context.Context, node, name string) (seedbed.ForeignDomain, error)
}

// domains are those that could be adopted, in short.
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

// foreign is the domain that the path names. Others' domains have names that no
// instance could have, so that only their length is looked at.
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

// nodeQuery is the node that the query names; empty for all.
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

// adopt starts the job that takes the domain over. The body may be left out.
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
