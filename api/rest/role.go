package rest

import (
	"context"
	"errors"
	"slices"
	"strings"

	"seedbed"
	"seedbed/api/server"
	"seedbed/api/wire"

	"github.com/gofiber/fiber/v2"
)

// whoami answers who the caller is, and what it may do.
func (r *router) whoami(_ context.Context, c *fiber.Ctx) error {
	who := server.CallerOf(c)
	return server.Reply(c, fiber.StatusOK, wire.Whoami{
		Name: who.Name, Project: who.Project, Role: who.Grant.Role, Grants: who.Grants, Actions: who.Actions().List(),
	})
}

func (r *router) actions(_ context.Context, c *fiber.Ctx) error {
	return server.Reply(c, fiber.StatusOK, seedbed.ActionTable())
}

// roles lists the built-in roles and those that were made.
func (r *router) roles() listing[wire.Role] {
	return listing[wire.Role]{
		kind: "role", name: func(one wire.Role) string { return string(one.Name) },
		read: func(ctx context.Context, _ *fiber.Ctx) ([]wire.Role, error) {
			made, err := r.Store.CustomRoles(ctx)
			all := append(server.Each(seedbed.Roles(), builtInRole), server.Each(made, roleOf)...)
			slices.SortFunc(all, func(a, b wire.Role) int { return strings.Compare(string(a.Name), string(b.Name)) })
			return all, err
		},
	}
}

// roleOf returns a role that was made, with all its actions.
func roleOf(r seedbed.CustomRole) wire.Role {
	return wire.Role{CustomRole: r, Expanded: r.Set().List()}
}

func builtInRole(name seedbed.Role) wire.Role {
	set, _ := name.BuiltIn()
	texts := server.Each(set.List(), func(a seedbed.Action) string { return string(a) })
	slices.Sort(texts)
	made := seedbed.CustomRole{Name: name, Description: name.Description(), Actions: texts}
	return wire.Role{CustomRole: made, BuiltIn: true, Expanded: set.List()}
}

// roleTag returns the entity tag of a role that was made.
func roleTag(r seedbed.CustomRole) string {
	return server.RevisionTag(r.Revision, r.Created.UnixMicro())
}

// roleName returns the role that the path names.
func roleName(c *fiber.Ctx) (seedbed.Role, error) {
	n, err := server.NameOf(c, "role")
	return seedbed.Role(n), err
}

func (r *router) role(ctx context.Context, c *fiber.Ctx) error {
	name, err := roleName(c)
	if err != nil {
		return err
	}
	if _, ok := name.BuiltIn(); ok {
		one := builtInRole(name)
		return server.Tagged(c, server.ContentTag(one), one)
	}
	made, err := r.Store.Role(ctx, name)
	if err != nil {
		return err
	}
	return server.Tagged(c, roleTag(made), roleOf(made))
}

// within returns ErrForbidden if a role has actions that the caller has not: no caller makes a role that
// may do more than the caller.
func within(who server.Caller, made seedbed.CustomRole) error {
	return mayGive(who, made.Name, made.Set())
}

// mayGive returns ErrForbidden if a set of actions, which is that of a role, has some that the caller has
// not.
func mayGive(who server.Caller, role seedbed.Role, set seedbed.ActionSet) error {
	const most = 5
	lacks := server.Each(set.Without(who.Actions()), func(a seedbed.Action) string { return string(a) })
	switch {
	case len(lacks) == 0:
		return nil
	case len(lacks) > most:
		lacks = append(lacks[:most], "…")
	}
	return seedbed.Errorf(seedbed.ErrForbidden,
		"%s has the role %s in project %s, which does not have %s: it cannot give these by the role %s",
		who.Name, who.Grant.Role, who.Grant.Project, strings.Join(lacks, ", "), role)
}

func (r *router) createRole(ctx context.Context, c *fiber.Ctx) error {
	var req wire.RoleRequest
	if err := server.Receive(c, &req); err != nil {
		return err
	}
	asked := seedbed.CustomRole{Name: req.Name, Description: req.Description, Actions: req.Actions}
	if err := within(server.CallerOf(c), asked); err != nil {
		return err
	}
	made, err := r.Store.CreateRole(ctx, asked)
	if err != nil {
		return err
	}
	return server.Created(c, "/roles/"+string(made.Name), roleOf(made))
}

// changeRole replaces the description and the actions of a role.
func (r *router) changeRole(ctx context.Context, c *fiber.Ctx) error {
	name, err := roleName(c)
	if err != nil {
		return err
	}
	var req wire.RoleDefinition
	if err := server.Receive(c, &req); err != nil {
		return err
	}
	who := server.CallerOf(c)
	made, err := r.Store.ChangeRole(ctx, name, func(one *seedbed.CustomRole) error {
		if err := server.Matches(c, roleTag(*one)); err != nil {
			return err
		}
		one.Description, one.Actions = req.Description, req.Actions
		return within(who, *one)
	})
	if err != nil {
		return err
	}
	return server.Tagged(c, roleTag(made), roleOf(made))
}

func (r *router) deleteRole(ctx context.Context, c *fiber.Ctx) error {
	remove := func(ctx context.Context, name string, checks ...func(seedbed.CustomRole) error) error {
		return r.Store.DeleteRole(ctx, seedbed.Role(name), checks...)
	}
	return dropTagged(ctx, c, "role", remove, roleTag)
}

// checkGrants refuses grants that the caller may not give: roles with actions that it has not, and several
// projects unless it may give these.
func (r *router) checkGrants(ctx context.Context, who server.Caller, grants []seedbed.Grant) error {
	if err := seedbed.CheckGrants(grants); err != nil {
		return err
	}
	if len(grants) > 1 {
		if err := who.Need(seedbed.ActionTokenGrant); err != nil {
			return err
		}
	}
	for _, g := range grants {
		set, err := r.setOf(ctx, g.Role)
		if err != nil {
			return err
		}
		if err := mayGive(who, g.Role, set.In(g.Project)); err != nil {
			return err
		}
	}
	return nil
}

// setOf returns the actions of a role that a request names. It returns ErrInvalid if there is none.
func (r *router) setOf(ctx context.Context, name seedbed.Role) (seedbed.ActionSet, error) {
	if set, ok := name.BuiltIn(); ok {
		return set, nil
	}
	made, err := r.Store.Role(ctx, name)
	if errors.Is(err, seedbed.ErrNotFound) {
		err = server.Invalid("role %q does not exist: expected viewer, operator, admin or one that was made", seedbed.Clip(string(name)))
	}
	return made.Set(), err
}
