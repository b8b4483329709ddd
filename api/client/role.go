package client

import (
	"context"
	"fmt"

	"seedbed"
	"seedbed/api/wire"
)

// Whoami returns who the caller is, and what it may do in the project that the client acts in.
func (c *Client) Whoami(ctx context.Context) (wire.Whoami, error) {
	return get[wire.Whoami](ctx, c, "/whoami", nil)
}

// Actions lists all actions.
func (c *Client) Actions(ctx context.Context) ([]seedbed.ActionInfo, error) {
	return get[[]seedbed.ActionInfo](ctx, c, "/actions", nil)
}

// Roles lists the roles, the built-in ones included.
func (c *Client) Roles(ctx context.Context) ([]wire.Role, error) {
	return c.ListRoles(ctx, Selection{})
}

// Role returns a role, or seedbed.ErrNotFound.
func (c *Client) Role(ctx context.Context, name string) (wire.Role, error) {
	return get[wire.Role](ctx, c, at("/roles", name), nil)
}

// AddRole creates a role.
func (c *Client) AddRole(ctx context.Context, r wire.RoleRequest) (wire.Role, error) {
	return post[wire.Role](ctx, c, "/roles", r)
}

// ChangeRole replaces the description and the actions of a role by those of r, if it is still at r's
// revision, and returns it as it is then.
func (c *Client) ChangeRole(ctx context.Context, r wire.Role) (wire.Role, error) {
	tag := fmt.Sprintf(`"%d-%d"`, r.Revision, r.Created.UnixMicro())
	return put[wire.Role](ctx, c, at("/roles", string(r.Name)), tag, wire.RoleDefinition{Description: r.Description, Actions: r.Actions})
}

// DeleteRole removes a role. It returns seedbed.ErrInUse, naming the tokens that have it.
func (c *Client) DeleteRole(ctx context.Context, name string) error {
	return c.remove(ctx, at("/roles", name))
}
