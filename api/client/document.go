package client

import (
	"context"
	"net/http"
)

// UserDataDocument is user-data that profiles share, as PVC shows it.
type UserDataDocument struct {
	ID   int64  `json:"id"`
	Name string `json:"name"`
	Data string `json:"userdata"`
}

// Script is a provisioning script, as PVC shows it.
type Script struct {
	ID   int64  `json:"id"`
	Name string `json:"name"`
	Text string `json:"script"`
}

// document is the body of a request that sets a document.
type document struct {
	Data string `json:"data"`
}

// UserDataDocuments lists the documents whose names match limit. An empty limit matches all.
func (c *Client) UserDataDocuments(ctx context.Context, limit string) ([]UserDataDocument, error) {
	return matching[UserDataDocument](ctx, c, "/userdata", limit)
}

// UserDataDocument returns a document, or seedbed.ErrNotFound.
func (c *Client) UserDataDocument(ctx context.Context, name string) (UserDataDocument, error) {
	return element[UserDataDocument](ctx, c, "/userdata", "userdata document", name)
}

// AddUserData creates a document. It is served byte for byte.
func (c *Client) AddUserData(ctx context.Context, name, data string) (string, error) {
	return c.tell(ctx, http.MethodPost, at("/userdata", name), document{data})
}

// ChangeUserData replaces a document.
func (c *Client) ChangeUserData(ctx context.Context, name, data string) (string, error) {
	return c.tell(ctx, http.MethodPut, at("/userdata", name), document{data})
}

// RemoveUserData removes a document that no profile names.
func (c *Client) RemoveUserData(ctx context.Context, name string) (string, error) {
	return c.tell(ctx, http.MethodDelete, at("/userdata", name), nil)
}

// Scripts lists the scripts whose names match limit. An empty limit matches all.
func (c *Client) Scripts(ctx context.Context, limit string) ([]Script, error) {
	return matching[Script](ctx, c, "/script", limit)
}

// Script returns a script, or seedbed.ErrNotFound.
func (c *Client) Script(ctx context.Context, name string) (Script, error) {
	return element[Script](ctx, c, "/script", "provisioning script", name)
}

// AddScript creates a script.
func (c *Client) AddScript(ctx context.Context, name, text string) (string, error) {
	return c.tell(ctx, http.MethodPost, at("/script", name), document{text})
}

// ChangeScript replaces the text of a script.
func (c *Client) ChangeScript(ctx context.Context, name, text string) (string, error) {
	return c.tell(ctx, http.MethodPut, at("/script", name), document{text})
}

// RemoveScript removes a script that no profile names.
func (c *Client) RemoveScript(ctx context.Context, name string) (string, error) {
	return c.tell(ctx, http.MethodDelete, at("/script", name), nil)
}
