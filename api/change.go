package api

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"seedbed"

	"github.com/gofiber/fiber/v2"
)

// changeKey is the key of the audit record among the locals of a request that changes something.
const changeKey = "seedbed.change"

// changing returns ctx for the work of a request. If the request may change something, the context
// also carries, for the audit log, the caller and the object's previous state.
func (r *router) changing(ctx context.Context, c *fiber.Ctx) context.Context {
	if c.Method() == fiber.MethodGet || c.Method() == fiber.MethodHead {
		return ctx
	}
	who := callerOf(c)
	change := &seedbed.Change{Actor: who.name, Role: who.role, From: who.peer, Token: who.token, Quota: who.quota,
		Request: c.Method() + " " + strings.ToValidUTF8(c.Path(), "?"), Before: r.shown(ctx, c.Path())}
	c.Locals(changeKey, change)
	return seedbed.WithChange(ctx, change)
}

// noteAsked stores the request's input for the audit log.
func noteAsked(c *fiber.Ctx, body []byte) {
	change, ok := c.Locals(changeKey).(*seedbed.Change)
	if !ok {
		return
	}
	var v any
	if json.Unmarshal(body, &v) == nil {
		change.Asked = encode(v)
	}
}

// withholdSecrets removes from the audit log's copy of a request the parameters that the profile
// declares as secrets. If the profile cannot be read, it removes all parameters.
func (r *router) withholdSecrets(ctx context.Context, c *fiber.Ctx, profile string, params map[string]any) {
	change, ok := c.Locals(changeKey).(*seedbed.Change)
	if !ok || len(params) == 0 || change.Asked == nil {
		return
	}
	p, err := r.Store.Profile(ctx, profile)
	secret := map[string]bool{}
	open := err != nil || p.Script != "" // an undeclared parameter of a script is an argument, which may be a password
	for _, declared := range p.Params {
		secret[declared.Name] = declared.Type == seedbed.ParamSecret
	}
	var asked map[string]any
	if json.Unmarshal(change.Asked, &asked) != nil {
		return
	}
	kept, _ := asked["params"].(map[string]any)
	for name, v := range kept {
		if hide, declared := secret[name]; hide || open && !declared {
			kept[name] = fmt.Sprintf("(%d bytes)", len(fmt.Sprint(v)))
		}
	}
	change.Asked = encode(asked)
}

// shown returns the object that a path is about, as the API shows it. It returns nil if the object
// does not exist.
func (r *router) shown(ctx context.Context, path string) json.RawMessage {
	parts := strings.Split(strings.TrimPrefix(path, prefix+"/"), "/")
	if len(parts) < 2 {
		return nil
	}
	var v any
	var err error
	switch name := parts[1]; parts[0] {
	case "profiles":
		v, err = r.Store.Profile(ctx, name)
	case "hooks":
		v, err = r.Store.Hook(ctx, name)
	case "endpoints":
		v, err = r.Store.Endpoint(ctx, name)
	case "instances", "vm":
		v, err = r.Store.InstanceByName(ctx, name)
	case "images":
		v, err = r.Store.Image(ctx, name)
	case "provisioner":
		v, err = r.shownComposed(ctx, parts[1:])
	case "templates", "userdata", "scripts", "ovas":
		v, err = r.shownObject(ctx, parts)
	case "networks":
		v, err = r.Store.Network(ctx, name)
	case "nodes":
		v, err = r.shownNodeSettings(ctx, name)
	case "tokens":
		v, err = r.shownToken(ctx, name)
	default:
		return nil
	}
	if err != nil || v == nil {
		return nil // the handler reports what is wrong with the request
	}
	b, err := json.Marshal(v)
	if err != nil || json.Unmarshal(b, &v) != nil {
		return nil
	}
	return encode(v)
}

// shownObject returns an object that a profile can name, without the content of a document, which may
// hold secrets.
func (r *router) shownObject(ctx context.Context, parts []string) (any, error) {
	kind, name := parts[0], parts[1]
	if kind == "templates" {
		if len(parts) < 3 {
			return nil, nil
		}
		kind, name = parts[1], parts[2]
	}
	switch kind {
	case "system":
		return r.systemTemplates().before(ctx, name)
	case "network":
		return r.networkTemplates().before(ctx, name)
	case "storage":
		return r.storageTemplates().before(ctx, name)
	case "userdata":
		return r.userData().before(ctx, name)
	case "scripts":
		return r.scripts().before(ctx, name)
	case "ovas":
		return r.ovaImages().before(ctx, name)
	}
	return nil, nil
}

// shownToken returns a token as the API shows it, or nil if there is none of that name.
func (r *router) shownToken(ctx context.Context, name string) (any, error) {
	all, err := r.Store.Tokens(ctx)
	at := slices.IndexFunc(all, func(t seedbed.Token) bool { return t.Name == name })
	if err != nil || at < 0 {
		return nil, err
	}
	return all[at], nil
}

// withheld holds the JSON members whose values the audit log does not keep: secrets, and documents
// that may hold secrets.
var withheld = map[string]bool{
	"secret": true, "key": true, "password": true, "token": true, "user_data": true, "vendor_data": true, "payload": true, "headers": true,
	"arguments": true, "data": true, "text": true,
}

// encode returns v as JSON without the values of withheld members.
func encode(v any) json.RawMessage {
	b, err := json.Marshal(redacted(v))
	if err != nil {
		return nil
	}
	return b
}

func redacted(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			if withheld[name] && value != nil && value != "" {
				v[name] = fmt.Sprintf("(%d bytes)", len(fmt.Sprint(value)))
				continue
			}
			v[name] = redacted(value)
		}
	case []any:
		for i := range v {
			v[i] = redacted(v[i])
		}
	}
	return v
}
