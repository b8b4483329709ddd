package client

import (
	"context"
	"net/http"
)

// ScriptOptions holds the privilege and the limits of a provisioning script, and whether it always
// runs. An empty Time or Memory means the worker's limit.
type ScriptOptions struct {
	Privileged bool   `json:"privileged"`
	Network    bool   `json:"network"`
	Always     bool   `json:"always"`
	Time       string `json:"time"`
	Memory     string `json:"memory"`
}

// ScriptOptionsRequest changes the options of a script. Nil fields change nothing.
type ScriptOptionsRequest struct {
	Privileged *bool   `json:"privileged,omitempty"`
	Network    *bool   `json:"network,omitempty"`
	Always     *bool   `json:"always,omitempty"`
	Time       *string `json:"time,omitempty"`
	Memory     *string `json:"memory,omitempty"`
}

// ScriptOptions returns the options of a script.
func (c *Client) ScriptOptions(ctx context.Context, name string) (ScriptOptions, error) {
	return get[ScriptOptions](ctx, c, at(provisioner+"/script", name)+"/options", nil)
}

// ChangeScriptOptions changes the options of a script.
func (c *Client) ChangeScriptOptions(ctx context.Context, name string, r ScriptOptionsRequest) (string, error) {
	return c.tell(ctx, http.MethodPut, at("/script", name)+"/options", r)
}
