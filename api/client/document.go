package client

import (
	"context"

	"seedbed"
	"seedbed/api/wire"
)

// UserDataDocuments lists the user-data documents whose names match pattern. An empty pattern
// matches all.
func (c *Client) UserDataDocuments(ctx context.Context, in seedbed.Scope, pattern string) ([]wire.UserData, error) {
	return matching(ctx, c, "/userdata", in, pattern, func(d wire.UserData) string { return d.Name })
}

// UserDataDocument returns a user-data document, or seedbed.ErrNotFound.
func (c *Client) UserDataDocument(ctx context.Context, name string) (wire.UserData, error) {
	return get[wire.UserData](ctx, c, at("/userdata", name), nil)
}

// CreateUserData creates a user-data document. It is served byte for byte.
func (c *Client) CreateUserData(ctx context.Context, r wire.UserDataRequest) (wire.UserData, error) {
	return post[wire.UserData](ctx, c, "/userdata", r)
}

// ChangeUserData replaces the content of a user-data document. If d was read before and the document
// was changed since, the error is seedbed.ErrConflict.
func (c *Client) ChangeUserData(ctx context.Context, d wire.UserData) (wire.UserData, error) {
	return put[wire.UserData](ctx, c, at("/userdata", d.Name), tagOf(d.Stored), wire.UserDataRequest{Data: d.Data})
}

// DeleteUserData deletes a user-data document that no profile names.
func (c *Client) DeleteUserData(ctx context.Context, name string) error {
	return c.remove(ctx, at("/userdata", name))
}

// Scripts lists the provisioning scripts whose names match pattern. An empty pattern matches all.
func (c *Client) Scripts(ctx context.Context, in seedbed.Scope, pattern string) ([]wire.Script, error) {
	return matching(ctx, c, "/scripts", in, pattern, func(s wire.Script) string { return s.Name })
}

// Script returns a provisioning script, or seedbed.ErrNotFound.
func (c *Client) Script(ctx context.Context, name string) (wire.Script, error) {
	return get[wire.Script](ctx, c, at("/scripts", name), nil)
}

// CreateScript creates a provisioning script.
func (c *Client) CreateScript(ctx context.Context, r wire.ScriptRequest) (wire.Script, error) {
	return post[wire.Script](ctx, c, "/scripts", r)
}

// ChangeScript replaces the text of a script. If s was read before and the script was changed since,
// the error is seedbed.ErrConflict.
func (c *Client) ChangeScript(ctx context.Context, s wire.Script) (wire.Script, error) {
	return put[wire.Script](ctx, c, at("/scripts", s.Name), tagOf(s.Stored), wire.ScriptRequest{Text: s.Text})
}

// ChangeScriptOptions changes the options of a script.
func (c *Client) ChangeScriptOptions(ctx context.Context, name string, change wire.ScriptOptionsChange) (wire.Script, error) {
	return patch[wire.Script](ctx, c, at("/scripts", name)+"/options", change)
}

// DeleteScript deletes a script that no profile names.
func (c *Client) DeleteScript(ctx context.Context, name string) error {
	return c.remove(ctx, at("/scripts", name))
}
