package rest

import (
	"context"

	"seedbed"
	"seedbed/api/server"
	"seedbed/api/wire"

	"github.com/gofiber/fiber/v2"
)

// projects lists the projects that the caller sees: its own or, from the default project, all.
func (r *router) projects() listing[seedbed.Project] {
	return listing[seedbed.Project]{
		kind: "project", name: func(p seedbed.Project) string { return p.Name },
		read: func(ctx context.Context, c *fiber.Ctx) ([]seedbed.Project, error) {
			if who := server.CallerOf(c); !who.Home {
				own, err := r.Store.Project(ctx, who.Project)
				return []seedbed.Project{own}, err
			}
			return r.Store.Projects(ctx)
		},
	}
}

// project answers the project that the path names, with what it uses. To a caller from another project
// it does not exist.
func (r *router) project(ctx context.Context, c *fiber.Ctx) error {
	n, err := server.NameOf(c, "project")
	if err != nil {
		return err
	}
	if who := server.CallerOf(c); !who.Home && n != who.Project {
		return seedbed.NoProject(n)
	}
	p, err := r.Store.Project(ctx, n)
	if err != nil {
		return err
	}
	used, err := r.Store.ProjectUse(ctx, n)
	if err != nil {
		return err
	}
	return server.Tagged(c, projectTag(p), wire.ProjectStatus{Project: p, Used: used})
}

// projectTag returns the entity tag of a project. A later project never has the number of this one.
func projectTag(p seedbed.Project) string { return server.RevisionTag(p.Revision, p.Number) }

func (r *router) createProject(ctx context.Context, c *fiber.Ctx) error {
	var req wire.ProjectRequest
	if err := server.Receive(c, &req); err != nil {
		return err
	}
	p, err := r.Store.CreateProject(ctx, seedbed.Project{Name: req.Name, Description: req.Description, Quota: req.Quota})
	if err != nil {
		return err
	}
	return server.Created(c, "/projects/"+p.Name, p)
}

// changeProject changes the fields that the body has, and leaves the rest.
func (r *router) changeProject(ctx context.Context, c *fiber.Ctx) error {
	var req wire.ProjectChange
	return r.modifyProject(ctx, c, &req, func(p *seedbed.Project) error {
		if req.Description == nil {
			return server.Invalid("nothing to change: expected description")
		}
		p.Description = *req.Description
		return nil
	})
}

// setProjectQuota sets the quota of a project. It applies from now on.
func (r *router) setProjectQuota(ctx context.Context, c *fiber.Ctx) error {
	var q seedbed.ProjectQuota
	return r.modifyProject(ctx, c, &q, func(p *seedbed.Project) error {
		p.Quota = q
		return nil
	})
}

// modifyProject reads the body into req, applies a change to the project that the path names, unless the
// request has an If-Match header that does not match, and answers the project as it is then.
func (r *router) modifyProject(ctx context.Context, c *fiber.Ctx, req any, change func(*seedbed.Project) error) error {
	n, err := server.NameOf(c, "project")
	if err != nil {
		return err
	}
	if err := server.Receive(c, req); err != nil {
		return err
	}
	p, err := r.Store.ChangeProject(ctx, n, func(p *seedbed.Project) error {
		if err := server.Matches(c, projectTag(*p)); err != nil {
			return err
		}
		return change(p)
	})
	if err != nil {
		return err
	}
	return server.Tagged(c, projectTag(p), p)
}

func (r *router) deleteProject(ctx context.Context, c *fiber.Ctx) error {
	return dropTagged(ctx, c, "project", r.Store.DeleteProject, projectTag)
}
